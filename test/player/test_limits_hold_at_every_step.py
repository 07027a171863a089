"""The motion law: whatever is asked, position, velocity and acceleration keep to limits, and a stop is always left."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.contract import schema
from flashrt_ros.player.limits import FAR, Limits, LimitsError

EPS = 1e-9
DT = 0.02
ARM = Limits(("a", "b", "c"), np.array([-1.0, -0.3, -FAR]), np.array([1.0, 0.5, FAR]), np.array([2.0, 0.7, 5.0]),
             np.array([10.0, 3.0, 40.0]))

wild = st.floats(-1e6, 1e6) | st.floats(-2, 2)
three = st.tuples(wild, wild, wild).map(np.array)
inside = st.tuples(st.floats(-1, 1), st.floats(-0.3, 0.5), st.floats(-1, 1)).map(np.array)


def assert_within(limits, positions, velocities):
    assert (positions >= limits.lower - EPS).all() and (positions <= limits.upper + EPS).all()
    assert (np.abs(velocities) <= limits.velocity + EPS).all()


@given(inside, st.lists(st.tuples(three, three, st.integers(1, 12)), min_size=1, max_size=8),
       st.sampled_from([0.002, 0.01, 0.02, 0.05]))
def test_no_reference_can_break_a_limit_or_take_the_stop_away(start, references, dt):
    """The policy may say anything; from every state on the way a stop within the limits must remain possible."""
    position, velocity = start, np.zeros(3)
    for desired_position, desired_velocity, ticks in references:
        for _ in range(ticks):
            before, speed = position, velocity
            position, velocity = ARM.clamp_step(before, speed, desired_position, desired_velocity, dt)
            assert_within(ARM, position, velocity)
            assert (np.abs(velocity - speed) <= ARM.acceleration * dt + EPS).all()
            # Constant acceleration within the tick: this is what makes a controller's cubic keep the limits as well.
            np.testing.assert_allclose(position, before + (speed + velocity) / 2 * dt, atol=1e-12)
        positions, velocities = ARM.stop_profile(position, velocity, dt)
        assert_within(ARM, positions, velocities)
        if len(velocities):
            assert (velocities[-1] == 0).all()
            speeds = np.vstack([velocity, velocities])
            assert (np.abs(np.diff(speeds, axis=0)) <= ARM.acceleration * dt + EPS).all()


def test_a_stop_takes_no_longer_than_braking_allows():
    """A stop is what saves the arm: every joint brakes at its limit, and is not slowed to another's pace."""
    velocity = np.array([1.0, -0.1, 0.0])
    _, velocities = ARM.stop_profile(np.zeros(3), velocity, DT)
    assert len(velocities) == 5  # 1 rad/s at 10 rad/s^2 in ticks of 0.02 s
    np.testing.assert_allclose(velocities[0], [0.8, -0.04, 0.0])


def test_at_rest_there_is_nothing_to_stop():
    """An empty profile, not one of a single useless tick: HOLDING is told from STOPPING by it."""
    positions, velocities = ARM.stop_profile(np.zeros(3), np.zeros(3), DT)
    assert positions.shape == velocities.shape == (0, 3)


@given(inside, inside)
def test_a_resting_target_is_reached_without_overshoot(start, target):
    """Braking begins in time: an arm sent to a table's edge must not swing past it first."""
    position, velocity = start, np.zeros(3)
    path = []
    for _ in range(120):
        position, velocity = ARM.clamp_step(position, velocity, target, np.zeros(3), DT)
        path.append(position)
    assert ((np.array(path) - target) * np.sign(target - start) <= EPS).all()
    np.testing.assert_allclose(position, target, atol=1e-9)
    np.testing.assert_allclose(velocity, 0, atol=1e-9)


def test_a_reachable_moving_reference_is_followed_without_lag():
    """A lag would show as a saw-tooth each time that a new chunk starts from the measured pose."""
    def reference(t):
        return 0.4 * np.sin(1.2 * t) * np.ones(3) * [1, 0.5, 1], 0.48 * np.cos(1.2 * t) * np.ones(3) * [1, 0.5, 1]

    position, velocity = reference(0.0)
    for k in range(1, 200):
        desired, speed = reference(k * DT)
        position, velocity = ARM.clamp_step(position, velocity, desired, speed, DT)
        assert np.abs(position - desired).max() < 2e-6 and np.abs(velocity - speed).max() < 2e-4


@given(st.floats(1e-6, 2.0), st.sampled_from([-1, 1]), st.lists(three, min_size=1, max_size=6))
def test_outside_a_limit_only_inward_motion_is_allowed(beyond, side, targets):
    """A joint found outside (calibration, a person's push) may stand or come back, and never go further out."""
    position = np.array([side * (1 + beyond), 0.0, 0.0])
    velocity = np.zeros(3)
    for target in targets:
        for _ in range(5):
            before = abs(position[0])
            position, velocity = ARM.clamp_step(position, velocity, target, np.zeros(3), DT)
            assert abs(position[0]) <= max(before, 1.0) + EPS


def test_a_joint_comes_back_from_outside_its_limit():
    """`Only inward` must not mean `stuck`."""
    position, velocity = np.array([1.4, 0.0, 0.0]), np.zeros(3)
    for _ in range(200):
        position, velocity = ARM.clamp_step(position, velocity, np.array([0.5, 0.0, 0.0]), np.zeros(3), DT)
    assert abs(position[0] - 0.5) < 1e-6


def test_a_contract_gives_limits_in_the_players_joint_order():
    """Limits swapped between joints are as dangerous as positions swapped; what is not given has a documented value."""
    block = schema.Limits(position={"elbow": (-1.0, 2.0)}, velocity={"pan": 2.0, "elbow": 3.0},
                          acceleration={"elbow": 7.0})
    limits = Limits.of(("elbow", "pan"), block)
    assert limits.lower.tolist() == [-1.0, -FAR] and limits.upper.tolist() == [2.0, FAR]
    assert limits.velocity.tolist() == [3.0, 2.0]
    assert limits.acceleration.tolist() == [7.0, 10.0]


def test_a_joint_without_a_velocity_limit_is_refused_by_name():
    """Without it nothing bounds the arm's speed, so there is no default."""
    with pytest.raises(LimitsError, match="no velocity limit for elbow"):
        Limits.of(("pan", "elbow"), schema.Limits(velocity={"pan": 2.0}))


@pytest.mark.parametrize("change, said", [
    ({"lower": np.array([1.0])}, "lower must be below upper"),
    ({"lower": np.array([-np.inf])}, "within"),
    ({"upper": np.array([np.nan])}, "lower must be below upper"),
    ({"velocity": np.array([0.0])}, "velocity is 0.0"),
    ({"acceleration": np.array([np.nan])}, "acceleration is nan"),
    ({"velocity": np.array([1.0, 1.0])}, r"shape \(2,\)"),
])
def test_limits_that_make_no_sense_are_refused(change, said):
    """A wrong limit must be found when the player is made, not when the arm moves."""
    good = dict(lower=np.array([-1.0]), upper=np.array([1.0]), velocity=np.array([1.0]), acceleration=np.array([5.0]))
    with pytest.raises(LimitsError, match=said):
        Limits(("wrist",), **{**good, **change})
