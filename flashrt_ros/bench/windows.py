"""Trajectory windows, judged by what an executor makes of them: limits at every point and between, rest at the end, no step
where one takes over from another. Knows nothing of how the player plans. numpy only; must not import ROS.

An executor (ros2_control's joint_trajectory_controller) follows a cubic Hermite between points, leaves a window for a new one as
soon as that comes, and stays at the last point of the last one. So if every window keeps the limits as a whole, and takes over
without a step, whatever is executed of them keeps the limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import numpy as np

from flashrt_ros.player.limits import Limits

# Of rad, rad/s and rad/s^2: what a player's arithmetic in float64 may be off by.
TOLERANCE = 1e-6
# A window that comes later than the time for which it repeats the one before takes over with a step. Allowed is what the
# acceleration limit allows in so many s, a control tick of the player at 50 Hz: how late a window is depends on the machine, and
# differs between executors.
STEP_S = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """times_ns int64 [K], rising; positions, velocities float64 [K, N] in rad or m and per s, NaN for what the message lacked.
    received_ns: when it came, on the same clock."""

    received_ns: int
    times_ns: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray

    @property
    def from_ns(self) -> int:
        """When it takes over. A first point that is still ahead was due for the sender, whose clock is before ours."""
        return max(self.received_ns, int(self.times_ns[0]))

    def at(self, times_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions, velocities, accelerations [T, N] at times [T]; before its first and after its last point it stands there."""
        times_ns = np.asarray(times_ns)
        times = np.clip(times_ns, self.times_ns[0], self.times_ns[-1])
        if len(self.times_ns) == 1:
            still = np.zeros((len(times), self.positions.shape[1]))
            return self.positions[0] + still, still, still
        segment = np.clip(np.searchsorted(self.times_ns, times, "right") - 1, 0, len(self.times_ns) - 2)
        p, v, c2, c3 = (row[segment] for row in self._cubics())
        t = ((times - self.times_ns[segment]) * 1e-9)[:, None]
        inside = ((times == times_ns) & (times < self.times_ns[-1]))[:, None]
        return p + t * (v + t * (c2 + t * c3)), (v + t * (2 * c2 + t * 3 * c3)) * inside, (2 * c2 + 6 * c3 * t) * inside

    def extremes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions, velocities, accelerations [K-1, M, N] at the ends of each segment and the extremes between; M: 4, 3, 2."""
        p, v, c2, c3 = self._cubics()
        end = (np.diff(self.times_ns) * 1e-9)[:, None]
        start = np.zeros_like(p)

        def within(t: np.ndarray) -> np.ndarray:  # for a turning point that does not exist, or lies outside, one of the ends
            return np.clip(np.nan_to_num(t, nan=0.0, posinf=0.0, neginf=0.0), 0.0, end)

        with np.errstate(divide="ignore", invalid="ignore"):
            fastest = within(-c2 / (3 * c3))
            # Roots of the velocity. The usual formula loses one of them where c3 vanishes (a parabola).
            q = -(c2 + np.copysign(np.sqrt(c2 * c2 - 3 * c3 * v), c2))
            turns = [within(q / (3 * c3)), within(v / q)]
        end = end + start
        positions = [p + t * (v + t * (c2 + t * c3)) for t in (start, end, *turns)]
        velocities = [v + t * (2 * c2 + t * 3 * c3) for t in (start, end, fastest)]
        accelerations = [2 * c2 + 6 * c3 * t for t in (start, end)]
        return np.stack(positions, 1), np.stack(velocities, 1), np.stack(accelerations, 1)

    def _cubics(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Per segment the coefficients [K-1, N] of p + v t + c2 t^2 + c3 t^3, t in s since its start."""
        duration = (np.diff(self.times_ns) * 1e-9)[:, None]
        p, v, v1 = self.positions[:-1], self.velocities[:-1], self.velocities[1:]
        with np.errstate(divide="ignore", invalid="ignore"):  # times that stand still: NaN, as the window is malformed
            mean = np.diff(self.positions, axis=0) / duration
            return p, v, (3 * mean - 2 * v - v1) / duration, (v + v1 - 2 * mean) / duration**2


@dataclass(frozen=True, slots=True)
class Violation:
    """rule: malformed, position, velocity, acceleration, rest (the window's end), position_step or velocity_step (at a
    take-over), start (of a run, away from the arm). value, allowed: rad or m, per s, per s^2."""

    rule: str
    time_ns: int  # when the window came
    joint: str
    value: float
    allowed: float


def judge(window: Window, limits: Limits) -> list[Violation]:
    """What one window would do that it must not, the worst of each rule and joint."""
    rising = bool(np.all(np.diff(window.times_ns) > 0))
    broken = ~np.isfinite(window.positions).all(axis=0) | ~np.isfinite(window.velocities).all(axis=0) | (not rising)
    if broken.any():
        return _violations("malformed", window, limits, broken, np.full(len(broken), np.nan), np.full(len(broken), np.nan))
    found = []
    ends = window.positions[:, None], window.velocities[:, None], np.zeros((1, 1, len(limits.names)))
    positions, velocities, accelerations = window.extremes() if len(window.times_ns) > 1 else ends
    low, high = positions.min(axis=(0, 1)), positions.max(axis=(0, 1))
    below = limits.lower - low > high - limits.upper
    value, bound = np.where(below, low, high), np.where(below, limits.lower, limits.upper)
    beyond = np.maximum(limits.lower - low, high - limits.upper)
    found += _violations("position", window, limits, beyond > TOLERANCE, value, bound)
    for rule, values, bound in (("velocity", velocities, limits.velocity), ("acceleration", accelerations, limits.acceleration)):
        largest = np.abs(values).max(axis=(0, 1))
        found += _violations(rule, window, limits, largest > bound + TOLERANCE, largest, bound)
    last = np.abs(window.velocities[-1])
    return found + _violations("rest", window, limits, last > TOLERANCE, last, np.zeros(len(last)))


class Commanded:
    """The motion that an executor makes of these windows, of one controller, in the order in which they came (at least one)."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self.windows = windows
        self._from_ns = np.maximum.accumulate([window.from_ns for window in windows])

    def at(self, times_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions, velocities, accelerations [T, N] at these times [T], NaN before the first window."""
        times = np.asarray(times_ns)
        which = np.searchsorted(self._from_ns, times, "right") - 1
        result = np.full((3, len(times), self.windows[0].positions.shape[1]), np.nan)
        for index in np.unique(which[which >= 0]):
            result[:, which == index] = self.windows[index].at(times[which == index])
        return tuple(result)

    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps of position and velocity [W-1, N] where each window but the first takes over; NaN at malformed ones."""
        pairs = [(before.at([at_ns]), window.at([at_ns]))
                 for before, window, at_ns in zip(self.windows, self.windows[1:], self._from_ns[1:])]
        shape = (-1, self.windows[0].positions.shape[1])
        return tuple(np.array([np.abs(new[i][0] - old[i][0]) for old, new in pairs]).reshape(shape) for i in (0, 1))

    def judge(self, limits: Limits) -> list[Violation]:
        """Of every window, and of every take-over."""
        found = [violation for window in self.windows for violation in judge(window, limits)]
        for window, position, velocity in zip(self.windows[1:], *self.steps()):
            for rule, step, allowed in (("position_step", position, limits.acceleration * STEP_S**2),
                                        ("velocity_step", velocity, limits.acceleration * STEP_S)):
                found += _violations(rule, window, limits, step > allowed + TOLERANCE, step, allowed)
        return found


def judge_start(window: Window, measured: np.ndarray, limits: Limits) -> list[Violation]:
    """Whether the first window of a run begins where the arm is. measured: joint positions [M, N] of the moments before it; of
    them the one that fits best counts, for it is not known which the player saw last."""
    distance = np.abs(measured - window.positions[0])
    nearest = distance[np.argmin(distance.max(axis=1))]
    return _violations("start", window, limits, nearest > TOLERANCE, nearest, np.full(len(nearest), TOLERANCE))


def _violations(rule: str, window: Window, limits: Limits, broken: np.ndarray, value: np.ndarray,
                allowed: np.ndarray) -> list[Violation]:
    return [Violation(rule, window.received_ns, limits.names[i], float(value[i]), float(allowed[i]))
            for i in np.flatnonzero(broken)]
