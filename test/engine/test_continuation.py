"""What the player is about to do, as a policy that continues it is told: the basis of real-time chunking."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros import policies
from flashrt_ros.chunk.blend import Blend
from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.contract.load import load
from flashrt_ros.contract.verify import verify
from flashrt_ros.engine.continuation import Commanded, Continuation
from flashrt_ros.engine.last_chunk import LastChunk
from flashrt_ros.engine.observation import Observation
from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.resources import find
from flashrt_ros.sim.robot import ARM_LIMITS as LIMITS

MS = 1_000_000
STEP_NS, HORIZON = 20 * MS, 32
SURE_NS = 130 * MS  # 7 steps
NOW_NS = 5_000 * MS


def pipeline_within(limits):
    """limits: joint -> its position limits in place of the contract's, as YAML."""
    positions = {f"limits.position.{joint}": text for joint, text in limits.items()}
    contract = load(find("config/tabletop_vla.contract.yaml"), overrides={"policy.continues": "future_state", **positions})
    return verify(contract, policies.spec(contract.policy))


@pytest.fixture(scope="module")
def pipeline():
    return pipeline_within({joint: "[-20, 20]" for joint in JOINTS})


def ramp(start_ns, seq=1, epoch=1):
    """Joint j moves at (j + 1) / 10 rad/s."""
    t = np.arange(HORIZON)[:, None] * STEP_NS * 1e-9
    return Chunk(JOINTS, t * (np.arange(len(JOINTS)) + 1) / 10, start_ns, STEP_NS, session=7, epoch=epoch, seq=seq)


def observation(decision=3):
    return Observation(decision, NOW_NS, {})


def continuation_of(pipeline, chunk=None):
    """After this chunk was handed out."""
    last = LastChunk(pipeline, SURE_NS)
    last.chunk = chunk
    return Continuation(pipeline, last, LIMITS)


def plan(pipeline, last, cursor, epoch=1, commanded=None):
    inputs = continuation_of(pipeline, last).add(observation(), cursor, commanded, 7, epoch).inputs
    return inputs["planned"].value, inputs["firmness"].value


def at(seconds):
    return seconds * (np.arange(len(JOINTS)) + 1) / 10


@given(st.floats(0, 20), st.integers(0, 19))
def test_the_plan_is_the_last_chunk_from_where_the_player_is_in_it(pipeline, step, lag_ms):
    """Row i of the plan is what the last chunk says i steps from now, counted from where the player is in it, not from its
    stamp: the player may have paused."""
    played_s = step * 0.02 + lag_ms * 1e-3
    rows, firmness = plan(pipeline, ramp(NOW_NS - 900 * MS), Cursor(1, 1, 7, 1, 1, step, lag_ms * MS))
    known = firmness > 0
    expected = np.stack([at(played_s + i * 0.02) for i in range(HORIZON)])
    np.testing.assert_allclose(rows[known], expected[known], atol=1e-5)


def test_what_is_sure_is_firm_and_what_no_chunk_says_is_free(pipeline):
    """Firmness 1 until the next chunk can act, falling after it, 0 where the last chunk has ended: real-time chunking's mask."""
    _, firmness = plan(pipeline, ramp(NOW_NS - 100 * MS), Cursor(1, 1, 7, 1, 1, 5.0))
    assert (firmness[:7] == 1).all() and (np.diff(firmness) <= 0).all() and firmness[7] < 1
    assert (firmness[HORIZON - 5:] == 0).all()  # five steps of the last chunk are played


def test_a_chunk_that_the_player_has_not_entered_yet_counts_from_its_stamp(pipeline):
    """A decision may begin while the chunk of the last one is on its way."""
    rows, _ = plan(pipeline, ramp(NOW_NS - 100 * MS, seq=2), Cursor(1, 1, 7, 1, 1, 9.0))
    np.testing.assert_allclose(rows[3], at(0.16), atol=1e-5)


@given(st.lists(st.floats(-0.3, 0.3), min_size=7, max_size=7), st.lists(st.floats(-0.5, 0.5), min_size=7, max_size=7))
def test_while_the_player_fades_into_the_chunk_the_plan_does_too(pipeline, away, rate):
    """Then it does not command what the chunk says; a plan that ignored this would have the next chunk begin where the arm
    will not be. The fade is the player's own."""
    commanded = Commanded(at(0.1) + away, at(1) + rate)
    rows, _ = plan(pipeline, ramp(NOW_NS - 100 * MS), Cursor(1, 1, 7, 1, 1, 5.0), commanded=commanded)
    np.testing.assert_allclose(rows[0], at(0.1) + away, atol=1e-5)
    fade = Blend.within(LIMITS, np.array(away), np.array(rate))
    expected = [at(0.1 + i * 0.02) + fade.at(np.array([i * 0.02]))[0][0] for i in range(20)]
    np.testing.assert_allclose(rows[:20], expected, atol=1e-5)


@pytest.mark.parametrize("cursor", [
    Cursor(1, 9), Cursor(1, 1, 8, 1, 1, 2.0), Cursor(1, 1, 7, 2, 1, 2.0)], ids=["holds", "another session", "another epoch"])
def test_a_player_that_does_something_else_has_no_plan(pipeline, cursor):
    """After a stop, a reset or a new task the old chunk must not live on in the next one."""
    rows, firmness = plan(pipeline, ramp(NOW_NS - 200 * MS), cursor)
    assert not rows.any() and not firmness.any()


def test_a_chunk_of_an_earlier_epoch_is_no_plan(pipeline):
    """Though the player has not heard of the new epoch yet: it will refuse what it plays now."""
    rows, firmness = plan(pipeline, ramp(NOW_NS - 100 * MS), Cursor(1, 1, 7, 1, 1, 5.0), epoch=2)
    assert not rows.any() and not firmness.any()


def test_before_the_first_chunk_there_is_no_plan(pipeline):
    rows, firmness = plan(pipeline, None, Cursor(1, 1, 7, 1, 1, 2.0))
    assert not rows.any() and not firmness.any()


def test_the_plan_is_new_at_every_decision(pipeline):
    """The engine writes an input only when its ident changes."""
    continuation = continuation_of(pipeline)
    idents = [continuation.add(observation(k), Cursor(), None, 7, 1).inputs["planned"].ident for k in range(3)]
    assert len(set(idents)) == 3


def test_a_policy_that_does_not_continue_is_given_nothing():
    contract = load(find("config/tabletop_vla.contract.yaml"))
    same = observation()
    assert continuation_of(verify(contract, policies.spec(contract.policy))).add(same, Cursor(), None, 7, 1) is same


def test_the_frozen_prefix_is_what_was_firm(pipeline):
    """The chunk's message tells the player so many of its steps are the plan's; after a stop it is none."""
    continuation = continuation_of(pipeline, ramp(NOW_NS - 100 * MS))
    continuation.add(observation(), Cursor(1, 1, 7, 1, 1, 5.0), None, 7, 1)
    assert continuation.frozen_prefix == 7
    continuation.add(observation(4), Cursor(1, 1, 8, 1, 1, 5.0), None, 7, 1)
    assert continuation.frozen_prefix == 0


@given(st.lists(st.floats(-0.3, 0.3), min_size=7, max_size=7), st.lists(st.floats(-2, 2), min_size=7, max_size=7))
def test_the_plan_keeps_the_limits_that_the_player_keeps(away, rate):
    """A fade into a chunk may swing beyond a limit. The player does not, and a policy that copied such a plan would be stopped for it."""
    upper = at(0.4) + 0.05
    narrow = pipeline_within({joint: f"[-1, {limit}]" for joint, limit in zip(JOINTS, upper)})
    commanded = Commanded(np.minimum(at(0.1) + away, upper), at(1) + rate)
    rows, firmness = plan(narrow, ramp(NOW_NS - 100 * MS), Cursor(1, 1, 7, 1, 1, 5.0), commanded=commanded)
    assert (rows[firmness > 0] <= upper + 1e-6).all() and (rows >= -1 - 1e-6).all()
