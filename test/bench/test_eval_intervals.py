"""The interval behind every "this setting is better by so many points"."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_ros.bench.intervals import paired_bootstrap, unpaired_bootstrap

pairs = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)
results = st.lists(st.booleans(), min_size=1, max_size=60)


@given(pairs)
def test_who_is_compared_with_whom_turns_the_interval_round(drawn):
    """A report must not depend on which row is called the baseline."""
    ours, theirs = zip(*drawn)
    low, high = paired_bootstrap(ours, theirs, 500)
    assert paired_bootstrap(theirs, ours, 500) == pytest.approx((-high, -low), abs=1e-12)


@given(pairs)
def test_equal_rates_are_never_called_different(drawn):
    """Each pair and its mirror image: whatever the scenes, the rates are the same."""
    ours, theirs = zip(*drawn, *(pair[::-1] for pair in drawn))
    low, high = paired_bootstrap(ours, theirs)
    assert low <= 0 <= high


@given(pairs)
def test_the_interval_lies_around_the_difference(drawn):
    ours, theirs = zip(*drawn)
    low, high = paired_bootstrap(ours, theirs, 500)
    assert -1 <= low <= np.mean(ours) - np.mean(theirs) <= high <= 1


def test_the_same_results_differ_by_nothing():
    assert paired_bootstrap([True, False, True], [True, False, True]) == (0.0, 0.0)


def test_the_draws_are_fixed():
    """A table made twice from the same episodes is the same table."""
    ours, theirs = [True] * 30 + [False] * 10, [True] * 20 + [False] * 20
    assert paired_bootstrap(ours, theirs) == paired_bootstrap(ours, theirs)
    assert unpaired_bootstrap(ours, theirs) == unpaired_bootstrap(ours, theirs)


@pytest.mark.parametrize(("rate", "gain"), [(0.5, 0.0), (0.6, 0.15), (0.75, -0.2)])
def test_it_holds_the_truth_about_as_often_as_it_says(rate, gain):
    """Simulated scenes of different difficulty, the same for both; 95 % intervals over 400 evaluations of 100 scenes.

    The bounds are four standard errors wide for 400 draws at 95 %, and a little more for a percentile interval's own bias.
    """
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        difficulty, luck = rng.random(100), rng.random((2, 100))
        ours = 0.7 * difficulty + 0.3 * luck[0] < _threshold(rate + gain)
        theirs = 0.7 * difficulty + 0.3 * luck[1] < _threshold(rate)
        low, high = paired_bootstrap(ours, theirs, 400)
        held += low <= gain <= high
    assert 0.89 <= held / 400 <= 0.99


def _threshold(rate: float) -> float:
    """The quantile of 0.7 U + 0.3 V, U and V uniform, at `rate`; right in its linear middle, 0.22 to 0.78."""
    return 0.15 + 0.7 * rate


def test_pairing_narrows_what_is_known():
    """Where scenes decide more than the setting, as they do here, pairing is what makes 100 episodes enough."""
    rng = np.random.default_rng(3)
    hard = rng.random(100) < 0.5
    ours, theirs = ~hard, ~hard & (rng.random(100) < 0.9)
    paired, unpaired = paired_bootstrap(ours, theirs), unpaired_bootstrap(ours, theirs)
    assert paired[1] - paired[0] < 0.6 * (unpaired[1] - unpaired[0])


@settings(max_examples=20)
@given(results, results)
def test_unpaired_lies_around_the_difference(ours, theirs):
    low, high = unpaired_bootstrap(ours, theirs, 500)
    assert -1 <= low <= np.mean(ours) - np.mean(theirs) + 1e-12 and np.mean(ours) - np.mean(theirs) - 1e-12 <= high <= 1


@pytest.mark.parametrize(("ours", "theirs"), [([], []), ([True], []), ([True, False], [True])])
def test_results_that_are_no_pairs_are_refused(ours, theirs):
    with pytest.raises(ValueError):
        paired_bootstrap(ours, theirs)
