"""The blend: starts as the present difference, ends as none, and its rate is the derivative of its offset."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from player_scenes import LIMITS

from flashrt_ros.chunk.blend import FADING_SHARE, Blend

gap = st.tuples(*[st.floats(-3, 3)] * 3).map(np.array)


@given(gap, gap)
def test_it_begins_at_the_present_motion_and_ends_at_the_chunks(position, velocity):
    """Either end wrong is a step in position or velocity that the limiter would then have to swallow."""
    blend = Blend.within(LIMITS, position, velocity, 0.15)
    offset, rate = blend.at(np.array([0.0, blend.duration_s, blend.duration_s + 1]))
    np.testing.assert_allclose(offset, [position, 0 * position, 0 * position], atol=1e-9)
    np.testing.assert_allclose(rate, [velocity, 0 * velocity, 0 * velocity], atol=1e-9)


@given(gap, gap)
def test_its_rate_is_its_derivative_and_each_part_keeps_to_its_share(position, velocity):
    """A wrong rate passes unnoticed behind the tracker, as a ripple; the share keeps the tracker from lagging far."""
    blend = Blend.within(LIMITS, position, velocity, 0.15)
    at = np.linspace(0, blend.duration_s, 401)
    offset, rate = blend.at(at)
    dt = at[1]
    np.testing.assert_allclose(np.diff(offset, axis=0) / dt, (rate[1:] + rate[:-1]) / 2, atol=1e-3)
    _, fading = Blend(position, 0 * velocity, blend.duration_s).at(at)
    _, turning = Blend(0 * position, velocity, blend.duration_s).at(at)
    assert (np.abs(fading) <= FADING_SHARE * LIMITS.velocity + 1e-9).all()
    for part, share in ((fading, FADING_SHARE), (turning, 1.0)):
        assert (np.abs(np.diff(part, axis=0)) / dt <= share * LIMITS.acceleration + 1e-6).all()


def test_a_small_difference_takes_the_time_asked_for():
    """The stretch is for far chunks only; a longer fade than asked is a lag behind the policy."""
    assert Blend.within(LIMITS, np.full(3, 1e-4), np.zeros(3), 0.15).duration_s == 0.15
