"""The judge of command windows: a drill that passes is worth no more than what this would have found. So every rule is shown a
command that breaks it, and nothing but it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.bench.windows import STEP_S, Commanded, Window, judge, judge_start
from flashrt_ros.player.limits import Limits

MS = 1_000_000
LIMITS = Limits(("a", "b"), np.array([-1.0, -2.0]), np.array([1.0, 2.0]), np.array([2.0, 1.0]), np.array([10.0, 5.0]))


def window(positions, velocities, step_ms=100, received_ms=0, start_ms=0):
    """Of joint a; joint b stands still at 0."""
    still = np.zeros(len(positions))
    times = (start_ms + step_ms * np.arange(len(positions))) * MS
    return Window(received_ms * MS, times, np.stack([positions, still], 1), np.stack([velocities, still], 1))


def braking(speed, start=0.0, dt=0.02):
    """A window of joint a that begins at this speed and brakes within the limits, as the player ends its own."""
    positions, velocities = LIMITS.stop_profile(np.array([start, 0.0]), np.array([speed, 0.0]), dt)
    return window([start, *positions[:, 0]], [speed, *velocities[:, 0]], step_ms=round(dt * 1e3))


def test_a_window_within_the_limits_is_not_complained_about():
    assert judge(braking(2.0), LIMITS) == []
    assert judge(window([0.5], [0.0]), LIMITS) == []  # a single point: stay here


PLANTED = {
    "velocity between points": (window([-0.75, 0.75], [0.0, 0.0], 1000), "velocity"),  # 2.25 rad/s half-way, at most 9 rad/s^2
    "velocity at a point": (window([0.0, 0.315, 0.63], [0.0, 2.1, 0.0], 300), "velocity"),
    "acceleration between points": (window([0.0, 0.1], [0.0, 0.0], 200), "acceleration"),  # 15 rad/s^2, at most 0.75 rad/s
    "position between points": (window([0.99, 0.99, 0.95], [0.4, -0.4, 0.0], 200), "position"),  # turns at 1.01 rad
    "position at a point": (window([1.0001], [0.0]), "position"),
    "not at rest at its end": (window([0.0, 0.039], [2.0, 1.9], 20), "rest"),
    "NaN": (window([0.0, np.nan], [0.0, 0.0]), "malformed"),
    "no velocity": (window([0.0, 0.0], [0.0, np.nan]), "malformed"),
    "time stands still": (window([0.0, 0.0], [0.0, 0.0], 0), "malformed"),
}


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_violation_is_found_and_nothing_else(what, mirrored):
    bad, rule = PLANTED[what]
    if mirrored:
        bad = Window(bad.received_ns, bad.times_ns, -bad.positions, -bad.velocities)
    found = {violation.rule for violation in judge(bad, LIMITS)}
    assert found == {rule}
    # One in a stream of good ones, too, and whichever joint it is.
    turned = Limits(LIMITS.names, LIMITS.lower[::-1], LIMITS.upper[::-1], LIMITS.velocity[::-1], LIMITS.acceleration[::-1])
    other = Window(1000 * MS, bad.times_ns, bad.positions[:, ::-1], bad.velocities[:, ::-1])
    stream = [window([0.0], [0.0]), other, window([0.0], [0.0], received_ms=4000)]
    assert (rule, "b") in {(v.rule, v.joint) for v in Commanded(stream).judge(turned)}


values = st.lists(st.tuples(st.floats(-3, 3), st.floats(-5, 5)), min_size=2, max_size=5)


@given(values, st.integers(2, 500))
def test_extremes_are_those_of_the_curve(points, step_ms):
    """A judge that looked at the points only would pass a curve that leaves the limits between them; one that looked too far
    would call a good player bad."""
    some = window(*map(np.array, zip(*points)), step_ms=step_ms)
    times = np.linspace(0, int(some.times_ns[-1]) - 1, 20_001).astype(np.int64)
    for sampled, extreme in zip(some.at(times), some.extremes()):
        assert extreme[..., 0].max() >= sampled[:, 0].max() - 1e-9 * (1 + np.abs(sampled).max())
        assert extreme[..., 0].min() <= sampled[:, 0].min() + 1e-9 * (1 + np.abs(sampled).max())
        steepest = np.abs(np.diff(sampled[:, 0])).max()  # acceleration jumps at knots; its extremes are ends of segments
        assert extreme[..., 0].max() <= sampled[:, 0].max() + steepest + 1e-9


@given(st.floats(-2, 2), st.floats(-1, 1), st.sampled_from([0.002, 0.01, 0.02, 0.05]))
def test_what_the_player_promises_is_within(speed, start, dt):
    """The player's own motion law must pass with the tolerance as it is, else the judge measures its own rounding."""
    rows = [(np.array([start / 4, 0.0]), np.array([speed / 4, 0.0]))]
    for _ in range(20):
        rows.append(LIMITS.clamp_step(*rows[-1], np.array([start, 0.0]), np.array([speed, 0.0]), dt))
    rows += zip(*LIMITS.stop_profile(*rows[-1], dt))
    positions, velocities = map(np.array, zip(*rows))
    times = (np.arange(len(rows)) * round(dt * 1e9)).astype(np.int64)
    assert judge(Window(0, times, positions, velocities), LIMITS) == []


def test_an_executor_leaves_a_window_for_the_next_and_follows_the_last_to_its_end():
    first, second = braking(1.0), window([0.5], [0.0], received_ms=50, start_ms=40)
    both = Commanded([first, second])
    position, velocity, _ = both.at(np.array([-1, 20, 49, 50, 5000]) * MS)
    assert np.isnan(position[0]).all()
    assert position[1:, 0].tolist() == [*first.at([20 * MS, 49 * MS])[0][:, 0], 0.5, 0.5]
    assert velocity[1, 0] == pytest.approx(0.8) and (velocity[3:] == 0).all()
    position, velocity, _ = Commanded([first]).at(np.array([99, 100, 5000]) * MS)
    assert velocity[0, 0] > 0 and (velocity[1:] == 0).all() and position[1, 0] == position[2, 0] == pytest.approx(0.05)


def test_a_window_that_begins_later_than_it_came_waits_for_its_time():
    """The sender's clock is never ahead of the robot's, only of the observer's."""
    ahead = window([0.5], [0.0], received_ms=10, start_ms=30)
    position, _, _ = Commanded([window([0.0], [0.0]), ahead]).at(np.array([29, 30]) * MS)
    assert position[:, 0].tolist() == [0.0, 0.5]


@pytest.mark.parametrize("late_ms, steps", [(20, False), (60, True)])
def test_a_take_over_steps_only_where_the_windows_differ(late_ms, steps):
    """Until 20 ms both brake; then the second speeds up. Taken up in time that is no step; 40 ms later it is one, and more than a
    tick of acceleration is a violation."""
    first = braking(1.0)
    up = window([0.0, 0.018, 0.036, 0.058, 0.084], [1.0, 0.8, 1.0, 1.2, 1.4], 20, received_ms=late_ms)
    position, velocity = Commanded([first, up]).steps()
    if steps:
        assert velocity[0, 0] == pytest.approx(0.8) and position[0, 0] == pytest.approx(0.016)
        assert 0.8 > LIMITS.acceleration[0] * STEP_S
    else:
        assert velocity[0, 0] == pytest.approx(0.0, abs=1e-12) and position[0, 0] == pytest.approx(0.0, abs=1e-12)
    found = {violation.rule for violation in Commanded([first, up]).judge(LIMITS)} - {"rest"}
    assert found == ({"position_step", "velocity_step"} if steps else set())


def test_a_run_that_begins_away_from_the_arm_is_found():
    """A player that starts again must begin from where the arm is, not from where the dead one left its command."""
    measured = np.array([[0.1, 0.0], [0.2, 0.0]])
    assert judge_start(window([0.2], [0.0]), measured, LIMITS) == []
    (violation,) = judge_start(window([0.25], [0.0]), measured, LIMITS)
    assert (violation.rule, violation.joint) == ("start", "a") and violation.value == pytest.approx(0.05)
