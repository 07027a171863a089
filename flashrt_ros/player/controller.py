"""Whether a ros2_control controller, by its parameters, executes what the player sends as the player means it.

Owns the rules; where the parameters come from is not known here. Must not import ROS or the contract. The rules were read in
ros-controls/ros2_controllers: branches jazzy (4.42.1), kilted (5.17.0) and master (6.9.0, Rolling) of August 2026, packages
joint_trajectory_controller and forward_command_controller. docs/safety.md has them as a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

TRAJECTORY, FORWARD = "a joint_trajectory_controller", "a forward controller"
TOPICS = {TRAJECTORY: "joint_trajectory", FORWARD: "commands"}  # of each kind, in its namespace
LET_GO = "{} is held where it was measured, and jumps back to its command with the next window. Windows end in a stop anyhow"
READ = frozenset((
    "joints", "command_joints", "command_interfaces", "state_interfaces", "interpolation_method", "open_loop_control",
    "allow_partial_joints_goal", "allow_trajectory_replacement", "cmd_timeout", "update_rate", "use_sim_time",
    "joint", "interface_name", "interface_names"))


def matters(parameter: str) -> bool:
    """Whether a rule looks at it."""
    return parameter in READ or parameter.startswith(("constraints.", "gains.", "speed_scaling."))


@dataclass(frozen=True, slots=True)
class Commands:
    """What one controller gets. joints: in the output's order. windows: as JointTrajectory, which names them and is stamped;
    else as Float64MultiArray, one position per joint. rate_hz: of the player. tracking_error: rad or m, for the joints that
    have such a limit. sim_time: whether stamps are simulated time."""

    topic: str
    joints: tuple[str, ...]
    windows: bool
    rate_hz: float
    tracking_error: Mapping[str, float]
    sim_time: bool = False

    @property
    def controller(self) -> str:
        """The node that a controller of this topic is: the topic's namespace."""
        return self.topic.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Finding:
    """refused: the arm must not be moved like this; else a warning. why: what happens, and the way out."""

    refused: bool
    controller: str
    parameter: str
    value: object
    allowed: str
    why: str

    def __str__(self) -> str:
        return f"{self.controller}: {self.parameter} is {_shown(self.value)}; it must be {self.allowed}: {self.why}"


def judge(parameters: Mapping[str, object], commands: Commands) -> tuple[Finding, ...]:
    """All that is wrong, refusals first. A parameter that is not there (another version) is not judged."""
    judge = _Judge(parameters, commands)
    if {"joints", "command_interfaces", "interpolation_method"} <= parameters.keys():
        kind, rules = TRAJECTORY, (_trajectory_joints, _interfaces, _time, _tolerances, _rate)
    elif {"joints", "interface_name"} <= parameters.keys():
        kind, rules = FORWARD, (_forward, _rate)
    elif {"joint", "interface_names"} <= parameters.keys():
        kind, rules = FORWARD, (_one_joint, _rate)
    else:
        return (judge.warn("kind", "unknown", f"{TRAJECTORY} or {FORWARD}", "nothing about it was checked"),)
    found = list(_addressed(kind, judge)) or [finding for rule in rules for finding in rule(judge)]
    return tuple(sorted(found, key=lambda finding: not finding.refused))


@dataclass(frozen=True, slots=True)
class _Judge:
    parameters: Mapping[str, object]
    commands: Commands

    def get(self, parameter: str, default: object = None):
        return self.parameters.get(parameter, default)

    def refuse(self, parameter: str, value: object, allowed: str, why: str) -> Finding:
        return Finding(True, self.commands.controller, parameter, value, allowed, why)

    def warn(self, parameter: str, value: object, allowed: str, why: str) -> Finding:
        return Finding(False, self.commands.controller, parameter, value, allowed, why)

    def per_joint(self, form: str) -> dict[str, float]:
        """form.format(joint) for each joint that we command, where it is set to more than 0: those are on."""
        values = {joint: self.get(form.format(joint), 0.0) for joint in self.commands.joints}
        return {joint: value for joint, value in values.items() if value > 0}


def _addressed(kind: str, judge: _Judge) -> Iterator[Finding]:
    wanted, name = TRAJECTORY if judge.commands.windows else FORWARD, judge.commands.topic.rpartition("/")[2]
    if kind != wanted:
        yield judge.refuse("kind", kind, wanted, "it does not take this type of message. Correct the output's controller in the "
                           "contract")
    elif name != TOPICS[kind]:
        yield judge.refuse("topic", name, TOPICS[kind], "it listens to no other. Correct the output's topic in the contract")


def _trajectory_joints(judge: _Judge) -> Iterator[Finding]:
    theirs, ours = judge.get("joints"), judge.commands.joints
    missing = [joint for joint in ours if joint not in theirs]
    extra = [joint for joint in theirs if joint not in ours]
    if missing:
        yield judge.refuse("joints", theirs, f"a list with {', '.join(missing)}", "every window would be rejected. Correct it, "
                           "or the output's `select` in the contract")
    elif extra and not judge.get("allow_partial_joints_goal", False):
        yield judge.refuse("joints", theirs, f"{', '.join(ours)} only", "every window would be rejected. Select all of them in "
                           "the contract, or set allow_partial_joints_goal")
    elif extra:
        yield judge.warn("joints", theirs, f"{', '.join(ours)} only, if others are to be moved by anybody",
                         f"with each window it holds {', '.join(extra)} where they are")
    driven = judge.get("command_joints") or theirs
    # As many names as joints are the same joints under the hardware's names.
    if len(driven) < len(theirs) and (passive := [joint for joint in ours if joint not in driven]):
        yield judge.refuse("command_joints", driven, f"a list with {', '.join(passive)}", "the others are measured, and not "
                           "moved. Correct it, or the output's `select` in the contract")


def _interfaces(judge: _Judge) -> Iterator[Finding]:
    interfaces = judge.get("command_interfaces")
    if "position" in interfaces:
        if "effort" in interfaces:
            yield judge.warn("command_interfaces", interfaces, "without effort, unless the hardware expects a feed-forward of 0",
                             "windows give no effort, so it is always 0")
        return
    if interfaces not in (["velocity"], ["effort"]):
        yield judge.refuse("command_interfaces", interfaces, "position, alone or with velocity; or one of velocity and effort "
                           "with gains", "windows are positions and velocities. Correct it")
    elif judge.get("open_loop_control", False) and interfaces == ["velocity"]:
        yield judge.refuse("open_loop_control", True, "false", "a velocity interface is then driven without looking where the "
                           "arm is, and no position limit holds. Correct it, and set gains.<joint>.p")
    elif weak := [joint for joint in judge.commands.joints if not judge.get(f"gains.{joint}.p", 0.0) > 0]:
        yield judge.refuse("gains.<joint>.p", {joint: judge.get(f"gains.{joint}.p", 0.0) for joint in weak}, "over 0",
                           f"with a {interfaces[0]} interface alone nothing else keeps the arm at its position. Set it")


def _time(judge: _Judge) -> Iterator[Finding]:
    if (method := judge.get("interpolation_method")) != "splines":
        yield judge.refuse("interpolation_method", method, "splines", "else the arm is sent from point to point in steps, and no "
                           "velocity limit holds. Correct it")
    if judge.get("use_sim_time", False) and not judge.commands.sim_time:
        yield judge.refuse("use_sim_time", True, "false, as the player's", "windows would be due in years. Start the player "
                           "with use_sim_time:=true")
    if judge.get("allow_trajectory_replacement", False):
        yield judge.refuse("allow_trajectory_replacement", True, "false", "else it ignores when a window begins, and the arm "
                           "steps back with each by the time that it was under way. Set it")
    scale = judge.get("speed_scaling.initial_scaling_factor", 1.0)
    if scale != 1 and judge.get("command_interfaces") == ["position"]:  # elsewhere upstream takes 1
        yield judge.refuse("speed_scaling.initial_scaling_factor", scale, "1", "a window is executed at that speed and the "
                           "next begins where the arm should be: it jumps. Lower limits.velocity in the contract instead")
    if interface := judge.get("speed_scaling.state_interface"):
        yield judge.warn("speed_scaling.state_interface", interface, "unset, or the robot's speed at 100 %", "at another the "
                         "arm jumps from window to window. Lower limits.velocity in the contract instead")


def _tolerances(judge: _Judge) -> Iterator[Finding]:
    ours = judge.commands.tracking_error
    path = judge.per_joint("constraints.{}.trajectory")
    if early := {joint: value for joint, value in path.items() if not ours.get(joint, value) < value}:
        yield judge.warn("constraints.<joint>.trajectory", early, "0, or more than limits.tracking_error in the contract",
                         "beyond it the arm is held where it is without braking, and the player does not learn of it. Set "
                         "limits.tracking_error below it, and the player stops first")
    goal_time = judge.get("constraints.goal_time", 0.0)
    goal = judge.per_joint("constraints.{}.goal")
    # Only where velocity or effort is commanded does upstream compare velocities at all.
    stopped = judge.get("constraints.stopped_velocity_tolerance", 0.0) if "velocity" in judge.get("state_interfaces", ()) \
        and {"velocity", "effort"} & set(judge.get("command_interfaces")) else 0.0
    if goal_time > 0 and (goal or stopped > 0):
        yield judge.warn("constraints.goal_time", goal_time, "0, or goal and stopped_velocity_tolerance 0", LET_GO.format(
            "an arm that rests outside its goal for longer"))
    # Upstream ignores one that is not longer than goal_time.
    if (timeout := judge.get("cmd_timeout", 0.0)) > goal_time:
        yield judge.warn("cmd_timeout", timeout, "0", LET_GO.format("an arm that rests for longer"))


def _forward(judge: _Judge) -> Iterator[Finding]:
    theirs, ours = judge.get("joints"), judge.commands.joints
    if tuple(theirs) != ours:
        why = ("the numbers have no names, so each joint would get another's" if set(theirs) == set(ours) else
               "the numbers have no names, and it takes exactly as many as it has joints")
        yield judge.refuse("joints", theirs, _shown(ours), f"{why}. Correct it, or the output's `select` in the contract")
    if (interface := judge.get("interface_name")) != "position":
        yield judge.refuse("interface_name", interface, "position", "positions would be taken for something else. Use a position "
                           "controller")


def _one_joint(judge: _Judge) -> Iterator[Finding]:
    if (joint := judge.get("joint"),) != judge.commands.joints:
        yield judge.refuse("joint", joint, _shown(judge.commands.joints), "it moves one joint. Correct it, or the output's "
                           "`select` in the contract")
    if (interfaces := judge.get("interface_names")) != ["position"]:
        yield judge.refuse("interface_names", interfaces, "position alone", "it takes one number for each, and gets a position. "
                           "Correct it")


def _rate(judge: _Judge) -> Iterator[Finding]:
    rate_hz = judge.get("update_rate", 0)  # 0: old versions' word for that of the controller manager, which is not known here
    if 0 < rate_hz < judge.commands.rate_hz:
        yield judge.warn("update_rate", rate_hz, f"at least {judge.commands.rate_hz:g}, the player's rate_hz", "else the "
                         "acceleration limits are exceeded when plans change. Raise it, or lower rate_hz")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {number:g}" for key, number in value.items())
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, (int, float)) else f"'{value}'"
