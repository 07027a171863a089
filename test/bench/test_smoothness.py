"""The measure of smoothness: exact where it can be checked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.bench.smoothness import mean_jump, rms_jerk

DT = 0.02
numbers = st.floats(-2, 2)


@given(st.lists(numbers, min_size=4, max_size=4), st.integers(4, 40))
def test_a_cubic_has_the_jerk_of_its_third_derivative(coefficients, steps):
    """Six times the leading coefficient, whatever pose, speed and acceleration come on top."""
    t = np.arange(steps) * DT
    one = np.polyval(coefficients, t)
    assert rms_jerk(one[:, None], DT) == pytest.approx(abs(6 * coefficients[0]), abs=1e-7)


def test_all_joints_count_alike():
    """Root mean square over ticks and joints: one joint of two that jerks gives 1 / sqrt(2) of its jerk."""
    t = np.arange(10) * DT
    assert rms_jerk([np.array([x, 0.0]) for x in t**3], DT) == pytest.approx(6 / np.sqrt(2))


def test_too_few_commands_have_no_jerk_and_no_chunks_no_jump():
    """An episode in which nothing was decided still has its row."""
    assert rms_jerk([], DT) == rms_jerk(np.ones((3, 7)), DT) == mean_jump([]) == 0.0


def test_the_mean_jump_is_over_chunks_each_by_its_farthest_joint():
    """A joint that moves little must not hide one that jumps; one bad boundary must not hide many good ones."""
    assert mean_jump([np.array([0.1, -0.3]), np.array([0.2, 0.0]), np.zeros(2)]) == pytest.approx(0.5 / 3)
