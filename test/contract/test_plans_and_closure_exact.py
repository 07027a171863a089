"""The plans are warmed up before anything runs, and the closure is what a capsule holds: one too few breaks a promise
on the robot, one too many costs memory. So both are held against an exhaustive search over the refresh rules."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract_specs import SERVO, Rule, joined, pipelines, servo_contract
from contract_walk import Walk, reachable
from flashrt_ros.contract.closure import Run, closure, plans, steady_plans
from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.contract.refresh import own_state
from flashrt_ros.contract.spec import StageSpec
from flashrt_ros.contract.verify import verify


def assert_exact(pipeline: Pipeline) -> None:
    """Every set of stages that due() can return is a plan, and nothing else is; a buffer is in the closure if and only
    if some reachable boundary reads it as the last one left it (state always)."""
    found, live = reachable(pipeline)
    first = frozenset(Run(s.name) for s in pipeline.stages)
    assert plans(pipeline)[0] == first and len(set(plans(pipeline))) == len(plans(pipeline))
    assert set(plans(pipeline)) == found | {first}
    assert set(closure(pipeline).buffers) == live | {b for s in pipeline.stages for b in own_state(s)}
    assert pipeline.spec.chunk not in closure(pipeline).buffers


@settings(max_examples=50)
@given(pipelines(most_stages=2, most_every=3))
def test_plans_and_closure_of_two_stages_are_exact(pipeline):
    """Many small pipelines, for every combination of two rules."""
    assert_exact(pipeline)


@settings(max_examples=10)
@given(pipelines(most_stages=3, most_every=3))
def test_plans_and_closure_of_three_stages_are_exact(pipeline):
    """A few larger ones, for what needs a stage in between; the search grows fast."""
    assert_exact(pipeline)


@given(pipelines(), st.randoms(use_true_random=False))
def test_what_lies_outside_the_closure_never_reaches_a_chunk(pipeline, random):
    """A capsule leaves everything else out, so losing it at any boundary must change no later chunk."""
    whole, restored = Walk(pipeline), Walk(pipeline)
    kept = {*closure(pipeline).buffers, *closure(pipeline).inputs}
    lost_at = random.randrange(1, 12)
    for decision in range(24):
        now = decision * pipeline.period_ns
        if decision == lost_at:
            restored.values.update({b: "lost" for b in pipeline.buffers if b not in kept})
        new = {b.name: (decision, None if b.timeless else now) for b in pipeline.spec.buffers
               if b.kind == "input" and b.name not in dict(pipeline.spec.ages)
               and (b.name == pipeline.spec.noise or decision == 0 or random.random() < 0.4)}
        whole.step(decision, now, new)
        restored.step(decision, now, new)
        assert restored.values[pipeline.spec.chunk] == whole.values[pipeline.spec.chunk]


def test_plans_and_closure_of_the_demo():
    """The demo's own numbers, spelt out, so that a change of meaning is seen."""
    pipeline = verify(servo_contract(), SERVO)
    vision, fuse, action, beside = Run("vision"), Run("fuse"), Run("action"), Run("vision", True)
    assert set(plans(pipeline)) == {
        frozenset({vision, fuse, action}),  # the first decision, or vision over age
        frozenset({beside, action}), frozenset({fuse, action}), frozenset({beside, fuse, action}), frozenset({action})}
    assert closure(pipeline).buffers == ("vision_tokens", "belief")
    assert closure(pipeline).inputs == ("scene", "wrist", "joints", "task")
    assert closure(pipeline).stages == ("vision", "fuse", "action")


def test_plans_without_expiry_leave_overlapped_stages_in_the_background():
    """The deadline is held against these only: an over-age run in the foreground is judged at run time."""
    pipeline = verify(servo_contract(), SERVO)
    assert all(Run("vision") not in plan for plan in steady_plans(pipeline, ()))


A, B = StageSpec("a", ("camera0",), ("a_out",)), StageSpec("b", ("camera0",), ("b_out",))
READER, WRITER = StageSpec("reader", ("text",), ("a_out",)), StageSpec("writer", ("text",), ("b_out",))
C = StageSpec("c", ("a_out",), ("c_out",))


@pytest.mark.parametrize("stages", [
    {A: Rule(every=2, commit_after=2), C: Rule()},  # lands as it is due: no boundary takes up a result without a launch
    {A: Rule(every=3, commit_after=2), C: Rule()},
    {A: Rule(commit_after=1), B: Rule()},  # a deferred over-age run starts though no image is new
    {READER: Rule(commit_after=1), WRITER: Rule(), C: Rule()},  # new text during a flight: launched again as it lands
    {A: Rule(every=2), B: Rule(every=2)},
    {WRITER: Rule(every=2), READER: Rule(every=2)},  # of one rate, without an age: always together
    {WRITER: Rule(every=2), READER: Rule(every=3)},  # of two rates: a skipped decision parts them
    {WRITER: Rule(every=2, on_change=("text",)), READER: Rule(every=2)},  # new text parts them
    {READER: Rule(every=2, commit_after=1), WRITER: Rule(every=2), C: Rule()},  # a late commit parts them
], ids=lambda stages: ", ".join(s.name for s in stages))
def test_plans_and_closure_of_telling_pipelines_are_exact(stages):
    """One pipeline for each way in which two stages can be tied to each other, or come apart."""
    assert_exact(joined(stages))
