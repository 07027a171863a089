"""From a policy's numbers to joint targets, and a gripper that makes up its mind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.chunk.chunk import ChunkError
from flashrt_ros.chunk.representation import hysteresis, joint_delta

values = st.floats(-3, 3)
rows = st.lists(st.tuples(values, values), min_size=1, max_size=8).map(np.array)


@given(rows, st.tuples(values, values).map(np.array))
def test_deltas_are_from_the_observed_state_each_by_itself(deltas, observed):
    """Not from the step before: summed up, a chunk of 50 steps would go fifty times too far."""
    got = joint_delta(deltas, observed)
    assert np.array_equal(got, [observed + delta for delta in deltas])


@given(rows, st.tuples(values, values).map(np.array), st.tuples(values, values).map(np.array))
def test_a_later_state_would_shift_the_whole_motion(deltas, observed, moved):
    """Why the observation's state must be given: whatever the arm moved since is in the deltas already."""
    np.testing.assert_allclose(joint_delta(deltas, observed + moved) - joint_delta(deltas, observed),
                               np.tile(moved, (len(deltas), 1)), atol=1e-12)


@pytest.mark.parametrize("deltas, observed", [(np.zeros((3, 2)), np.zeros(3)), (np.zeros(2), np.zeros(2)), (np.zeros((2, 1)), np.zeros(2))])
def test_deltas_for_other_joints_are_refused(deltas, observed):
    """numpy would spread one column over all joints."""
    with pytest.raises(ChunkError, match="the observed joints"):
        joint_delta(deltas, observed)


@given(st.lists(st.floats(0, 1) | st.just(np.nan), max_size=20), st.booleans())
def test_a_command_changes_only_at_the_far_threshold(track, previous):
    """A gripper that follows a hesitating policy opens over the floor."""
    low, high = 0.3, 0.7
    got = hysteresis(np.array(track), previous, low, high)
    for value, before, now in zip(track, [previous, *got], got):
        assert now == (True if value >= high else False if value <= low else before)


def test_chunk_by_chunk_is_the_same_as_at_once():
    """The last command of a chunk is the next one's previous."""
    track = np.array([0.5, 0.8, 0.5, 0.4, 0.2, 0.5, 0.69, 0.7])
    whole = hysteresis(track, False, 0.3, 0.7)
    first = hysteresis(track[:3], False, 0.3, 0.7)
    assert whole.tolist() == [False, True, True, True, False, False, False, True]
    assert [*first, *hysteresis(track[3:], first[-1], 0.3, 0.7)] == whole.tolist()


@given(st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=40),
       st.lists(st.floats(-0.19, 0.19), min_size=40, max_size=40), st.booleans())
def test_it_switches_at_most_once_each_time_the_value_crosses_the_band(track, noise, previous):
    """Under noise less than the band, whatever the value does: a gripper that chatters lets go. Every switch has the true value
    on its own side of the middle, so between two of them the value has crossed it."""
    got = hysteresis(np.array(track) + noise[: len(track)], previous, 0.3, 0.7)
    sides = [previous, *(value > 0.5 for value in track)]
    assert np.count_nonzero(np.diff([previous, *got])) <= np.count_nonzero(np.diff(sides))


@pytest.mark.parametrize("low, high", [(0.5, 0.5), (0.7, 0.3), (np.nan, 0.5)])
def test_thresholds_that_do_not_leave_a_gap_are_refused(low, high):
    with pytest.raises(ChunkError, match="low must be below high"):
        hysteresis(np.zeros(3), False, low, high)
