"""A decision that was recorded beside running background work is made again from its evidence, and what differs is found where
it began."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from capsule_cases import HERE, decided, evidence_of, sealed
from dag_policy import DagPolicy, FailingPolicy, GatedPolicy, make_pipeline, observation, pipelines, vla
from hypothesis import given, settings
from hypothesis import strategies as st
from test_boundary_laws import scheduled

from flashrt_ros.capsule.checks import CapsuleRefused
from flashrt_ros.capsule.evidence import Evidence
from flashrt_ros.capsule.stored import Stored
from flashrt_ros.contract.pipeline import Pipeline, Stage
from flashrt_ros.engine.buffers import InputError
from flashrt_ros.engine.decision import EngineError
from flashrt_ros.engine.engine import Engine
from flashrt_ros.replay.decision import BROKEN, OTHER, SAME, Verdict, repeat

ELSEWHERE = replace(HERE, engine="f" * 64)


class OffPolicy(DagPolicy):
    """One stage gives something else than it did."""

    def __init__(self, spec, off: str) -> None:
        super().__init__(spec)
        self.off = off

    def run(self, stage, reads, writes):
        super().run(stage, reads, writes)
        if stage == self.off:
            for out in writes.values():
                out.add_(0.25)


def recorded(data, pipeline: Pipeline, ages: bool, takes_ms: float, fresh: bool) -> tuple[Stored, Evidence]:
    """Some decision of a random schedule, made while background runs finish or miss their commits."""
    steps = scheduled(data, pipeline)
    last = data.draw(st.integers(0, len(steps) - 1))
    engine = Engine(pipeline, GatedPolicy(pipeline.spec), background="thread", stage_ms=dict.fromkeys(pipeline.stage, takes_ms))
    try:
        for i, (step, seen) in enumerate(steps[: last + 1]):
            if ages or not step.hold or (fresh and i == last):  # a superseded run that still holds its shadow is waited for
                engine.policy.gate.set()
                engine.drain()
            engine.policy.gate.clear()
            if i == last:
                stored = sealed(engine)
                stored = replace(stored, record=replace(stored.record, stage_ms=engine.stage_ms))
                evidence = replace(evidence_of(engine, seen, engine.decide(seen, fresh=fresh)), fresh=fresh)
                return stored, evidence
            engine.decide(seen)
    finally:
        engine.policy.gate.set()
        engine.drain()
        engine.close()
    raise AssertionError("the schedule had no last decision")


def again(stored: Stored, evidence: Evidence, pipeline: Pipeline, policy: DagPolicy, here=HERE) -> Verdict:
    return repeat(stored, evidence, Engine(pipeline, policy, background="synchronous", stage_ms=stored.record.stage_ms), here)


@settings(max_examples=120)
@given(st.data())
def test_any_decision_is_reproduced_from_its_evidence(data):
    """Whatever the pipeline, what was in flight, what came late, and whether a chunk came of it. One input, version or launch
    that the evidence lacks shows here."""
    ages = data.draw(st.booleans())
    pipeline = data.draw(pipelines(ages=ages))
    stored, evidence = recorded(data, pipeline, ages, data.draw(st.sampled_from([1.0, 100.0])), data.draw(st.booleans()))
    for here in (HERE, ELSEWHERE):
        verdict = again(stored, evidence, pipeline, DagPolicy(pipeline.spec), here)
        assert verdict.code == SAME and "reproduced bit for bit" in verdict.text, verdict
    assert ("4 values" in verdict.text) == (evidence.candidates is not None)
    assert "another engine (ffffffffffff; recorded eeeeeeeeeeee)" in verdict.text


@settings(max_examples=120)
@given(st.data())
def test_the_stage_that_went_wrong_is_the_one_that_is_named(data):
    """Everything after it differs as well; whoever searches must be sent to where it began. Elsewhere that is a fact, here a
    fault."""
    pipeline = data.draw(pipelines(ages=False))
    off = data.draw(st.sampled_from(sorted(pipeline.stage)))
    stored, evidence = recorded(data, pipeline, False, 1.0, fresh=True)
    for here, code, whose in ((HERE, BROKEN, "the same engine"), (ELSEWHERE, OTHER, "another engine")):
        verdict = again(stored, evidence, pipeline, OffPolicy(pipeline.spec, off), here)
        assert verdict.code == code and f"differs on {whose}" in verdict.text
        assert f"stage '{off}' is the first: its output '{pipeline.stage[off].writes[0]}' by up to 0.25" in verdict.text, verdict


def test_a_stage_that_fails_again_in_the_same_words_is_reproduced():
    """The evidence of a stage error is that it comes again."""
    pipeline = vla(every=1, commit_after=None)
    engine = decided(pipeline)
    stored, seen = sealed(engine), observation(pipeline, 4)
    engine.policy.__class__, engine.policy.broken = FailingPolicy, "prefix"
    with pytest.raises(EngineError) as error:
        engine.decide(seen)
    evidence = evidence_of(engine, seen, None, str(error.value), guard="stage_error")
    broken = FailingPolicy(pipeline.spec)
    broken.broken = "prefix"
    verdict = again(stored, evidence, pipeline, broken)
    assert verdict.code == SAME and "a kernel of the test failed" in verdict.text
    for broken.broken in (None, "action"):
        verdict = again(stored, evidence, pipeline, broken)
        assert verdict.code == BROKEN and "recorded was \"stage 'prefix' failed at decision 4" in verdict.text


@pytest.mark.parametrize(("theirs", "apart"), [(np.nan, "inf"), (-np.inf, "inf"), (0.5, "0.5"), (-0.0, "0")])
def test_the_error_is_told_as_a_number(theirs, apart):
    """Where only one of two is finite there is no small difference; and two zeros of unlike sign are unlike bits all the same."""
    pipeline = make_pipeline({"scene": False}, [Stage("action", ("scene",), ("chunk",), every=1)])
    engine = decided(pipeline, 1)
    stored, seen = sealed(engine), observation(pipeline, 1)
    evidence = evidence_of(engine, seen, engine.decide(seen))
    chunk = evidence.outputs["chunk"].clone()
    chunk[0, 0] = 0.0
    expected = chunk.clone()
    expected[0, 0] = theirs

    class Fixed(DagPolicy):
        def run(self, stage, reads, writes):
            writes["chunk"].copy_(chunk)

    evidence = replace(evidence, outputs={"chunk": expected}, candidates=expected.numpy()[None])
    verdict = again(stored, evidence, pipeline, Fixed(pipeline.spec))
    assert verdict.code == BROKEN
    assert verdict.text.endswith(f"its output 'chunk' by up to {apart}; the chunk by up to {apart}"), verdict


def test_numbers_that_are_none_are_compared_too():
    """The chunk of a non-finite trip is full of NaN: it is reproduced if it is NaN again, bit for bit, and only then."""
    pipeline = make_pipeline({"scene": False}, [Stage("action", ("scene",), ("chunk",), every=1)])
    engine = decided(pipeline, 1)
    stored, seen = sealed(engine), observation(pipeline, 1)
    poisoned = replace(seen, inputs={"scene": replace(seen.inputs["scene"], value=np.full(4, np.nan, np.float32))})
    evidence = evidence_of(engine, poisoned, engine.decide(poisoned))
    assert np.isnan(evidence.candidates).all()
    assert again(stored, evidence, pipeline, DagPolicy(pipeline.spec)).code == SAME
    verdict = again(stored, replace(evidence, observation=seen), pipeline, DagPolicy(pipeline.spec))
    assert verdict.code == BROKEN and "by up to inf; the chunk by up to inf" in verdict.text


def test_what_does_not_fit_is_an_error_and_no_difference():
    """Exit code 2 says that a decision was made elsewhere and differs; one that could not be made says nothing of the kind."""
    engine = decided()
    pipeline, stored, seen = engine.pipeline, sealed(engine), observation(engine.pipeline, 4)
    evidence = evidence_of(engine, seen, engine.decide(seen))
    policy = DagPolicy(pipeline.spec)
    with pytest.raises(CapsuleRefused, match="was made with the weights"):
        again(stored, evidence, pipeline, policy, replace(HERE, weights="0" * 64))
    inputs = {name: given for name, given in seen.inputs.items() if name != "scene"}
    with pytest.raises(InputError, match="'scene' is missing"):
        again(stored, replace(evidence, observation=replace(seen, inputs=inputs)), pipeline, policy)
