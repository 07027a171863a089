"""Which trajectories the emulated controller takes: what a robot refuses, the player must never send."""

import numpy as np
import pytest

from flashrt_ros.sim.jtc import (
    Accepted,
    Constraints,
    JointConstraints,
    JointTrajectoryController,
    JtcError,
    JtcParameters,
    Rejected,
    Trajectory,
    TrajectoryPoint,
)

JOINTS = ("pan", "lift", "elbow")
MS = 1_000_000
NOW = 5_000_000_000


def controller(**parameters) -> JointTrajectoryController:
    jtc = JointTrajectoryController(JOINTS, JtcParameters(**parameters))
    jtc.hold([0.0, 0.0, 0.0])
    return jtc


def point(ms: int = 100, positions=(0.1, 0.2, 0.3), **fields) -> TrajectoryPoint:
    return TrajectoryPoint(positions, time_from_start_ns=ms * MS, **fields)


def verdict(trajectory: Trajectory, now_ns: int = NOW, **parameters):
    return controller(**parameters).receive(trajectory, now_ns)


def rule(*args, **kwargs) -> str:
    result = verdict(*args, **kwargs)
    assert isinstance(result, Rejected), result
    return result.rule


def test_a_single_point_with_positions_only_is_accepted():
    assert verdict(Trajectory(JOINTS, [point()])) == Accepted()


def test_fewer_joints_are_refused_unless_partial_goals_are_allowed():
    partial = Trajectory(JOINTS[:2], [point(positions=(0.1, 0.2))])
    assert rule(partial) == "joint_count"
    assert verdict(partial, allow_partial_joints_goal=True) == Accepted()


def test_more_joints_are_refused_by_default():
    assert rule(Trajectory((*JOINTS, "pan"), [point(positions=(1, 2, 3, 4))])) == "joint_count"


def test_no_joint_names_are_refused_even_where_partial_goals_are_allowed():
    assert rule(Trajectory((), [point(positions=())]), allow_partial_joints_goal=True) == "no_joint_names"


def test_an_unknown_joint_is_refused_by_name():
    result = verdict(Trajectory(("pan", "lift", "wrist"), [point()]))
    assert result.rule == "unknown_joint" and "wrist" in result.reason


def test_a_joint_named_twice_is_accepted():
    """Upstream compares numbers and membership only; test_jtc_replacement shows what it then does."""
    assert verdict(Trajectory(("pan", "pan", "elbow"), [point()])) == Accepted()


def test_an_empty_trajectory_is_refused_and_stops_nothing():
    """Older controllers stop on an empty message; on Jazzy a player must stop by sending a stop."""
    jtc = controller()
    jtc.receive(Trajectory(JOINTS, [point(100)]), NOW)
    jtc.update(NOW, [0, 0, 0], [0, 0, 0])
    assert jtc.receive(Trajectory(JOINTS, []), NOW).rule == "no_points"
    assert jtc.receive(Trajectory((), []), NOW).rule == "joint_count"
    for i in range(1, 30):
        command = jtc.update(NOW + i * 4 * MS, [0, 0, 0], [0, 0, 0])
    np.testing.assert_allclose(command.positions, [0.1, 0.2, 0.3])


def test_a_nonzero_end_velocity_is_refused_unless_allowed():
    """Why every window that a player sends must end at rest."""
    moving = Trajectory(JOINTS, [point(velocities=(0.0, 0.01, 0.0))])
    result = verdict(moving)
    assert result.rule == "nonzero_end_velocity" and "lift" in result.reason
    assert verdict(moving, allow_nonzero_velocity_at_trajectory_end=True) == Accepted()


def test_only_the_last_points_velocity_must_be_zero_and_float32_dust_counts_as_zero():
    points = [point(100, velocities=(1, 1, 1)), point(200, velocities=(1e-7, -1e-7, 0))]
    assert verdict(Trajectory(JOINTS, points)) == Accepted()
    assert rule(Trajectory(JOINTS, [point(velocities=(1.3e-7, 0, 0))])) == "nonzero_end_velocity"


def test_an_end_velocity_beyond_the_named_joints_is_refused_and_does_not_raise():
    assert rule(Trajectory(JOINTS, [point(velocities=(0, 0, 0, 1))])) == "nonzero_end_velocity"


def test_a_trajectory_that_ended_before_now_is_refused_and_one_that_ends_now_is_not():
    late = Trajectory(JOINTS, [point(100)], stamp_ns=NOW - 100 * MS)
    assert verdict(late, now_ns=NOW) == Accepted()
    assert rule(late, now_ns=NOW + 1) == "ends_in_the_past"


def test_stamp_zero_never_lies_in_the_past():
    assert verdict(Trajectory(JOINTS, [point(0)], stamp_ns=0), now_ns=NOW) == Accepted()


def test_times_must_strictly_increase():
    assert rule(Trajectory(JOINTS, [point(100), point(100)])) == "times_not_increasing"
    assert rule(Trajectory(JOINTS, [point(100), point(200), point(150)])) == "times_not_increasing"


def test_a_first_point_at_or_before_the_start_is_accepted():
    assert verdict(Trajectory(JOINTS, [point(0), point(10)])) == Accepted()
    assert verdict(Trajectory(JOINTS, [point(-50), point(10)])) == Accepted()


@pytest.mark.parametrize("size", [0, 2, 4])
def test_positions_must_be_one_per_named_joint(size):
    assert rule(Trajectory(JOINTS, [point(100), point(200, positions=[0.0] * size)])) == "array_size"


@pytest.mark.parametrize("field", ["velocities", "accelerations"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_derivatives_must_be_one_per_named_joint_or_empty(field, size):
    assert rule(Trajectory(JOINTS, [point(100, **{field: [0.0] * size})])) == "array_size"
    assert verdict(Trajectory(JOINTS, [point(100, **{field: []})])) == Accepted()


def test_accelerations_without_velocities_are_accepted():
    """They have no interpolation upstream (test_jtc_interpolation); the controller does not say so."""
    assert verdict(Trajectory(JOINTS, [point(accelerations=(0, 0, 0))])) == Accepted()


def test_effort_is_refused_by_a_position_controller():
    assert rule(Trajectory(JOINTS, [point(effort=(1, 1, 1))])) == "effort"


def test_numbers_are_not_judged_so_nan_reaches_the_command():
    """Upstream has no finiteness check: whatever sends trajectories is the last line of defence."""
    jtc = controller()
    nan = Trajectory(JOINTS, [point(8, positions=(np.nan, 0.2, 0.3), velocities=(np.nan, 0, 0))])
    assert jtc.receive(nan, NOW) == Accepted()
    command = jtc.update(NOW, [0, 0, 0], [0, 0, 0])
    assert np.isnan(command.positions[0]) and np.isfinite(command.positions[1:]).all()


def test_the_first_broken_rule_in_upstreams_order_names_the_reason():
    several = Trajectory(("pan", "lift", "wrist"), [point(100, velocities=(1, 0, 0))] * 2, stamp_ns=1)
    assert rule(several) == "unknown_joint"
    assert rule(Trajectory(JOINTS, several.points, 1)) == "nonzero_end_velocity"


def test_what_arrives_before_activation_is_dropped():
    jtc = JointTrajectoryController(JOINTS)
    assert jtc.receive(Trajectory(JOINTS, [point()]), NOW).rule == "inactive"
    with pytest.raises(JtcError, match="hold"):
        jtc.update(NOW, [0, 0, 0], [0, 0, 0])
    with pytest.raises(JtcError, match="hold"):
        _ = jtc.state


def test_accepted_and_rejected_are_counted_by_rule():
    """Upstream only logs; on a robot a refused stream looks like a robot that stands still."""
    jtc = controller()
    jtc.receive(Trajectory(JOINTS, [point()]), NOW)
    for _ in range(2):
        jtc.receive(Trajectory(JOINTS, []), NOW)
    jtc.receive(Trajectory(JOINTS[:1], []), NOW)
    assert (jtc.accepted, jtc.rejected) == (1, 3)
    assert jtc.rejections == {"no_points": 2, "joint_count": 1}


def test_parameters_have_jazzys_defaults_under_the_real_names():
    """A player checks these at activation; the names and defaults are those of the jazzy parameter file."""
    values = controller().parameters_by_name()
    assert values["allow_nonzero_velocity_at_trajectory_end"] is False
    assert values["interpolate_from_desired_state"] is False
    assert values["allow_partial_joints_goal"] is False
    assert values["open_loop_control"] is False
    assert values["interpolation_method"] == "splines"
    assert values["cmd_timeout"] == 0.0
    assert values["constraints.goal_time"] == 0.0
    assert values["constraints.stopped_velocity_tolerance"] == 0.01
    assert values["constraints.lift.trajectory"] == 0.0
    assert values["joints"] == list(JOINTS)
    # Features of later branches must not appear on Jazzy.
    assert not {"allow_trajectory_replacement", "positions_upsampling.enable"} & set(values)


def test_parameters_read_back_what_was_set():
    values = controller(
        interpolate_from_desired_state=True,
        cmd_timeout=0.5,
        constraints=Constraints(goal_time=0.2, joints={"lift": JointConstraints(trajectory=0.1, goal=0.05)}),
    ).parameters_by_name()
    assert values["interpolate_from_desired_state"] is True
    assert (values["cmd_timeout"], values["constraints.goal_time"]) == (0.5, 0.2)
    assert (values["constraints.lift.trajectory"], values["constraints.lift.goal"]) == (0.1, 0.05)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"interpolation_method": "linear"}, "interpolation_method"),
        ({"update_rate": 0}, "update_rate"),
        ({"state_interfaces": ("velocity",)}, "state_interfaces"),
        ({"constraints": Constraints(goal_time=-1.0)}, "goal_time"),
        ({"constraints": Constraints(joints={"wrist": JointConstraints()})}, "wrist"),
    ],
)
def test_bad_parameters_are_refused_by_name(parameters, named):
    with pytest.raises(JtcError, match=named):
        controller(**parameters)


def test_misuse_is_an_error_that_names_the_value():
    with pytest.raises(JtcError, match="pan"):
        JointTrajectoryController(("pan", "pan"))
    jtc = controller()
    with pytest.raises(JtcError, match=r"\(2,\)"):
        jtc.update(NOW, [0, 0], [0, 0, 0])
    with pytest.raises(JtcError, match="measured_velocity"):
        jtc.update(NOW, [0, 0, 0])
    with pytest.raises(JtcError, match="finite"):
        jtc.hold([0, np.nan, 0])
    with pytest.raises(JtcError, match="positions"):
        TrajectoryPoint(["a", "b", "c"])
    with pytest.raises(JtcError, match=r"\(1, 3\)"):
        TrajectoryPoint([[0, 0, 0]])
