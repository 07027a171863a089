"""A ROS-free emulation of ROS 2 Jazzy's joint_trajectory_controller with position commands, fed by its topic.

Owns: the controller's update cycle. Must not import ROS or MuJoCo. The names of jtc_interpolation.py (trajectories as
plain data) and jtc_acceptance.py (parameters, rules of acceptance) that a user needs are importable from here.

Version followed: ros-controls/ros2_controllers, branch jazzy at commit ed360c97 (package version 4.42.1, 2026-08-16).
Comments name the function that a rule follows; without a file name it is in src/joint_trajectory_controller.cpp.

Not emulated: the FollowJointTrajectory action (goal results, cancel, tolerances sent with a goal), command interfaces
other than position (so no PID and no effort), command_joints, acceleration as a state interface,
allow_integration_in_goal_trajectories, speed scaling, decelerate_on_cancel, continuous joints (angle wraparound),
parameters changed while active, query_state, hardware limits, threads (upstream loses a trajectory that arrives within
the update that begins to hold), and a system clock that differs from the clock of the control loop.

The way in: `hold(position)` activates, `receive` takes trajectories at any time, `update` runs once per control period.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flashrt_ros.sim.jtc_acceptance import Accepted, Constraints, JointConstraints, JtcParameters, Rejected, judge
from flashrt_ros.sim.jtc_interpolation import JtcError, MotionState, Sample, Sampler, Trajectory, TrajectoryPoint

__all__ = [
    "Accepted", "Constraints", "ControllerState", "JointConstraints", "JointTrajectoryController", "JtcError",
    "JtcParameters", "MotionState", "Rejected", "Trajectory", "TrajectoryPoint",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ControllerState:
    """What the controller is about, after an update.

    desired: the trajectory at the update's time (the command is one period ahead of it). error: desired minus measured
    position [N], rad. holding: it stays where it was told to hold; false while a received trajectory is tracked, and
    after its end, where the last point is repeated. ended: the trajectory's last point was reached. outside_goal: past
    the end and outside a goal tolerance. violation: why this update began to hold ("path_tolerance", "goal_time",
    "cmd_timeout"), else None.
    """

    desired: MotionState
    error: np.ndarray
    holding: bool
    ended: bool = False
    outside_goal: bool = False
    violation: str | None = None


class JointTrajectoryController:
    """One controller over N position-commanded joints.

    accepted, rejected: numbers of trajectories received since construction; rejections and violations count by rule.
    Raises JtcError on joint names that are missing or not unique and on constraints for joints that it does not have.
    """

    def __init__(self, joint_names: Sequence[str], parameters: JtcParameters | None = None) -> None:
        self.joint_names = tuple(joint_names)
        self.parameters = parameters or JtcParameters()
        if not self.joint_names or len(set(self.joint_names)) != len(self.joint_names):
            raise JtcError(f"joint names are {self.joint_names}; give at least one, each once")
        constraints = self.parameters.constraints.joints
        if unknown := sorted(set(constraints) - set(self.joint_names)):
            raise JtcError(f"constraints name {', '.join(unknown)}; the joints are {', '.join(self.joint_names)}")
        joints = [constraints.get(name, JointConstraints()) for name in self.joint_names]
        self._path_tolerance = _as_bound([joint.trajectory for joint in joints])
        self._goal_tolerance = _as_bound([joint.goal for joint in joints])
        self.accepted = self.rejected = 0
        self.rejections: Counter[str] = Counter()
        self.violations: Counter[str] = Counter()
        self._active, self._holding = False, True
        self._pending: Trajectory | None = None
        self._scratch = np.zeros(len(self.joint_names))

    def parameters_by_name(self) -> dict[str, object]:
        """The ROS parameters under the flat names of the real node, as a client of its parameter service reads them."""
        return self.parameters.by_name(self.joint_names)

    @property
    def state(self) -> ControllerState:
        """After the latest `update` or `hold`. Raises JtcError before the first `hold`."""
        self._require_active()
        return self._state

    @property
    def command(self) -> MotionState:
        """The latest command; the hardware gets its positions. Raises JtcError before the first `hold`."""
        self._require_active()
        return self._command

    def hold(self, position: Sequence[float]) -> None:
        """(Re)activate at rest: forget any trajectory and hold `position` [N], rad (on_activate, set_hold_position).

        On activation upstream takes the last command if there is one, else the measured position; the caller chooses.
        Raises JtcError on a wrong shape or non-finite values.
        """
        position = self._vector(position, "hold position")
        if not np.isfinite(position).all():
            raise JtcError(f"hold position is {position}; it must be finite")
        self._active = True
        self._command = MotionState(position).filled()
        self._last_commanded_ns = 0
        self._sampler: Sampler | None = None
        self._state = ControllerState(self._command, np.zeros_like(position), holding=True)
        self._begin_hold(position)

    def receive(self, trajectory: Trajectory, now_ns: int) -> Accepted | Rejected:
        """Take or refuse a trajectory from the topic (topic_callback); upstream logs the refusal, here it is returned.

        An accepted one replaces whatever runs at the next update, wholly: nothing of the old one is kept, also when the
        new one starts in the future. Of several between two updates the newest wins.
        """
        verdict = judge(trajectory, self.joint_names, self.parameters, now_ns)
        # topic_callback: what arrives while the controller is inactive is judged, then dropped.
        if isinstance(verdict, Accepted) and not self._active:
            verdict = Rejected("inactive", "the controller is not active; call hold(position) first")
        if isinstance(verdict, Rejected):
            self.rejected += 1
            self.rejections[verdict.rule] += 1
            return verdict
        self.accepted += 1
        self._pending, self._holding = trajectory, False
        return verdict

    def update(
        self, now_ns: int, measured_position: Sequence[float], measured_velocity: Sequence[float] | None = None
    ) -> MotionState:
        """One control period at now_ns; returns the command, positions (and velocities, accelerations) [N], read only.

        Velocities are the interpolation's; in position mode the hardware does not get them. measured_velocity is
        ignored unless state_interfaces has velocity. Non-finite measurements are used as they are, as upstream.
        Raises JtcError when inactive, on wrong shapes, or when the velocity is missing.
        """
        self._require_active()
        measured = self._measured(measured_position, measured_velocity)
        first = self._pending is not None
        if first:
            self._sampler = self._replace(self._pending, now_ns, measured)
            self._pending = None
        present = self._sampler.sample(now_ns)
        desired = present.state if present else self._state.desired
        # update: the command is the trajectory one period ahead, where the robot is to be at the next update.
        ahead = self._sampler.sample(now_ns + self.parameters.update_period_ns, advance=False)
        if ahead is None:
            self._state = ControllerState(desired, self._state.error, self._holding)
            return self._command
        # compute_error_for_joint: in position mode only positions have an error; that of velocities stays zero, so
        # stopped_velocity_tolerance never bites.
        error = desired.positions - measured.positions
        outside_goal = not self._holding and ahead.ended and bool((np.abs(error) > self._goal_tolerance).any())
        violation = self._violation(error, outside_goal, ahead, (now_ns - ahead.knot_ns) * 1e-9, first)
        # update: outside a tolerance the previous command stands for this period; at a timeout the new one is given.
        if violation in (None, "cmd_timeout"):
            self._command = ahead.state
            self._last_commanded_ns = now_ns
        if violation is not None:
            self.violations[violation] += 1
            # set_hold_position: hold the measured position, from the next update on.
            self._begin_hold(measured.positions)
        self._state = ControllerState(desired, error, self._holding, ahead.ended, outside_goal, violation)
        return self._command

    def _replace(self, trajectory: Trajectory, now_ns: int, measured: MotionState) -> Sampler:
        # update: the motion starts from the measured state, now; or, if so configured, from the last command. That is
        # dated with the previous update although it was sampled for one period later, so the first command of a
        # replacement lies two periods into its first segment.
        before, before_ns = measured, now_ns
        if self.parameters.interpolate_from_desired_state or self.parameters.open_loop_control:
            before, before_ns = self._command, self._last_commanded_ns or now_ns
        points = self._in_controller_order(trajectory)
        return Sampler(points, trajectory.stamp_ns, now_ns, before, before_ns, self.parameters.interpolation_method)

    def _violation(
        self, error: np.ndarray, outside_goal: bool, ahead: Sample, since_knot_s: float, first: bool
    ) -> str | None:
        # update: nothing is checked while holding.
        if self._holding:
            return None
        # update: the timeout counts from the last point and comes before the tolerances.
        if ahead.ended and 0.0 < self.parameters.effective_cmd_timeout < since_knot_s:
            return "cmd_timeout"
        # update: the path is checked until the end, and once at the start if that is the end. NaN violates nothing
        # (check_state_tolerance_per_joint in tolerances.hpp).
        if (first or not ahead.ended) and (np.abs(error) > self._path_tolerance).any():
            return "path_tolerance"
        # update: with goal_time 0 it waits for ever, repeating the last point.
        if outside_goal and 0.0 < self.parameters.constraints.goal_time < since_knot_s:
            return "goal_time"
        return None

    def _begin_hold(self, position: np.ndarray) -> None:
        # init_hold_position_msg: an ordinary trajectory of one point, due at once; the flag spares it the tolerances.
        self._pending = Trajectory(self.joint_names, (TrajectoryPoint(position),))
        self._holding = True

    def _in_controller_order(self, trajectory: Trajectory) -> list[TrajectoryPoint]:
        """The points with arrays [N] in the controller's joint order (fill_partial_goal, sort_to_local_joint_order)."""
        count = len(self.joint_names)
        target = [self.joint_names.index(name) for name in trajectory.joint_names]
        # fill_partial_goal: a joint that is not named stays at its last command with zero derivatives. Nothing is
        # filled where the number of names is right, even if one is named twice.
        # (Where that last command is NaN, upstream leaves the arrays short and reads past their end; here NaN stays.)
        missing = [i for i in range(count) if i not in target] if len(target) != count else []
        target += missing
        held, at_rest = self._command.positions[missing], np.zeros(len(missing))

        def arrange(values: np.ndarray, filling: np.ndarray) -> np.ndarray:
            if not values.size:
                return values
            values = np.concatenate([values, filling])
            # mapping (trajectory.hpp): more names than joints have no mapping; the values stay in the order given.
            if len(target) > count:
                return values[:count]
            # sort_to_local_joint_order: the output array outlives the call there. So where a joint is named twice, its
            # last value wins, and the joint that is not named gets what an earlier array left in its place.
            for joint, value in zip(target, values, strict=True):
                self._scratch[joint] = value
            return self._scratch.copy()

        return [
            TrajectoryPoint(
                arrange(point.positions, held),
                arrange(point.velocities, at_rest),
                arrange(point.accelerations, at_rest),
                point.time_from_start_ns,
            )
            for point in trajectory.points
        ]

    def _measured(self, position: Sequence[float], velocity: Sequence[float] | None) -> MotionState:
        # read_state_from_state_interfaces: without a velocity interface the state has positions only.
        positions = self._vector(position, "measured position")
        if "velocity" not in self.parameters.state_interfaces:
            return MotionState(positions)
        if velocity is None:
            raise JtcError("update: measured_velocity is missing; give it, or leave 'velocity' out of state_interfaces")
        return MotionState(positions, self._vector(velocity, "measured velocity"))

    def _vector(self, values: Sequence[float], what: str) -> np.ndarray:
        values = np.array(values, dtype=np.float64)
        if values.shape != (len(self.joint_names),):
            expected = f"({len(self.joint_names)},) for {', '.join(self.joint_names)}"
            raise JtcError(f"{what} has shape {values.shape}; expected {expected}")
        return values

    def _require_active(self) -> None:
        if not self._active:
            raise JtcError("the controller is not active; call hold(position) with the robot's joint positions first")


def _as_bound(tolerances: Sequence[float]) -> np.ndarray:
    """Tolerances [N] with `not checked` (0 or less) as infinity."""
    bounds = np.array(tolerances, dtype=np.float64)
    bounds[~(bounds > 0.0)] = np.inf
    return bounds
