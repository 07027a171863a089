"""When a trajectory starts, what it replaces, and where the motion starts from: what a stream of chunks relies on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_ros.sim.jtc import Accepted, JointTrajectoryController, JtcParameters, Trajectory, TrajectoryPoint
from flashrt_ros.sim.jtc_interpolation import MotionState, interpolate

JOINTS = ("pan", "lift")
MS = 1_000_000
PERIOD = 4 * MS
NOW = 9_000_000_000

number = st.floats(-2.0, 2.0, allow_nan=False)
vector = st.tuples(number, number)


class Loop:
    """A controller in its 250 Hz loop before a robot that is always `lag` rad behind the last command, at rest."""

    def __init__(self, start=(0.0, 0.0), lag=0.0, **parameters) -> None:
        self.jtc = JointTrajectoryController(JOINTS, JtcParameters(**parameters))
        self.jtc.hold(start)
        self.now_ns, self.lag = NOW, lag
        self.step()

    def send(self, *points: TrajectoryPoint, names=JOINTS, stamp_ns: int = 0):
        return self.jtc.receive(Trajectory(names, points, stamp_ns), self.now_ns)

    def step(self, periods: int = 1) -> np.ndarray:
        for _ in range(periods):
            measured = self.jtc.command.positions - self.lag
            command = self.jtc.update(self.now_ns, measured, np.zeros(2))
            self.now_ns += PERIOD
        return command.positions


def at(ms: int, positions, velocities=(), accelerations=()) -> TrajectoryPoint:
    return TrajectoryPoint(positions, velocities, accelerations, ms * MS)


def test_it_starts_by_holding_and_commands_nothing_else():
    loop = Loop(start=(0.3, -0.4))
    np.testing.assert_array_equal(loop.step(10), [0.3, -0.4])
    assert loop.jtc.state.holding


def test_the_command_is_the_trajectory_one_period_ahead():
    """The hardware gets where to be at the next update; the desired state, which tolerances use, is that of now."""
    loop = Loop()
    loop.send(at(100, (1.0, 0.0)))
    np.testing.assert_allclose(loop.step(), [0.04, 0.0])
    np.testing.assert_allclose(loop.jtc.state.desired.positions, [0.0, 0.0])
    assert not loop.jtc.state.holding


def test_joints_are_matched_by_name():
    loop = Loop()
    loop.send(at(4, (1.0, 2.0), (0.0, 0.0)), names=("lift", "pan"))
    np.testing.assert_array_equal(loop.step(3), [2.0, 1.0])


def test_a_joint_missing_from_a_partial_goal_stays_at_its_last_command():
    loop = Loop(start=(0.5, 0.7), lag=0.1, allow_partial_joints_goal=True)
    loop.send(at(20, (1.0,), (0.0,)), names=("lift",))
    assert loop.step(10) == pytest.approx([0.5, 1.0])


def test_a_joint_named_twice_leaves_the_unnamed_one_at_a_stale_value():
    """Accepted, with a consequence that nobody wants: lift goes where an earlier array left it. Never send it."""
    loop = Loop()
    loop.send(at(4, (0.25, 0.75)))
    loop.step(3)
    loop.send(at(4, (1.0, 2.0)), names=("pan", "pan"))
    np.testing.assert_array_equal(loop.step(3), [2.0, 0.75])


def test_more_names_than_joints_are_taken_in_the_order_given():
    """Partial goals lift the check on the number of joints; then nothing is sorted by name."""
    loop = Loop(allow_partial_joints_goal=True)
    loop.send(at(4, (1.0, 2.0, 3.0)), names=("lift", "pan", "pan"))
    np.testing.assert_array_equal(loop.step(3), [1.0, 2.0])


def test_a_replacement_forgets_the_old_trajectory_at_the_next_update():
    """Nothing is blended or kept until the new one's stamp: a trajectory for later stops the present one now."""
    loop = Loop()
    loop.send(at(1000, (1.0, 0.0), (0.0, 0.0)))
    loop.step(50)
    loop.send(at(0, (0.5, 0.5), (0.0, 0.0)), stamp_ns=loop.now_ns + 500 * MS)
    loop.step(60)
    halfway = loop.step()
    assert halfway[1] == pytest.approx(0.25, abs=0.01)
    np.testing.assert_allclose(loop.step(70), [0.5, 0.5])


def test_of_several_trajectories_between_two_updates_the_newest_wins():
    loop = Loop()
    loop.send(at(4, (1.0, 1.0)))
    loop.send(at(4, (2.0, 2.0)))
    np.testing.assert_array_equal(loop.step(3), [2.0, 2.0])


def test_a_rejected_trajectory_leaves_the_old_one_running():
    loop = Loop()
    loop.send(at(40, (1.0, 1.0)))
    loop.step(5)
    assert loop.send(at(40, (5.0, 5.0), (1.0, 1.0))) != Accepted()
    np.testing.assert_allclose(loop.step(10), [1.0, 1.0])


def test_by_default_a_replacement_starts_from_the_measured_state_and_steps_back_by_the_lag():
    """Why a stream of chunks needs interpolate_from_desired_state: each message would throw the command back."""
    loop = Loop(lag=0.05)
    loop.send(at(1000, (1.0, 1.0)))
    before = loop.step(100)
    loop.send(at(600, (1.0, 1.0)))
    after = loop.step()
    np.testing.assert_allclose(after, before - 0.05 + (1.05 - before) * PERIOD / (600 * MS))
    assert (after < before - 0.04).all()


def test_by_default_the_first_cubic_starts_with_the_measured_velocity():
    jtc = JointTrajectoryController(JOINTS)
    jtc.hold((0.0, 0.0))
    jtc.receive(Trajectory(JOINTS, [at(100, (0.0, 0.0), (0.0, 0.0))]), NOW)
    moving = jtc.update(NOW, (0.0, 0.0), (1.0, 0.0)).positions
    expected = interpolate(
        MotionState(np.zeros(2), np.array([1.0, 0.0])), MotionState(np.zeros(2), np.zeros(2)), 0.1, 0.004
    )
    np.testing.assert_allclose(moving, expected.positions)
    assert moving[0] > 0.003


def test_without_a_velocity_interface_the_first_cubic_starts_at_rest():
    jtc = JointTrajectoryController(JOINTS, JtcParameters(state_interfaces=("position",)))
    jtc.hold((0.0, 0.0))
    jtc.receive(Trajectory(JOINTS, [at(100, (0.0, 0.0), (0.0, 0.0))]), NOW)
    np.testing.assert_array_equal(jtc.update(NOW, (0.0, 0.0), (1.0, 0.0)).positions, [0.0, 0.0])


@settings(max_examples=40)
@given(
    first=vector, second=vector, end_ms=st.integers(50, 500), steps=st.integers(1, 60), lag=st.floats(-0.2, 0.2),
    open_loop=st.booleans(), quintic=st.booleans(),
)  # fmt: skip
def test_from_the_desired_state_a_replacement_has_no_position_step(
    first, second, end_ms, steps, lag, open_loop, quintic
):
    """The command moves on from the last command, whatever was measured. Upstream dates that command one period too
    early, so the first step is two periods of the new segment: bounded by its speed, not by the lag."""
    parameters = {"open_loop_control": True} if open_loop else {"interpolate_from_desired_state": True}
    loop = Loop(lag=lag, **parameters)
    derivatives = ((0.0, 0.0), (0.0, 0.0)) if quintic else ((0.0, 0.0),)
    loop.send(at(240, first, *derivatives))
    loop.step(steps)
    last = loop.jtc.command
    loop.send(at(end_ms, second, *derivatives))
    after = loop.step()
    start = last if quintic else last._replace(accelerations=None)
    goal = MotionState(np.array(second), *map(np.array, derivatives))
    duration = end_ms * 1e-3 + 0.004
    np.testing.assert_allclose(after, interpolate(start, goal, duration, 0.008).positions, atol=1e-9)
    speed = max(np.abs(interpolate(start, goal, duration, t).velocities).max() for t in np.linspace(0, 0.008, 9))
    assert np.abs(after - last.positions).max() <= 1.05 * speed * 0.008 + 1e-9


@given(delay=st.integers(0, 150), velocities=st.booleans(), positions=st.lists(vector, min_size=4, max_size=8))
def test_a_stamp_in_the_past_enters_at_the_right_place(delay, velocities, positions):
    """A late trajectory does not start late: it is where one received in time would be, from its first point on."""
    rest = ((0.0, 0.0),) if velocities else ()
    points = [at(50 * i, p, *rest) for i, p in enumerate(positions)]
    in_time, late = Loop(), Loop()
    stamp_ns = in_time.now_ns + 2 * PERIOD
    in_time.send(*points, stamp_ns=stamp_ns)
    in_time.step(3 + delay // 4)
    late.step(2 + delay // 4)
    assert late.send(*points, stamp_ns=stamp_ns) == Accepted()
    late.step()
    for _ in range(40):
        np.testing.assert_array_equal(in_time.step(), late.step())


@settings(max_examples=40)
@given(positions=st.lists(vector, min_size=10, max_size=10), every=st.integers(1, 12), lag=st.floats(-0.2, 0.2))
def test_stamped_windows_of_one_motion_are_followed_as_the_whole(positions, every, lag):
    """What a player's receding windows rely on: if each begins with a point that is due, no replacement leaves a
    trace, however far the robot lags."""
    path = np.array(positions)
    speeds = np.gradient(path, 0.05, axis=0)
    speeds[0] = speeds[-1] = 0.0
    points = [at(50 * i, p, v) for i, (p, v) in enumerate(zip(path, speeds, strict=True))]
    whole, windows = Loop(lag=lag), Loop(lag=lag)
    stamp_ns = whole.now_ns
    whole.send(*points, stamp_ns=stamp_ns)
    for step in range(100):
        if step % every == 0:
            entered = (windows.now_ns - stamp_ns) // (50 * MS)
            windows.send(*points[entered:], stamp_ns=stamp_ns)
        np.testing.assert_array_equal(whole.step(), windows.step())


def test_a_stamp_in_the_future_moves_at_once_towards_the_first_point():
    """It does not wait for its stamp: the way to the first point takes until that point is due."""
    loop = Loop()
    loop.send(at(0, (1.0, 1.0)), stamp_ns=loop.now_ns + 100 * MS)
    np.testing.assert_allclose(loop.step(), [0.04, 0.04])


def test_stamp_zero_counts_from_the_first_update_not_from_the_reception():
    loop = Loop()
    loop.send(at(100, (1.0, 1.0)))
    loop.now_ns += 500 * MS
    np.testing.assert_allclose(loop.step(), [0.04, 0.04])


def test_after_the_end_the_last_point_is_repeated_and_it_is_not_holding():
    loop = Loop()
    loop.send(at(20, (1.0, 1.0)))
    np.testing.assert_array_equal(loop.step(500), [1.0, 1.0])
    assert loop.jtc.state.ended and not loop.jtc.state.holding


def test_hold_forgets_the_trajectory_and_stays():
    loop = Loop()
    loop.send(at(1000, (1.0, 1.0)))
    loop.step(50)
    loop.jtc.hold((0.1, 0.1))
    np.testing.assert_array_equal(loop.step(50), [0.1, 0.1])
    assert loop.jtc.state.holding


def test_a_clock_before_the_start_of_the_motion_freezes_the_command():
    loop = Loop()
    loop.send(at(100, (1.0, 1.0)))
    before = loop.step(2)
    loop.now_ns = NOW - 1000 * MS
    np.testing.assert_array_equal(loop.step(5), before)


def test_an_update_that_comes_early_does_not_skip_a_point_that_was_looked_ahead_to():
    """Control loops jitter; the look ahead across a point must not advance the search, or the robot leaps to the end."""
    loop = Loop()
    loop.send(at(0, (0.0, 0.0)), at(10, (0.1, 0.0)), at(1000, (0.2, 0.0)), at(2000, (5.0, 0.0)))
    loop.step(2)
    loop.step()
    loop.now_ns -= 3 * MS
    assert loop.step()[0] == pytest.approx(0.1, abs=0.01)
    assert loop.jtc.state.desired.positions[0] == pytest.approx(0.09)


def test_nan_measurements_reach_the_command_only_where_motion_starts_from_them():
    """With interpolate_from_desired_state a bad sensor does not move the robot; by default it does."""
    for desired, finite in ((True, True), (False, False)):
        jtc = JointTrajectoryController(JOINTS, JtcParameters(interpolate_from_desired_state=desired))
        jtc.hold((0.0, 0.0))
        jtc.update(NOW, (np.nan, 0.0), (0.0, 0.0))
        jtc.receive(Trajectory(JOINTS, [at(100, (1.0, 1.0))]), NOW)
        command = jtc.update(NOW + PERIOD, (np.nan, 0.0), (0.0, 0.0))
        assert np.isfinite(command.positions).all() == finite
