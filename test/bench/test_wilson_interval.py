"""The interval behind every success rate in the README."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.bench.intervals import wilson


@pytest.mark.parametrize(("successes", "trials", "low", "high"), [(8, 10, 0.4902, 0.9433), (0, 20, 0.0, 0.1611), (100, 100, 0.9630, 1.0)])
def test_known_values(successes, trials, low, high):
    """Computed by hand from Wilson's formula with z = 1.96."""
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-4)


@given(st.integers(1, 1000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_rate_lies_inside_and_more_trials_narrow_it(case):
    successes, trials = case
    low, high = wilson(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1
    wider = high - low
    low, high = wilson(4 * successes, 4 * trials)
    assert high - low < wider


def test_no_trials_say_nothing():
    assert wilson(0, 0) == (0.0, 1.0)
