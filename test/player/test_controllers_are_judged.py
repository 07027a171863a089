"""What a controller's parameters must be for the player's commands to arrive as they are meant: a wrong one is named with its
value, what is allowed and the way out; and what each rule prevents does happen in the emulated controller."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from player_scenes import HOME, LIMITS, MS, NAMES, START_NS, active_player, slide

from flashrt_ros.player.controller import Commands, judge, matters
from flashrt_ros.sim.jtc import (
    Constraints,
    JointConstraints,
    JointTrajectoryController,
    JtcParameters,
    Rejected,
    Trajectory,
    TrajectoryPoint,
)

JAZZY = JtcParameters().by_name(NAMES)
FORWARD = {"joints": list(NAMES), "interface_name": "position", "update_rate": 100}
GAINS = {f"gains.{name}.p": 10.0 for name in NAMES}


def windows(**changes):
    return Commands(**{"topic": "/cell/arm_controller/joint_trajectory", "joints": NAMES, "windows": True, "rate_hz": 50.0,
                       "tracking_error": dict.fromkeys(NAMES, np.inf)} | changes)


def numbers(**changes):
    return windows(**{"topic": "/arm_controller/commands", "windows": False} | changes)


def found(parameters, commands):
    return {finding.parameter: finding for finding in judge(parameters, commands)}


def test_the_defaults_of_jazzy_have_nothing_wrong_with_them():
    """They are what the windows were made for."""
    assert judge(JAZZY, windows()) == ()
    assert judge(FORWARD, numbers()) == ()


@given(st.sets(st.sampled_from(sorted(set(JAZZY) - {"joints", "command_interfaces", "interpolation_method"}))))
def test_what_a_version_does_not_have_is_not_held_against_it(absent):
    """Kilted has no open_loop_control; others will come and go."""
    assert judge({name: value for name, value in JAZZY.items() if name not in absent}, windows()) == ()


REFUSED = [
    ({"joints": ["pan", "grip"]}, "joints", "lift"),
    ({"joints": [*NAMES, "rail"]}, "joints", "allow_partial_joints_goal"),
    ({"command_joints": ["pan", "lift"]}, "command_joints", "grip"),
    ({"interpolation_method": "none"}, "interpolation_method", "splines"),
    ({"command_interfaces": ["velocity"]}, "gains.<joint>.p", "pan 0, lift 0, grip 0"),
    ({"command_interfaces": ["effort"], "gains.pan.p": 5.0}, "gains.<joint>.p", "lift 0, grip 0"),
    ({"command_interfaces": ["velocity"], "open_loop_control": True} | GAINS, "open_loop_control", "false"),
    ({"command_interfaces": ["acceleration"]}, "command_interfaces", "position"),
    ({"speed_scaling.initial_scaling_factor": 0.5}, "speed_scaling.initial_scaling_factor", "limits.velocity"),
    ({"allow_trajectory_replacement": True}, "allow_trajectory_replacement", "false"),
    ({"use_sim_time": True}, "use_sim_time", "use_sim_time:=true"),
]


@pytest.mark.parametrize("changes, parameter, said", REFUSED)
def test_what_would_not_execute_a_window_as_it_is_meant_is_refused(changes, parameter, said):
    finding = found(JAZZY | changes, windows())[parameter]
    assert finding.refused and finding.controller == "/cell/arm_controller"
    assert str(finding).startswith(f"/cell/arm_controller: {parameter} is ") and said in str(finding) and "\n" not in str(finding)


WARNED = [
    ({"joints": [*NAMES, "rail"], "allow_partial_joints_goal": True}, "joints", "rail"),
    ({"command_interfaces": ["position", "effort"]}, "command_interfaces", "effort"),
    ({"speed_scaling.state_interface": "speed_scaling/factor"}, "speed_scaling.state_interface", "100 %"),
    ({"constraints.lift.trajectory": 0.1}, "constraints.<joint>.trajectory", "lift 0.1"),
    ({"constraints.goal_time": 0.6, "constraints.pan.goal": 0.02}, "constraints.goal_time", "0.6"),
    ({"constraints.goal_time": 0.6, "command_interfaces": ["effort"]} | GAINS, "constraints.goal_time", "stopped_velocity"),
    ({"cmd_timeout": 0.5}, "cmd_timeout", "0.5"),
    ({"update_rate": 40}, "update_rate", "at least 50"),
]


@pytest.mark.parametrize("changes, parameter, said", WARNED)
def test_what_may_surprise_is_a_warning(changes, parameter, said):
    """The arm may be moved like this; who looks for a reason finds it in the log."""
    findings = found(JAZZY | changes, windows())
    assert list(findings) == [parameter] and not findings[parameter].refused and said in str(findings[parameter])


@pytest.mark.parametrize("changes, commands", [
    ({"allow_nonzero_velocity_at_trajectory_end": True}, {}),  # ours end at rest all the same
    ({"interpolate_from_desired_state": True, "open_loop_control": True}, {}),  # windows begin before they arrive
    ({"allow_integration_in_goal_trajectories": True}, {}),
    ({"constraints.goal_time": 0.6}, {}),  # with positions alone upstream does not look at stopped_velocity_tolerance
    ({"constraints.goal_time": 0.6, "cmd_timeout": 0.5}, {}),  # which upstream ignores
    ({"constraints.lift.trajectory": 0.1}, {"tracking_error": {"lift": 0.05}}),  # the player stops first
    ({"command_interfaces": ["position", "velocity"], "speed_scaling.initial_scaling_factor": 0.5}, {}),  # ignored, too
    ({"command_interfaces": ["effort"]} | GAINS, {}),
    ({"command_joints": ["m1", "m2", "m3"]}, {}),  # the hardware's names of the same joints
    ({"use_sim_time": True}, {"sim_time": True}),
    ({"update_rate": 0}, {}),
])
def test_what_makes_no_difference_is_not_complained_about(changes, commands):
    assert judge(JAZZY | changes, windows(**commands)) == ()


@given(st.permutations(NAMES))
def test_a_forward_controller_must_have_the_joints_in_our_order(joints):
    """Its message has no names: in another order each joint would go where another should."""
    findings = judge(FORWARD | {"joints": joints}, numbers())
    assert bool(findings) == (tuple(joints) != NAMES)
    assert all(f.refused and ", ".join(NAMES) in f.allowed and ", ".join(joints) in str(f) for f in findings)


@pytest.mark.parametrize("parameters, commands, parameter", [
    (FORWARD | {"joints": ["pan", "lift"]}, {}, "joints"),
    (FORWARD | {"interface_name": "velocity"}, {}, "interface_name"),
    ({"joint": "grip", "interface_names": ["position"]}, {}, "joint"),
    ({"joint": "grip", "interface_names": ["position", "effort"]}, {"joints": ("grip",)}, "interface_names"),
])
def test_a_forward_controller_of_other_joints_or_quantities_is_refused(parameters, commands, parameter):
    """Positions sent to a velocity controller are speeds: an arm at 1 rad would turn at 1 rad/s."""
    assert found(parameters, numbers(**commands))[parameter].refused


def test_a_forward_controller_of_one_joint_is_one():
    assert judge({"joint": "grip", "interface_names": ["position"]}, numbers(joints=("grip",))) == ()
    assert not found(FORWARD | {"update_rate": 40}, numbers())["update_rate"].refused


def test_a_topic_of_the_wrong_controller_or_the_wrong_topic_is_refused():
    """Nobody would hear the commands, and the arm would stand there for no reason that anybody sees."""
    assert found(FORWARD, windows())["kind"].refused and found(JAZZY, numbers())["kind"].refused
    finding = found(JAZZY, windows(topic="/arm_controller/trajectory"))["topic"]
    assert finding.refused and "joint_trajectory" in str(finding) and "'trajectory'" in str(finding)


def test_of_an_unknown_node_nothing_is_claimed():
    """A vendor's own controller is legitimate; but nobody should believe that it was checked."""
    (finding,) = judge({"use_sim_time": False, "update_rate": 10}, windows())
    assert not finding.refused and "nothing about it was checked" in str(finding)


def test_refusals_come_first():
    findings = judge(JAZZY | {"cmd_timeout": 1.0, "interpolation_method": "none"}, windows())
    assert [f.refused for f in findings] == [True, False]


def test_every_parameter_that_a_rule_looks_at_is_asked_for():
    """Else the rule would never see it on a robot."""
    for changes, parameter, _ in REFUSED + WARNED:
        assert matters(parameter) and all(map(matters, changes))
    assert not matters("action_monitor_rate")


def message(window):
    return Trajectory(NAMES, tuple(TrajectoryPoint(p.position, p.velocity, time_from_start_ns=p.time_ns - window[0].time_ns)
                                   for p in window), window[0].time_ns)


def motors(parameters, policy, until_ms, arm=lambda command: command, names=NAMES):
    """The positions [K, N] that the emulated controller commands at its rate; `arm` says where they take it. Windows come
    every second tick, 10 ms late, while the player does not rest."""
    controller, player = JointTrajectoryController(names, parameters), active_player(lead_ms=40, start_distance=1.0)
    home = np.resize(HOME, len(names))
    controller.hold(home)
    sent, under_way, next_ns, rested, verdicts = [home], [], START_NS, True, []
    for ms in range(until_ms):
        now_ns = START_NS + ms * MS
        policy(player, ms)
        if ms % 20 == 0 and ms:
            player.tick(now_ns)
            if ms % 40 == 0 and not (player.at_rest and rested):
                under_way.append((now_ns + 10 * MS, message(player.window(now_ns))))
                rested = player.at_rest
        while next_ns <= now_ns:
            while under_way and under_way[0][0] <= next_ns:
                verdicts.append(controller.receive(under_way.pop(0)[1], next_ns))
            sent.append(controller.update(next_ns, arm(sent[-1]), np.zeros(len(names))).positions)
            next_ns += parameters.update_period_ns
    return np.array(sent), verdicts


def fast(player, ms):
    """Full motion of the first joint, and an abrupt change of plan."""
    if ms % 100 == 0 and ms < 600:
        now_ns = START_NS + ms * MS
        player.offer(slide(now_ns, HOME + np.array([1.2, 0, 0]) * ms * 1e-3, (1.2, 0, 0), seq=ms), now_ns)
    if ms == 650:
        player.stop("operator")


def hardest(sent, parameters):
    """The largest acceleration, as a share of the limits."""
    return float((np.abs(np.diff(sent, n=2, axis=0)) * parameters.update_rate**2 / LIMITS.acceleration).max())


@pytest.mark.parametrize("parameters, keeps", [
    (JtcParameters(update_rate=50), True),
    (JtcParameters(update_rate=25), False),
    (JtcParameters(interpolation_method="none"), False),
])
def test_limits_are_kept_by_the_controllers_that_pass_and_not_by_the_others(parameters, keeps):
    """The player promises limits, and it is the controller that moves the arm."""
    sent, _ = motors(parameters, fast, 1200)
    assert np.ptp(sent[:, 0]) > 0.5
    assert (hardest(sent, parameters) <= 1 + 1e-6) is keeps
    assert (not judge(parameters.by_name(NAMES), windows())) is keeps


@pytest.mark.parametrize("names", [("pan", "lift"), (*NAMES, "rail")])
def test_joints_that_are_refused_would_be_rejected_window_by_window(names):
    """For ever, with a line in the controller's log and no word to the player."""
    _, verdicts = motors(JtcParameters(), fast, 300, names=names)
    assert verdicts and all(isinstance(verdict, Rejected) for verdict in verdicts)
    assert found(JtcParameters().by_name(names), windows())["joints"].refused


@pytest.mark.parametrize("parameters", [
    JtcParameters(cmd_timeout=0.3),
    JtcParameters(constraints=Constraints(goal_time=0.3, joints={"lift": JointConstraints(goal=0.01)})),
])
def test_an_arm_that_sags_at_rest_is_let_go_under_these_parameters(parameters):
    """They are warned about because the command then leaves the player's, and comes back with a jump."""
    sag = np.array([0.0, -0.02, 0.0])

    def twice(player, ms):
        if ms in (100, 1600):
            player.offer(slide(START_NS + ms * MS, HOME, (0.0, 0.0, 0.0), seq=ms, steps=5), START_NS + ms * MS)

    def lifts(parameters):
        """How far from HOME the second joint's command ever is: nothing commands it to move."""
        return np.abs(motors(parameters, twice, 2200, arm=lambda command: HOME + sag)[0][:, 1] - HOME[1]).max()

    assert lifts(JtcParameters()) == 0 and judge(JAZZY, windows()) == ()
    assert lifts(parameters) == pytest.approx(0.02) and judge(parameters.by_name(NAMES), windows())
