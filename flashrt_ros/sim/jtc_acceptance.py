"""The emulated controller's parameters, and which trajectories it accepts under them.

Owns: JtcParameters and its parts, Accepted, Rejected, judge. Must not import ROS or MuJoCo. Upstream is
ros-controls/ros2_controllers, branch jazzy at ed360c97 (4.42.1), package joint_trajectory_controller: defaults follow
src/joint_trajectory_controller_parameters.yaml, rules validate_trajectory_msg in src/joint_trajectory_controller.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from flashrt_ros.sim.jtc_interpolation import JtcError, Trajectory

# The end velocity, in rad/s, that still counts as zero: the float32 machine epsilon (validate_trajectory_msg).
ZERO_VELOCITY = float(np.finfo(np.float32).eps)


@dataclass(frozen=True, slots=True)
class JointConstraints:
    """constraints.<joint>: allowed position error in rad while moving and at the goal; 0: not checked."""

    trajectory: float = 0.0
    goal: float = 0.0


@dataclass(frozen=True, slots=True)
class Constraints:
    """constraints: goal_time is how long, in s, the goal tolerance may be missed after the end; 0: for ever.

    stopped_velocity_tolerance is readable but, as upstream, without effect on a position command (see jtc.py).
    """

    stopped_velocity_tolerance: float = 0.01
    goal_time: float = 0.0
    joints: Mapping[str, JointConstraints] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JtcParameters:
    """The controller's ROS parameters, named as upstream, with Jazzy's defaults.

    Two differ because upstream has no working default: state_interfaces must be given (here, as in its documentation's
    example, position and velocity), and update_rate is the controller manager's (100 Hz there, 250 Hz here).
    Raises JtcError on a value that upstream's configuration refuses or that is not emulated.
    """

    update_rate: int = 250
    state_interfaces: tuple[str, ...] = ("position", "velocity")
    allow_partial_joints_goal: bool = False
    open_loop_control: bool = False
    interpolate_from_desired_state: bool = False
    interpolation_method: str = "splines"
    allow_nonzero_velocity_at_trajectory_end: bool = False
    cmd_timeout: float = 0.0
    constraints: Constraints = field(default_factory=Constraints)

    def __post_init__(self) -> None:
        if self.update_rate < 1:
            raise JtcError(f"update_rate is {self.update_rate} Hz; it must be at least 1")
        if self.state_interfaces not in (("position",), ("position", "velocity")):
            allowed = "emulated are ('position',) and ('position', 'velocity')"
            raise JtcError(f"state_interfaces are {self.state_interfaces}; {allowed}")
        if self.interpolation_method not in ("splines", "none"):
            raise JtcError(f"interpolation_method is {self.interpolation_method!r}; allowed are 'splines' and 'none'")
        if not self.constraints.goal_time >= 0.0:
            raise JtcError(f"constraints.goal_time is {self.constraints.goal_time} s; it must not be negative")

    @property
    def update_period_ns(self) -> int:
        return 1_000_000_000 // self.update_rate

    @property
    def effective_cmd_timeout(self) -> float:
        """cmd_timeout in s; 0 (off) unless it is longer than goal_time (on_activate)."""
        return self.cmd_timeout if self.cmd_timeout > self.constraints.goal_time else 0.0

    def by_name(self, joint_names: tuple[str, ...]) -> dict[str, object]:
        """All parameters under the flat names that a parameter service of the real node answers to.

        Those not emulated stand at Jazzy's defaults; gains.* have no effect on position commands and are left out.
        """
        values: dict[str, object] = {
            "joints": list(joint_names),
            "command_joints": [],
            "command_interfaces": ["position"],
            "state_interfaces": list(self.state_interfaces),
            "update_rate": self.update_rate,
            "allow_partial_joints_goal": self.allow_partial_joints_goal,
            "open_loop_control": self.open_loop_control,
            "interpolate_from_desired_state": self.interpolate_from_desired_state,
            "allow_integration_in_goal_trajectories": False,
            "set_last_command_interface_value_as_state_on_activation": True,
            "action_monitor_rate": 20.0,
            "interpolation_method": self.interpolation_method,
            "allow_nonzero_velocity_at_trajectory_end": self.allow_nonzero_velocity_at_trajectory_end,
            "cmd_timeout": self.cmd_timeout,
            "speed_scaling.initial_scaling_factor": 1.0,
            "speed_scaling.state_interface": "",
            "speed_scaling.command_interface": "",
            "constraints.stopped_velocity_tolerance": self.constraints.stopped_velocity_tolerance,
            "constraints.goal_time": self.constraints.goal_time,
            "constraints.decelerate_on_cancel": False,
        }
        for name in joint_names:
            joint = self.constraints.joints.get(name, JointConstraints())
            values[f"constraints.{name}.trajectory"] = joint.trajectory
            values[f"constraints.{name}.goal"] = joint.goal
            values[f"constraints.{name}.max_deceleration_on_cancel"] = 0.0
        return values


@dataclass(frozen=True, slots=True)
class Accepted:
    """The trajectory replaces the present one at the next update."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The trajectory is ignored. rule: a stable identifier of the rule that it broke; reason: the same for people."""

    rule: str
    reason: str


def judge(
    trajectory: Trajectory, joint_names: tuple[str, ...], parameters: JtcParameters, now_ns: int
) -> Accepted | Rejected:
    """Upstream's checks in upstream's order; the first that fails names the reason (validate_trajectory_msg).

    Not checked there, and so accepted here: a joint that is named twice, non-finite numbers, limits of position,
    velocity and acceleration, distance from the present position, a negative time of the first point.
    """
    names, points = trajectory.joint_names, trajectory.points
    if not parameters.allow_partial_joints_goal and len(names) != len(joint_names):
        return Rejected(
            "joint_count",
            f"{len(names)} joints are named, the controller has {len(joint_names)}; allow_partial_joints_goal is false",
        )
    if not names:
        return Rejected("no_joint_names", "no joints are named")
    # Also how Jazzy treats an "empty trajectory": it stops nothing, the old trajectory goes on.
    if not points:
        return Rejected("no_points", "the trajectory has no points")
    for name in names:
        if name not in joint_names:
            return Rejected("unknown_joint", f"joint '{name}' is not one of {', '.join(joint_names)}")
    if not parameters.allow_nonzero_velocity_at_trajectory_end:
        for i, velocity in enumerate(points[-1].velocities):
            if abs(velocity) > ZERO_VELOCITY:
                # Upstream's own message fails on an index beyond the names; here that is a rejection like any other.
                joint = names[i] if i < len(names) else f"#{i}"
                return Rejected(
                    "nonzero_end_velocity",
                    f"joint '{joint}' ends at {velocity} rad/s; allow_nonzero_velocity_at_trajectory_end is false",
                )
    end_ns = trajectory.stamp_ns + points[-1].time_from_start_ns
    if trajectory.stamp_ns != 0 and end_ns < now_ns:
        return Rejected("ends_in_the_past", f"the last point was due {(now_ns - end_ns) * 1e-9:.3f} s ago")
    for i, point in enumerate(points):
        due_ns, previous_ns = point.time_from_start_ns, points[i - 1].time_from_start_ns
        if i > 0 and due_ns <= previous_ns:
            reason = f"point {i} is due at {due_ns} ns, point {i - 1} before it at {previous_ns} ns"
            return Rejected("times_not_increasing", reason)
        for field_name, may_be_empty in (("positions", False), ("velocities", True), ("accelerations", True)):
            size = getattr(point, field_name).size
            if size != len(names) and not (may_be_empty and size == 0):
                return Rejected("array_size", f"point {i} has {size} {field_name} for {len(names)} joints")
        if point.effort.size:
            return Rejected("effort", f"point {i} gives effort, and the controller has no effort command interface")
    return Accepted()
