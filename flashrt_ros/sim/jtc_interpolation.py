"""A joint trajectory as plain data, and what the emulated controller reads from it at a given time.

Owns: TrajectoryPoint, Trajectory, MotionState, interpolation, sampling. numpy only; must not import ROS, MuJoCo or the
controller. Upstream is ros-controls/ros2_controllers, branch jazzy at ed360c97 (4.42.1, 2026-08-16), package
joint_trajectory_controller; a citation below names file and function there. See jtc.py for what is not emulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flashrt_ros.errors import FlashRTError


class JtcError(FlashRTError):
    """The emulated controller is used wrongly (not: a trajectory that it rejects)."""


@dataclass(frozen=True, slots=True, eq=False)
class TrajectoryPoint:
    """A trajectory_msgs/JointTrajectoryPoint: one number per named joint in rad, rad/s, rad/s^2 and Nm, or none.

    Any length and any value is taken here: the controller judges them, as it does with a message. The arrays (float64)
    are copied and read-only. Raises JtcError on arrays that are not one-dimensional numbers.
    """

    positions: np.ndarray = ()
    velocities: np.ndarray = ()
    accelerations: np.ndarray = ()
    time_from_start_ns: int = 0
    effort: np.ndarray = ()

    def __post_init__(self) -> None:
        for name in ("positions", "velocities", "accelerations", "effort"):
            try:
                values = np.array(getattr(self, name), dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise JtcError(f"trajectory point: {name} are not numbers ({error}); give one per joint") from error
            if values.ndim != 1:
                raise JtcError(f"trajectory point: {name} have shape {values.shape}; give one number per joint")
            values.flags.writeable = False
            object.__setattr__(self, name, values)


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """A trajectory_msgs/JointTrajectory. stamp_ns: header.stamp in ns on the controller's clock; 0: start now."""

    joint_names: tuple[str, ...]
    points: tuple[TrajectoryPoint, ...]
    stamp_ns: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "joint_names", tuple(self.joint_names))
        object.__setattr__(self, "points", tuple(self.points))


class MotionState(NamedTuple):
    """Positions [N] rad; velocities [N] rad/s and accelerations [N] rad/s^2, or None where not given."""

    positions: np.ndarray
    velocities: np.ndarray | None = None
    accelerations: np.ndarray | None = None

    def filled(self) -> MotionState:
        """The same state with zeros for derivatives that are not given."""
        zero = np.zeros_like(self.positions)
        return MotionState(
            self.positions,
            zero if self.velocities is None else self.velocities,
            zero if self.accelerations is None else self.accelerations,
        )


class Sample(NamedTuple):
    """What a trajectory says at one time.

    state: all three arrays are present. knot_ns: absolute time of the point that begins the sampled segment (of the
    first point while that is ahead, of the last one after the end). ended: the last point was reached.
    """

    state: MotionState
    knot_ns: int
    ended: bool


def interpolate(start: MotionState, end: MotionState, duration_s: float, t_s: float) -> MotionState:
    """The state t_s seconds into the segment from `start` to `end` (duration_s > 0, 0 <= t_s <= duration_s).

    The order follows what both ends give: positions -> linear; and velocities -> cubic; and accelerations -> quintic
    (trajectory.cpp, interpolate_between_points). Accelerations without velocities match none of upstream's three cases,
    and its output keeps its initial zeros: the robot is commanded to position zero. That is kept here; never send it.
    """
    has_velocity = start.velocities is not None and end.velocities is not None
    has_acceleration = start.accelerations is not None and end.accelerations is not None
    p0, T = start.positions, duration_s
    if has_acceleration and not has_velocity:
        return MotionState(np.zeros_like(p0)).filled()
    mean = (end.positions - p0) / T
    if not has_velocity:
        return _polynomial([p0, mean], t_s)
    v0, v1 = start.velocities, end.velocities
    if not has_acceleration:
        return _polynomial([p0, v0, (3 * mean - 2 * v0 - v1) / T, (v0 + v1 - 2 * mean) / T**2], t_s)
    a0 = start.accelerations
    # How far the end's position, velocity and acceleration are from those of keeping a0 throughout, all as lengths.
    p = (mean - v0) * T - a0 * (T**2 / 2)
    v = (v1 - v0) * T - a0 * T**2
    a = (end.accelerations - a0) * (T**2 / 2)
    c3, c4, c5 = 10 * p - 4 * v + a, -15 * p + 7 * v - 2 * a, 6 * p - 3 * v + a
    return _polynomial([p0, v0, a0 / 2, c3 / T**3, c4 / T**4, c5 / T**5], t_s)


def _polynomial(coefficients: Sequence[np.ndarray], t: float) -> MotionState:
    """Value, first and second derivative at t of the polynomial with these coefficients, lowest first (Horner)."""
    p = v = half_a = np.zeros_like(coefficients[0])
    for c in reversed(coefficients):
        half_a = half_a * t + v
        v = v * t + p
        p = p * t + c
    return MotionState(p, v, 2 * half_a)


class Sampler:
    """An accepted trajectory under way, sampled at (normally) rising times from the state before its first point.

    points: at least one, arrays in the controller's joint order, positions always given, times strictly rising.
    now_ns: the time of the first sample. before, before_ns: the state that the motion starts from, and its time.
    """

    def __init__(
        self,
        points: Sequence[TrajectoryPoint],
        stamp_ns: int,
        now_ns: int,
        before: MotionState,
        before_ns: int,
        method: str = "splines",
    ) -> None:
        # trajectory.cpp, sample: stamp 0 becomes the time of the first sample, not that of the reception.
        start_ns = stamp_ns if stamp_ns != 0 else now_ns
        self._times = [start_ns + point.time_from_start_ns for point in points]
        self._states = [MotionState(p.positions, _given(p.velocities), _given(p.accelerations)) for p in points]
        # trajectory.cpp, set_point_before_trajectory_msg: derivatives missing before the first point count as zero.
        self._before, self._before_ns = before.filled(), before_ns
        self._splines = method == "splines"
        self._index = 0

    def sample(self, time_ns: int, advance: bool = True) -> Sample | None:
        """The trajectory at time_ns; None if that lies before the state it starts from (a clock that ran backwards).

        `advance`: later searches begin at this segment (trajectory.cpp, sample, search_monotonically_increasing).
        """
        if time_ns < self._before_ns:
            return None
        times, states = self._times, self._states
        # trajectory.cpp, sample: until the first point is due, the motion leads from the state before to it; one that
        # is due already is entered without transition.
        if time_ns < times[0]:
            state = self._between(self._before, self._before_ns, states[0], times[0], time_ns)
            return Sample(state, times[0], ended=False)
        last = len(times) - 1
        for i in range(self._index, last):
            if times[i] <= time_ns < times[i + 1]:
                if advance:
                    self._index = i
                state = self._between(states[i], times[i], states[i + 1], times[i + 1], time_ns)
                return Sample(state, times[i], ended=False)
        # trajectory.cpp, sample: after the end the last point stands, its velocity included. Jazzy moves the search
        # index to the end even for a look ahead. A time before the searched segments ends up here too: a clock that
        # steps back within a trajectory makes the controller jump to the last point.
        self._index = last
        return Sample(states[last].filled(), times[last], ended=True)

    def _between(self, start: MotionState, start_ns: int, end: MotionState, end_ns: int, time_ns: int) -> MotionState:
        if self._splines:
            return interpolate(start, end, (end_ns - start_ns) * 1e-9, (time_ns - start_ns) * 1e-9)
        # trajectory.cpp, sample, method none: the state before until the first point is due, then the coming point.
        return start if start is self._before else end.filled()


def _given(values: np.ndarray) -> np.ndarray | None:
    return values if values.size else None
