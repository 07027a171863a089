"""What the player is about to do, as a policy that continues it is told: the basis of real-time chunking."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros import policies
from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.contract.load import load
from flashrt_ros.contract.verify import verify
from flashrt_ros.engine.continuation import FADE_S, Continuation
from flashrt_ros.engine.observation import InputValue, Observation
from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.resources import find

MS = 1_000_000
STEP_NS, HORIZON = 20 * MS, 32
SURE_NS = 130 * MS  # 7 steps
NOW_NS = 5_000 * MS


@pytest.fixture(scope="module")
def pipeline():
    contract = load(find("config/tabletop_vla.contract.yaml"), overrides={"policy.continues": "true"})
    return verify(contract, policies.spec(contract.policy))


def ramp(start_ns, seq=1, epoch=1):
    """Joint j moves at (j + 1) / 10 rad/s."""
    t = np.arange(HORIZON)[:, None] * STEP_NS * 1e-9
    return Chunk(JOINTS, t * (np.arange(len(JOINTS)) + 1) / 10, start_ns, STEP_NS, session=7, epoch=epoch, seq=seq)


def observation(joints, decision=3):
    return Observation(decision, NOW_NS, {"joints": InputValue(np.asarray(joints, np.float32), 1, NOW_NS)})


def plan(pipeline, last, cursor, joints):
    continuation = Continuation(pipeline, SURE_NS)
    if last is not None:
        continuation.handed_out(last)
    inputs = continuation.add(observation(joints), cursor).inputs
    return inputs["planned"].value, inputs["firmness"].value


def at(seconds):
    return seconds * (np.arange(len(JOINTS)) + 1) / 10


@given(st.floats(0, 20), st.integers(0, 19))
def test_an_arm_that_is_where_the_chunk_says_goes_on_with_it(pipeline, step, lag_ms):
    """Row i of the plan is what the last chunk says i steps from now, counted from where the player is in it, not from its
    stamp: the player may have paused."""
    played_s = step * 0.02 + lag_ms * 1e-3
    rows, firmness = plan(pipeline, ramp(NOW_NS - 900 * MS), Cursor(1, 1, 7, 1, 1, step, lag_ms * MS), at(played_s))
    known = firmness > 0
    expected = np.stack([at(played_s + i * 0.02) for i in range(HORIZON)])
    np.testing.assert_allclose(rows[known], expected[known], atol=1e-5)


def test_what_is_sure_is_firm_and_what_no_chunk_says_is_free(pipeline):
    """Firmness 1 until the next chunk can act, falling after it, 0 where the last chunk has ended: real-time chunking's mask."""
    _, firmness = plan(pipeline, ramp(NOW_NS - 100 * MS), Cursor(1, 1, 7, 1, 1, 5.0), at(0.1))
    assert (firmness[:7] == 1).all() and (np.diff(firmness) <= 0).all() and firmness[7] < 1
    assert (firmness[HORIZON - 5:] == 0).all()  # five steps of the last chunk are played


def test_a_chunk_that_the_player_has_not_entered_yet_counts_from_its_stamp(pipeline):
    """A decision may begin while the chunk of the last one is on its way."""
    rows, _ = plan(pipeline, ramp(NOW_NS - 100 * MS, seq=2), Cursor(1, 1, 7, 1, 1, 9.0), at(0.1))
    np.testing.assert_allclose(rows[3], at(0.16), atol=1e-5)


@given(st.floats(-0.3, 0.3))
def test_the_plan_begins_where_the_arm_is_and_joins_the_chunk(pipeline, away):
    """A limited arm is seldom where a chunk says. A plan that ignored it would run away from the arm, decision by decision:
    each chunk would continue the last one's words instead of the arm's motion."""
    rows, _ = plan(pipeline, ramp(NOW_NS - 100 * MS), Cursor(1, 1, 7, 1, 1, 5.0), at(0.1) + away)
    np.testing.assert_allclose(rows[0], at(0.1) + away, atol=1e-5)
    joined = round(FADE_S / 0.02)
    np.testing.assert_allclose(rows[joined:20], [at(0.1 + i * 0.02) for i in range(joined, 20)], atol=1e-5)


@pytest.mark.parametrize("cursor", [
    Cursor(), Cursor(1, 1, 8, 1, 1, 2.0), Cursor(1, 1, 7, 2, 1, 2.0)], ids=["holds", "another session", "another epoch"])
def test_a_player_that_does_something_else_has_no_plan(pipeline, cursor):
    """After a stop, a reset or a new task the old chunk must not live on in the next one."""
    rows, firmness = plan(pipeline, ramp(NOW_NS - 100 * MS), cursor, at(0.1))
    assert not rows.any() and not firmness.any()


def test_before_the_first_chunk_there_is_no_plan(pipeline):
    rows, firmness = plan(pipeline, None, Cursor(1, 1, 7, 1, 1, 2.0), at(0.0))
    assert not rows.any() and not firmness.any()


def test_the_plan_is_new_at_every_decision(pipeline):
    """The engine writes an input only when its ident changes."""
    continuation = Continuation(pipeline, SURE_NS)
    idents = [continuation.add(observation(at(0), k), Cursor()).inputs["planned"].ident for k in range(3)]
    assert len(set(idents)) == 3


def test_a_policy_that_does_not_continue_is_given_nothing():
    contract = load(find("config/tabletop_vla.contract.yaml"))
    same = observation(at(0))
    assert Continuation(verify(contract, policies.spec(contract.policy)), SURE_NS).add(same, Cursor()) is same


def test_the_frozen_prefix_is_what_was_firm(pipeline):
    """The chunk's message tells the player so many of its steps are the plan's; after a stop it is none."""
    continuation = Continuation(pipeline, SURE_NS)
    continuation.handed_out(ramp(NOW_NS - 100 * MS))
    continuation.add(observation(at(0.1)), Cursor(1, 1, 7, 1, 1, 5.0))
    assert continuation.frozen_prefix == 7
    continuation.add(observation(at(0.1), 4), Cursor())
    assert continuation.frozen_prefix == 0
