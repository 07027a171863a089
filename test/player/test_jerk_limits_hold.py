"""The motion law with limited jerk: whatever is asked, every limit holds, a stop is always left, and references are joined."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from player_scenes import EPS, JERK_LIMITS, LIMITS, START_NS, Run, accepted, active_player, assert_limits, slide

from flashrt_ros.contract import schema
from flashrt_ros.player.jerk import JerkLimited
from flashrt_ros.player.limits import FAR, Limits, LimitsError
from flashrt_ros.player.row import Row

ARM = Limits(("a", "b", "c"), np.array([-1.0, -0.3, -FAR]), np.array([1.0, 0.5, FAR]), np.array([2.0, 0.7, 5.0]),
             np.array([10.0, 3.0, 40.0]), jerk=np.array([60.0, 300.0, 100.0]))
ONE = Limits(("a",), np.array([-1.0]), np.array([1.0]), np.array([2.0]), np.array([8.0]), jerk=np.array([80.0]))
TICKS = st.sampled_from([0.002, 0.005, 0.01, 0.02])

wild = st.floats(-1e6, 1e6) | st.floats(-2, 2)
three = st.tuples(wild, wild, wild).map(np.array)
inside = st.tuples(st.floats(-1, 1), st.floats(-0.3, 0.5), st.floats(-1, 1)).map(np.array)


def laws(rows, limits, dt):
    assert_limits(*(np.array([row[i] for row in rows]) for i in range(2)), limits, dt * 1e9, np.array([row[2] for row in rows]))


@given(inside, st.lists(st.tuples(three, three, three, st.integers(1, 12)), min_size=1, max_size=8), TICKS)
def test_no_reference_can_break_a_limit_or_take_the_stop_away(start, references, dt):
    """The policy may say anything; from every state on the way a stop within the limits must remain possible."""
    law = JerkLimited(ARM, dt)
    rows = [law.rest(start)]
    for position, velocity, acceleration, ticks in references:
        for _ in range(ticks):
            rows.append(law.track(rows[-1], position, velocity, acceleration))
        laws([rows[-1], *law.stop(rows[-1])], ARM, dt)
    laws(rows, ARM, dt)


@given(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), TICKS, st.floats(-1.5, 1.5), st.floats(-0.5, 2.5))
def test_a_stop_goes_no_farther_than_was_reckoned(state, dt, speed_decade, bend_decade):
    """Room before a position limit is reckoned by it; too small once, and the arm is beyond. Too large by much, and it would
    creep up to every limit."""
    v, a = state
    limits = Limits(("a",), np.array([-1e5]), np.array([1e5]), np.array([10**speed_decade]), np.array([10**speed_decade * 5]),
                    jerk=np.array([10**(speed_decade + bend_decade) * 5]))
    law, velocity, acceleration = JerkLimited(limits, dt), v * limits.velocity, a * limits.acceleration
    rising = velocity + 0.5 * acceleration * (np.abs(acceleration) / limits.jerk + dt)
    if np.abs(rising) > limits.velocity:
        velocity = velocity * 0  # not a state that the law can be in
        acceleration = acceleration * 0
    path = [row.position[0] for row in law.stop(Row(np.zeros(1), velocity, acceleration))]
    went = max([0.0, *path])
    reckoned = law.stop_distance(velocity, acceleration)[0]
    assert went <= reckoned + 1e-12 <= went + 4 * dt * limits.velocity[0] + limits.jerk[0] * dt**3


@pytest.mark.parametrize("dt", [0.002, 0.005, 0.02])
def test_a_distant_target_is_reached_fast_and_not_passed(dt):
    """Passing it would be an arm that swings back after every approach; and who limits jerk still wants to get there."""
    law = JerkLimited(ONE, dt)
    rows = [law.rest(np.zeros(1))]
    while abs(rows[-1].position[0] - 0.5) > 1e-3:
        rows.append(law.track(rows[-1], np.array([0.5]), np.zeros(1), np.zeros(1)))
    for _ in range(round(1 / dt)):
        rows.append(law.track(rows[-1], np.array([0.5]), np.zeros(1), np.zeros(1)))
    positions = np.array([row.position[0] for row in rows])
    assert positions.max() < 0.5 + 1e-5 and positions[-1] == pytest.approx(0.5, abs=1e-6)
    assert rows[-1].velocity[0] == pytest.approx(0, abs=1e-6)
    # The fastest motion with these limits takes 0.60 s.
    assert np.argmax(positions > 0.499) * dt < 0.85


@pytest.mark.parametrize("dt", [0.002, 0.005, 0.02])
def test_a_moving_reference_is_joined_and_then_followed(dt):
    """Without a lag: a chunk is where the policy wants the arm, not where it wants it some ticks later."""
    law, w = JerkLimited(ONE, dt), 3.0
    row, missed = law.rest(np.array([-0.3])), []
    for k in range(1, round(3 / dt)):
        t = k * dt
        row = law.track(row, *(np.array([x]) for x in (0.4 * np.sin(w * t), 0.4 * w * np.cos(w * t), -0.4 * w * w * np.sin(w * t))))
        missed.append(abs(row.position[0] - 0.4 * np.sin(w * t)))
    assert max(missed[round(1.5 / dt):]) < 1e-3


def test_a_target_at_a_limit_is_reached():
    """Grippers live at theirs."""
    law = JerkLimited(ONE, 0.02)
    row = law.rest(np.zeros(1))
    for _ in range(100):
        row = law.track(row, np.array([1.0]), np.zeros(1), np.zeros(1))
    assert row.position[0] == pytest.approx(1.0, abs=1e-4) and abs(row.velocity[0]) < 1e-3


@given(three.map(lambda x: np.clip(x, -3, 3)), three, TICKS)
def test_outside_a_limit_only_inward_motion_is_allowed(start, desired, dt):
    """An arm that starts outside (pushed there, or by new limits) must be able to come back, and never go farther out."""
    law = JerkLimited(ARM, dt)
    row = law.rest(start)
    for _ in range(30):
        then = law.track(row, desired, np.zeros(3), np.zeros(3))
        assert (then.position <= np.maximum(row.position, ARM.upper) + EPS).all()
        assert (then.position >= np.minimum(row.position, ARM.lower) - EPS).all()
        row = then


def test_a_stop_at_rest_is_empty_and_else_ends_exactly():
    """HOLDING is told from STOPPING by it; and joint_trajectory_controller refuses a last velocity that is not zero."""
    law = JerkLimited(ARM, 0.02)
    assert law.stop(law.rest(np.zeros(3))) == []
    last = law.stop(Row(np.zeros(3), np.array([1.0, 0.1, 0.0]), np.array([2.0, 0.0, -1.0])))[-1]
    assert (last.velocity == 0).all() and (last.acceleration == 0).all()


def test_a_player_with_jerk_limits_follows_a_chunk():
    """Slower in and out, but there: the chunk's line is reached, and its end is a rest."""
    run = Run(active_player(limits=JERK_LIMITS, expiry_ms=2000))
    accepted(run.player.offer(slide(START_NS, steps=60), START_NS))
    run.ticks(45)
    np.testing.assert_allclose(run.positions()[-1], slide(START_NS, steps=60).positions[45], atol=2e-3)
    run.ticks(60)
    assert run.player.at_rest and run.player.counters["ran_out"] == 1


def test_jerk_limits_come_from_the_contract():
    """One joint's is enough to limit all: a window tells accelerations for every joint or for none."""
    block = schema.Limits(velocity={"a": 1.0, "b": 2.0}, acceleration={"b": 6.0}, jerk={"a": 30.0})
    np.testing.assert_allclose(Limits.of(("a", "b"), block).jerk, [30.0, 60.0])
    assert Limits.of(("a",), schema.Limits(velocity={"a": 1.0})).jerk is None and LIMITS.jerk is None
    with pytest.raises(LimitsError, match="joint 'a': jerk is 0"):
        LIMITS.__class__.of(("a",), schema.Limits(velocity={"a": 1.0}, jerk={"a": 0.0}))
