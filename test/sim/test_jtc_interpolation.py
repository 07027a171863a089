"""What a trajectory means between, at, before and after its points: laws of the controller's interpolation."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.sim.jtc_interpolation import MotionState, Sampler, TrajectoryPoint, interpolate

MS = 1_000_000
START = 7_000_000_000

number = st.floats(-3.0, 3.0, allow_nan=False)
vector = st.tuples(number, number).map(np.array)
duration = st.floats(0.01, 2.0)
fraction = st.floats(0.0, 1.0)
full_state = st.builds(MotionState, vector, vector, vector)
gap_ms = st.integers(2, 500)


def cubic(state: MotionState) -> MotionState:
    return state._replace(accelerations=None)


@st.composite
def knots(draw, derivatives: int, min_gap_ms: int = 2):
    """Two to six points, up to 500 ms apart, with positions and as many derivatives as asked for."""
    count = draw(st.integers(2, 6))
    times = np.cumsum([draw(st.integers(min_gap_ms, 500)) for _ in range(count)]) * MS
    fields = [[draw(vector) for _ in range(1 + derivatives)] for _ in range(count)]
    return [TrajectoryPoint(*f, time_from_start_ns=int(t)) for f, t in zip(fields, times, strict=True)]


def sampler(points, before=None, before_ns=START, stamp_ns=START, **kwargs) -> Sampler:
    before = before or MotionState(np.zeros(2))
    return Sampler(points, stamp_ns, START, before, before_ns, **kwargs)


def close(actual, expected, scale=1.0):
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-7 * scale)


@given(full_state, full_state, duration, fraction)
def test_positions_only_move_on_the_straight_line_at_constant_speed(a, b, T, s):
    state = interpolate(MotionState(a.positions), MotionState(b.positions), T, s * T)
    close(state.positions, a.positions + s * (b.positions - a.positions))
    close(state.velocities, (b.positions - a.positions) / T)
    assert not state.accelerations.any()


@given(full_state, full_state, duration)
def test_cubic_meets_position_and_velocity_at_both_ends(a, b, T):
    first, last = (interpolate(cubic(a), cubic(b), T, t) for t in (0.0, T))
    for reached, wanted in ((first, a), (last, b)):
        close(reached.positions, wanted.positions)
        close(reached.velocities, wanted.velocities, scale=1 / T)


@given(full_state, full_state, duration)
def test_quintic_meets_position_velocity_and_acceleration_at_both_ends(a, b, T):
    for t, wanted in ((0.0, a), (T, b)):
        reached = interpolate(a, b, T, t)
        close(reached.positions, wanted.positions)
        close(reached.velocities, wanted.velocities, scale=1 / T)
        close(reached.accelerations, wanted.accelerations, scale=1 / T**2)


@given(full_state, full_state, st.floats(0.1, 2.0), st.floats(0.1, 0.9), st.booleans())
def test_velocity_and_acceleration_are_the_derivatives_of_position(a, b, T, s, quintic):
    """The velocities that the controller reports must be those of the motion that it commands."""
    a, b = (a, b) if quintic else (cubic(a), cubic(b))
    h = 1e-5 * T
    before, here, after = (interpolate(a, b, T, s * T + d) for d in (-h, 0.0, h))
    size = 100.0 / T
    np.testing.assert_allclose(
        here.velocities, (after.positions - before.positions) / (2 * h), rtol=1e-4, atol=1e-6 * size
    )
    np.testing.assert_allclose(
        here.accelerations, (after.velocities - before.velocities) / (2 * h), rtol=1e-4, atol=1e-6 * size / T
    )


@given(full_state, full_state, duration, fraction)
def test_the_ends_lowest_common_order_is_used(a, b, T, s):
    for start, end in ((a, cubic(b)), (cubic(a), b)):
        close(interpolate(start, end, T, s * T).positions, interpolate(cubic(a), cubic(b), T, s * T).positions)
    mixed = interpolate(cubic(a), MotionState(b.positions), T, s * T)
    close(mixed.positions, a.positions + s * (b.positions - a.positions))


@given(full_state, full_state, duration, fraction)
def test_accelerations_without_velocities_command_zero(a, b, T, s):
    """No case of upstream's interpolation covers this, and its output is zero: a leap to position 0. Never send it."""
    state = interpolate(a._replace(velocities=None), b._replace(velocities=None), T, s * T)
    assert not state.positions.any() and not state.velocities.any()


@given(knots(derivatives=1))
def test_the_trajectory_passes_through_its_points_with_their_velocities(points):
    trajectory = sampler(points)
    for p in points:
        sample = trajectory.sample(START + p.time_from_start_ns)
        close(sample.state.positions, p.positions)
        close(sample.state.velocities, p.velocities)
        assert sample.knot_ns == START + p.time_from_start_ns


def assert_joined(points, before, fields):
    """1 ns before each point the state is that at the point. Points 100 ms apart bound what 1 ns can change: the
    tolerances are ten times that, and a millionth of what a wrong segment would give."""
    trajectory = sampler(points, before)
    for p in points[:-1]:
        left = trajectory.sample(START + p.time_from_start_ns - 1, advance=False).state
        right = trajectory.sample(START + p.time_from_start_ns).state
        for field, tolerance in fields.items():
            np.testing.assert_allclose(getattr(left, field), getattr(right, field), atol=tolerance)


@given(knots(derivatives=1, min_gap_ms=100), full_state)
def test_cubic_segments_join_without_a_step_in_position_or_velocity(points, before):
    assert_joined(points, before, {"positions": 1e-5, "velocities": 1e-4})


@given(knots(derivatives=2, min_gap_ms=100), full_state)
def test_quintic_segments_join_without_a_step_in_acceleration(points, before):
    assert_joined(points, before, {"positions": 1e-5, "velocities": 1e-4, "accelerations": 1e-2})


@given(full_state, gap_ms, fraction)
def test_before_the_first_point_the_motion_leads_there_from_the_state_before(before, ms, s):
    end = TrajectoryPoint((1.0, -1.0), (0.0, 0.0), time_from_start_ns=ms * MS)
    at_ns = START + int(s * (ms * MS - 1))
    sample = sampler([end], before).sample(at_ns)
    expected = interpolate(
        cubic(before), MotionState(end.positions, end.velocities), ms * 1e-3, (at_ns - START) * 1e-9
    )
    close(sample.state.positions, expected.positions)
    assert not sample.ended and sample.knot_ns == START + ms * MS


def test_derivatives_missing_in_the_state_before_count_as_zero():
    """Else the first segment would have a lower order than the rest (ros2_controllers issue 2015)."""
    end = TrajectoryPoint((1.0, 1.0), (0.0, 0.0), (0.0, 0.0), time_from_start_ns=100 * MS)
    sample = sampler([end], MotionState(np.zeros(2))).sample(START)
    assert not sample.state.velocities.any() and not sample.state.accelerations.any()


def test_a_first_point_that_is_due_is_entered_without_transition():
    """time_from_start 0 means here and now: a first point away from the robot is a step in the command."""
    sample = sampler([TrajectoryPoint((1.0, 1.0))], MotionState(np.zeros(2))).sample(START)
    np.testing.assert_array_equal(sample.state.positions, [1.0, 1.0])
    assert sample.ended


@given(knots(derivatives=0), st.integers(0, 10_000))
def test_after_the_end_the_last_position_stands_at_rest(points, ms):
    sample = sampler(points).sample(START + points[-1].time_from_start_ns + ms * MS)
    np.testing.assert_array_equal(sample.state.positions, points[-1].positions)
    assert sample.ended and not sample.state.velocities.any()
    assert sample.knot_ns == START + points[-1].time_from_start_ns


def test_after_the_end_a_last_velocity_stands_too():
    """With non-zero end velocities allowed, the position stands still while a velocity is reported."""
    last = TrajectoryPoint((1.0, 1.0), (0.5, 0.0), time_from_start_ns=10 * MS)
    np.testing.assert_array_equal(sampler([last]).sample(START + 20 * MS).state.velocities, [0.5, 0.0])


def test_stamp_zero_starts_at_the_first_sample():
    sample = sampler([TrajectoryPoint((1.0, 1.0), time_from_start_ns=10 * MS)], stamp_ns=0).sample(START + 5 * MS)
    close(sample.state.positions, [0.5, 0.5])


def test_before_the_state_that_the_motion_starts_from_there_is_no_sample():
    assert sampler([TrajectoryPoint((1.0, 1.0), time_from_start_ns=10 * MS)]).sample(START - 1) is None


def test_a_clock_that_steps_back_within_a_trajectory_leaps_to_its_end():
    """Upstream searches only forward; a player must therefore replace the trajectory after a clock jump."""
    points = [TrajectoryPoint((float(i), 0.0), time_from_start_ns=i * 10 * MS) for i in range(5)]
    trajectory = sampler(points)
    trajectory.sample(START + 25 * MS)
    sample = trajectory.sample(START + 5 * MS)
    assert sample.ended and sample.state.positions[0] == 4.0


def test_a_look_ahead_past_the_end_ends_the_trajectory_on_jazzy():
    """Jazzy moves its search index even for the look ahead (changed on master): an early update sees the end."""
    points = [TrajectoryPoint((float(i), 0.0), time_from_start_ns=i * 10 * MS) for i in range(3)]
    trajectory = sampler(points)
    trajectory.sample(START + 17 * MS)
    trajectory.sample(START + 21 * MS, advance=False)
    assert trajectory.sample(START + 19 * MS).ended


def test_interpolation_none_gives_the_coming_point():
    points = [TrajectoryPoint((float(i), 0.0), time_from_start_ns=i * 10 * MS) for i in (1, 2)]
    trajectory = sampler(points, method="none")
    for ms, expected in ((5, 0.0), (10, 2.0), (15, 2.0), (25, 2.0)):
        assert trajectory.sample(START + ms * MS).state.positions[0] == expected
