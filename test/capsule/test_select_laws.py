"""Which of several candidates is taken: by what they say, not by where they stand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flashrt_ros import policies
from flashrt_ros.capsule.select import Select, closest_to_previous, medoid
from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.contract.load import load
from flashrt_ros.contract.verify import verify
from flashrt_ros.engine.last_chunk import LastChunk
from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.resources import DEFAULT_CONTRACT, find

values = arrays(np.float64, (4, 5, 2), elements=st.floats(-10, 10))
MS = 1_000_000


@given(values, st.permutations(range(4)))
def test_order_makes_no_difference(candidates, order):
    """Up to candidates that are equally good: the chosen one costs the same."""
    shuffled = candidates[list(order)]
    planned = candidates.mean(axis=0)
    for choose, cost in ((medoid, _spread), (lambda c: closest_to_previous(c, planned), lambda c, i: ((c[i] - planned) ** 2).mean())):
        assert cost(candidates, choose(candidates)) == pytest.approx(cost(shuffled, choose(shuffled)), abs=1e-9)


@given(values, st.integers(0, 3))
def test_what_was_planned_is_taken_where_a_candidate_says_it(candidates, i):
    chosen = closest_to_previous(candidates, candidates[i])
    np.testing.assert_array_equal(candidates[chosen], candidates[i])


@given(arrays(np.float64, (5, 2), elements=st.floats(-1, 1)), st.integers(0, 3), st.floats(50, 1e6))
def test_one_outlier_is_never_the_most_ordinary(common, i, far):
    """A single wild sample must not reach the arm because it came first."""
    candidates = np.stack([common + 0.01 * k for k in range(4)])
    candidates[i] += far
    assert medoid(candidates) != i


@given(values, st.integers(0, 3), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_what_is_not_finite_is_taken_only_if_all_are_so(candidates, i, bad):
    planned = candidates[(i + 1) % 4].copy()
    candidates[i, 2, 1] = bad
    others = np.delete(np.arange(4), i)  # among which it makes no difference
    assert medoid(candidates) == others[medoid(candidates[others])]
    assert closest_to_previous(candidates, planned) == others[closest_to_previous(candidates[others], planned)]
    assert closest_to_previous(candidates, np.full((5, 2), np.nan)) == (1 if i == 0 else 0)
    ended = np.where(np.arange(5)[:, None] < 2, candidates[i], np.nan)  # the plan, which i repeats, ends before the bad row
    assert closest_to_previous(candidates, ended) != i
    assert medoid(np.full((4, 5, 2), bad)) == closest_to_previous(np.full((4, 5, 2), bad), planned) == 0


@given(values, st.integers(1, 3))
def test_of_equals_the_first_is_taken(candidates, i):
    """The first has the decision's own noise: where choosing changes nothing, the record should say that nothing was chosen."""
    candidates[i] = candidates[0]
    assert medoid(candidates) != i and closest_to_previous(candidates, candidates[0]) == 0
    assert medoid(candidates[[0] * 4]) == 0


def selecting(offset_ms: int = 0) -> tuple[Select, np.ndarray]:
    """By closeness to a last chunk of epoch 1 whose 32 rows rise by 0.01 a step, which are returned."""
    offsets = {f"outputs[{i}].offset_ms": str(offset_ms) for i in range(2)}
    contract = load(find(DEFAULT_CONTRACT), {"decision.fork.candidates": "2", "decision.fork.select": "closest_to_previous", **offsets})
    pipeline = verify(contract, policies.spec(contract.policy))
    last, rows = LastChunk(pipeline, 0), np.arange(32.0)[:, None] * np.full(7, 0.01)
    last.chunk = Chunk(JOINTS, rows, 0, 20 * MS, session=7, epoch=1, seq=1)
    return Select(pipeline, last), rows


def at(step: float) -> Cursor:
    return Cursor(1, 5, 7, 1, 1, step)


@pytest.mark.parametrize(("offset_ms", "chosen"), [(0, 1), (40, 2)])
def test_rows_are_compared_with_what_was_planned_for_the_same_moment(offset_ms, chosen):
    """Two decisions lie 100 ms apart, five steps of the chunk: row 0 of the new one belongs to row 5 of the old, and to a later one if it
    is meant for some time after the decision. In another epoch nothing is planned: the decision's own is taken."""
    select, rows = selecting(offset_ms)
    candidates = np.stack([rows, rows + 0.05, rows + 0.07])
    assert select.of(candidates, at(5.0), 100 * MS, 1) == chosen
    assert select.of(candidates, at(5.0), 100 * MS, 2) == 0


def test_a_gripper_in_metres_counts_as_an_arms_joint_does():
    """By what its speed allows: though the gripper is off by fewer metres than the joint by radians, it is the farther one."""
    select, rows = selecting()
    arm, gripper = rows + 0.05, rows + 0.05
    arm[:, 0] += 0.02  # a hundredth of what it may move in a second
    gripper[:, 6] += 0.004  # a fiftieth
    assert select.of(np.stack([gripper, arm]), at(5.0), 100 * MS, 1) == 1


def test_beyond_the_end_of_what_was_planned_nothing_is_compared():
    """There the last chunk says nothing; taken for a wish to stand still, it would favour candidates that stop."""
    select, rows = selecting()
    goes_on = rows + 0.27
    stops = np.minimum(goes_on, rows[-1]) + 0.001
    assert select.of(np.stack([stops, goes_on]), at(27.0), 540 * MS, 1) == 1
    assert select.of(np.stack([goes_on, np.broadcast_to(rows[-1], rows.shape)]), at(40.0), 800 * MS, 1) == 0  # all of it is past


def _spread(candidates: np.ndarray, i: int) -> float:
    return float((((candidates - candidates[i]) ** 2).mean(axis=(1, 2)) ** 0.5).sum())
