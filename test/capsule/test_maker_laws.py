"""One decision, guarded: whatever goes wrong and when, every fault is one trip, order never goes back, and what follows a rollback is what
the last good belief and the newest observation alone decide."""

from __future__ import annotations

import numpy as np
import pytest
from dag_policy import PERIOD_NS
from dag_reference import same_bits
from hypothesis import given
from hypothesis import strategies as st
from maker_rig import DIGESTS, Rig, guarded

from flashrt_ros.capsule.checks import CONTRACT, GONE, TASK, WEIGHTS, CapsuleRefused
from flashrt_ros.capsule.maker import Made, NotMade
from flashrt_ros.capsule.record import Digests
from flashrt_ros.capsule.rollback import RollbackError, State
from flashrt_ros.engine.engine import Engine
from flashrt_ros.engine.noise import with_noise

CAUSE = {"nan": "nonfinite", "far": "position", "raise": "stage_error", "late": "deadline"}
faults = st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 2)), st.sampled_from(sorted(CAUSE)), max_size=12)


@given(faults, st.integers(1, 4))
def test_every_fault_is_one_trip_of_its_cause_and_order_never_goes_back(planted, max_consecutive):
    """The count of trips is what an operator judges the robot by; and a player refuses whatever does not come after what it has."""
    rig = Rig(guarded(max_consecutive=max_consecutive), planted)
    found, orders = [], []
    for decision in range(10):
        if rig.maker.rollback.state is State.FAULT:
            with pytest.raises(RollbackError):
                rig.make(decision)
            rig.maker.reset()
        outcome = rig.make(decision)
        found += [(decision, t.attempt, t.trip.guard) for t in outcome.trips]
        if isinstance(outcome, Made):
            orders.append(outcome.chunk.order)
            assert outcome.chunk.attempt == len(outcome.trips) and np.isfinite(outcome.chunk.positions).all()
        for tripped in outcome.trips[:-1] if isinstance(outcome, NotMade) else outcome.trips:
            assert tripped.trip.content, "a late decision was made again"
    assert found == [(decision, attempt, CAUSE[fault]) for decision, attempt, fault in rig.planted]
    counts = {cause: n for cause, n in rig.maker.rollback.trips.items() if n}
    assert counts == {cause: sum(c == cause for _, _, c in found) for cause in {c for _, _, c in found}}
    assert orders == sorted(set(orders))


@given(st.integers(1, 8), st.sampled_from(["nan", "far", "raise"]), st.booleans())
def test_a_retry_is_what_the_last_good_belief_and_the_newest_observation_decide(at, fault, overlap):
    """Nothing of the attempt that went wrong is left in it: not in a recurrent memory, not in keys and values."""
    pipeline = guarded(commit_after=1 if overlap else None)
    rig = Rig(pipeline, {(at, 0): fault})
    for decision in range(at):
        rig.make(decision)
    good = rig.maker.ring.capsules[-1]
    memory = rig.maker.ring.memory(good).clone()
    made = rig.make(at)
    assert made.chunk.attempt == 1 and made.chunk.epoch == 1
    clean = Engine(pipeline, rig.policy, stage_ms=rig.engine.stage_ms)
    clean.load(memory, good.record.boundary)
    seen = with_noise(rig.maker.intake.take(at, at * PERIOD_NS, None), pipeline, 7, 1, attempt=1)
    assert same_bits(made.decision.chunk, clean.decide(seen, fresh=True).chunk)
    assert not same_bits(seen.inputs["noise"].value, with_noise(seen, pipeline, 7, 1).inputs["noise"].value)


@given(faults, st.integers(0, 8))
def test_exact_restore_then_the_same_decisions_again(planted, at):
    """Faults, retries and dropped chunks in between change nothing: a good boundary is a good boundary."""
    rig = Rig(guarded(depth=64, max_consecutive=99), planted)
    outcomes = [rig.make(decision) for decision in range(10)]
    good = [i for i, outcome in enumerate(outcomes) if isinstance(outcome, Made)]
    cut = next((i for i in good if i >= at), None)
    # A dropped decision leaves a doubtful or a later belief behind: from there on only what followed it can be made again.
    if cut is None or any(i not in good for i in range(cut, 10)):
        return
    capsule = next(c for c in rig.maker.ring.capsules if c.record.id == outcomes[cut].record.id)
    rig.maker.load(capsule)
    rig.seq = outcomes[cut].chunk.seq
    for decision in range(cut + 1, 10):
        again, then = rig.make(decision), outcomes[decision]
        assert same_bits(again.chunk.positions, then.chunk.positions) and again.chunk.order == then.chunk.order
        assert again.record.id == then.record.id


def test_a_late_decision_leaves_its_belief_and_is_not_made_again():
    """Time guards never retry: trying again would only come later."""
    rig = Rig(faults={(3, 0): "late"})
    outcomes = [rig.make(decision) for decision in range(5)]
    assert [isinstance(outcome, Made) for outcome in outcomes] == [True, True, True, False, True]
    assert outcomes[3].trips[0].trip.guard == "deadline" and outcomes[4].chunk.attempt == 0
    assert not any(run.reason == "never" for run in outcomes[4].decision.runs)


def test_a_retry_that_would_be_late_is_not_begun():
    """A chunk after the deadline is worth nothing; the decision after it begins from the last good belief instead."""
    rig = Rig(faults={(3, 0): "nan"})
    rig.engine.stage_ms = dict.fromkeys(rig.pipeline.stage, 50.0)  # three stages: more than the deadline of 80 ms
    outcomes = [rig.make(decision) for decision in range(5)]
    assert isinstance(outcomes[3], NotMade) and len(outcomes[3].trips) == 1
    assert isinstance(outcomes[4], Made) and {run.reason for run in outcomes[4].decision.runs} == {"never"}


def test_capsules_name_their_parents():
    """From any chunk the way back is known, through retries too."""
    rig = Rig(faults={(2, 0): "nan"})
    made = [rig.make(decision) for decision in range(4)]
    assert [m.record.parent for m in made] == ["", *(m.record.id for m in made[:-1])]
    assert len({m.record.id for m in made}) == 4


def test_a_live_restore_takes_the_belief_and_refuses_what_is_not_its_own():
    """Each refusal names its reason, and changes nothing."""
    rig = Rig(guarded(depth=3))
    for decision in range(6):
        rig.make(decision)
    oldest = rig.maker.ring.capsules[0]
    before = (rig.engine.slab.memory.clone(), dict(rig.engine.buffers.versions), rig.engine.ledger.copy())

    def refused(reason, capsule, task="t"):
        with pytest.raises(CapsuleRefused) as error:
            rig.maker.restore(capsule, task)
        assert error.value.reason == reason
        assert same_bits(before[0], rig.engine.slab.memory) and before[1:] == (rig.engine.buffers.versions, rig.engine.ledger)

    refused(TASK, oldest, task="another")
    rig.maker.digests = Digests("x" * 64, DIGESTS.weights, DIGESTS.engine)
    refused(CONTRACT, oldest)
    rig.maker.digests = Digests(DIGESTS.contract, "x" * 64, DIGESTS.engine)
    refused(WEIGHTS, oldest)
    rig.maker.digests = DIGESTS
    rig.maker.restore(oldest, "t")
    memory = rig.engine.slab.regions["memory"].view(rig.maker.ring.memory(oldest))
    assert same_bits(memory, rig.engine.buffers.tensors["memory"])
    made = rig.make(6, epoch=2)
    assert made.record.parent == oldest.record.id and made.chunk.attempt == 0
    before = (rig.engine.slab.memory.clone(), dict(rig.engine.buffers.versions), rig.engine.ledger.copy())
    refused(GONE, oldest)
