"""When the controller gives up a trajectory and holds: path and goal tolerances, goal time, command timeout."""

import numpy as np
import pytest

from flashrt_ros.sim.jtc import (
    Accepted,
    Constraints,
    JointConstraints,
    JointTrajectoryController,
    JtcParameters,
    Trajectory,
    TrajectoryPoint,
)

JOINTS = ("pan", "lift")
MS = 1_000_000
PERIOD = 4 * MS
NOW = 9_000_000_000


def controller(path=0.0, goal=0.0, goal_time=0.0, **parameters) -> JointTrajectoryController:
    """Tolerances are on the joint `lift` only."""
    constraints = Constraints(goal_time=goal_time, joints={"lift": JointConstraints(trajectory=path, goal=goal)})
    jtc = JointTrajectoryController(JOINTS, JtcParameters(constraints=constraints, **parameters))
    jtc.hold((0.0, 0.0))
    return jtc


def send(jtc: JointTrajectoryController, ms: int, positions) -> None:
    result = jtc.receive(Trajectory(JOINTS, [TrajectoryPoint(positions, time_from_start_ns=ms * MS)]), NOW)
    assert result == Accepted()


def steps(jtc: JointTrajectoryController, start: int, count: int, measured=(0.0, 0.0), velocity=(0.0, 0.0)):
    """Updates number start to start + count - 1; the commands [count, N]."""
    return np.array([jtc.update(NOW + i * PERIOD, measured, velocity).positions for i in range(start, start + count)])


def test_without_tolerances_any_error_is_followed_to_the_end():
    """Jazzy's default: nothing is checked."""
    jtc = controller()
    send(jtc, 100, (1.0, 1.0))
    commands = steps(jtc, 0, 100, measured=(-5.0, -5.0))
    np.testing.assert_allclose(commands[-1], [1.0, 1.0])
    assert not jtc.state.holding and not jtc.violations
    np.testing.assert_allclose(jtc.state.error, [6.0, 6.0])


def test_beyond_the_path_tolerance_it_keeps_the_command_for_one_period_and_then_holds_the_measured_position():
    jtc = controller(path=0.5)
    send(jtc, 100, (0.0, 1.0))
    good = steps(jtc, 0, 10, measured=(0.0, 0.0))
    assert jtc.state.violation is None
    kept = steps(jtc, 10, 1, measured=(0.0, -0.2))
    assert jtc.state.violation == "path_tolerance" and jtc.state.holding
    np.testing.assert_array_equal(kept[0], good[-1])
    held = steps(jtc, 11, 40, measured=(0.0, -0.2))
    np.testing.assert_array_equal(held, np.tile([0.0, -0.2], (40, 1)))
    assert jtc.violations == {"path_tolerance": 1}


def test_a_path_tolerance_binds_its_own_joint_only():
    jtc = controller(path=0.5)
    send(jtc, 100, (0.0, 1.0))
    steps(jtc, 0, 5, measured=(3.0, 0.0))
    assert not jtc.violations


def test_the_path_tolerance_is_checked_once_even_if_the_first_point_is_the_end():
    jtc = controller(path=0.5)
    send(jtc, 0, (0.0, 1.0))
    command = steps(jtc, 0, 1)
    assert jtc.state.violation == "path_tolerance"
    np.testing.assert_array_equal(command[0], [0.0, 0.0])


def test_after_the_end_the_path_tolerance_is_not_checked():
    jtc = controller(path=0.5)
    send(jtc, 20, (0.0, 0.4))
    steps(jtc, 0, 20)
    steps(jtc, 20, 5, measured=(0.0, 3.0))
    assert not jtc.violations


def test_while_holding_nothing_is_checked():
    jtc = controller(path=0.1, goal=0.1, goal_time=0.1)
    commands = steps(jtc, 0, 100, measured=(3.0, 3.0))
    assert not jtc.violations
    np.testing.assert_array_equal(commands[-1], [0.0, 0.0])


def test_outside_the_goal_tolerance_with_goal_time_zero_it_waits_for_ever_on_the_last_point():
    jtc = controller(goal=0.1)
    send(jtc, 20, (0.0, 1.0))
    commands = steps(jtc, 0, 500)
    assert jtc.state.outside_goal and not jtc.violations
    np.testing.assert_array_equal(commands[-1], [0.0, 1.0])


def test_goal_time_over_it_holds_the_measured_position():
    jtc = controller(goal=0.1, goal_time=0.1)
    send(jtc, 20, (0.0, 1.0))
    steps(jtc, 0, 31, measured=(0.0, 0.5))
    assert jtc.state.outside_goal and not jtc.violations
    steps(jtc, 31, 1, measured=(0.0, 0.5))
    assert jtc.state.violation == "goal_time"
    np.testing.assert_array_equal(steps(jtc, 32, 1, measured=(0.0, 0.5))[0], [0.0, 0.5])


def test_inside_the_goal_tolerance_goal_time_has_no_effect():
    jtc = controller(goal=0.1, goal_time=0.1)
    send(jtc, 20, (0.0, 1.0))
    steps(jtc, 0, 200, measured=(0.0, 0.95))
    assert not jtc.state.outside_goal and not jtc.violations


def test_the_stopped_velocity_tolerance_has_no_effect_on_a_position_command():
    """Upstream forms a velocity error only with a velocity or effort command."""
    jtc = controller(goal=0.1, goal_time=0.1)
    send(jtc, 20, (0.0, 1.0))
    steps(jtc, 0, 200, measured=(0.0, 1.0), velocity=(0.0, 5.0))
    assert not jtc.state.outside_goal and not jtc.violations


def test_a_new_trajectory_ends_a_hold_and_is_checked_afresh():
    jtc = controller(path=0.5)
    send(jtc, 100, (0.0, 1.0))
    steps(jtc, 0, 1)
    steps(jtc, 1, 2, measured=(0.0, 2.0))
    assert jtc.state.holding
    send(jtc, 100, (0.0, 2.0))
    steps(jtc, 3, 50, measured=(0.0, 2.0))
    assert not jtc.state.holding and jtc.violations == {"path_tolerance": 1}


def test_nan_measurements_violate_no_tolerance():
    """A dead encoder is not caught by tolerances; something else must watch it."""
    jtc = controller(path=0.1, interpolate_from_desired_state=True)
    send(jtc, 100, (0.0, 1.0))
    steps(jtc, 0, 20, measured=(0.0, np.nan))
    assert not jtc.violations


def test_by_default_there_is_no_command_timeout():
    jtc = controller()
    send(jtc, 20, (1.0, 1.0))
    steps(jtc, 0, 2000)
    assert not jtc.violations


def test_the_command_timeout_counts_from_the_last_point_and_holds_the_measured_position():
    """It ends the repetition of a last point when a stream dries up."""
    jtc = controller(cmd_timeout=0.1)
    send(jtc, 20, (1.0, 1.0))
    steps(jtc, 0, 31, measured=(0.9, 0.9))
    assert not jtc.violations and not jtc.state.holding
    noticing = steps(jtc, 31, 1, measured=(0.9, 0.9))
    assert jtc.state.violation == "cmd_timeout" and jtc.state.holding
    np.testing.assert_array_equal(noticing[0], [1.0, 1.0])
    held = steps(jtc, 32, 100, measured=(0.9, 0.9))
    np.testing.assert_array_equal(held, np.full((100, 2), 0.9))
    assert jtc.violations == {"cmd_timeout": 1}


def test_the_update_that_notices_the_timeout_still_commands_the_last_point():
    """Also when the loop stalled past the timeout: unlike after a tolerance, the robot gets one command more."""
    jtc = controller(cmd_timeout=0.1)
    jtc.receive(Trajectory(JOINTS, [TrajectoryPoint((1.0, 1.0))], stamp_ns=NOW), NOW)
    command = steps(jtc, 100, 1)
    assert jtc.state.violation == "cmd_timeout"
    np.testing.assert_array_equal(command[0], [1.0, 1.0])
    np.testing.assert_array_equal(steps(jtc, 101, 1)[0], [0.0, 0.0])


@pytest.mark.parametrize(("timeout", "goal_time", "effective"), [(0.5, 0.2, 0.5), (0.2, 0.2, 0.0), (0.1, 0.2, 0.0)])
def test_a_command_timeout_not_longer_than_goal_time_is_off(timeout, goal_time, effective):
    parameters = JtcParameters(cmd_timeout=timeout, constraints=Constraints(goal_time=goal_time))
    assert parameters.effective_cmd_timeout == effective
