"""The printed worst-case age is a promise about what the action acts on, so no schedule may break it."""

import random as stdlib_random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract_specs import SERVO, pipelines, servo_contract
from contract_walk import Walk
from flashrt_ros.contract.age import paths, worst_ages
from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.contract.schema import Refresh
from flashrt_ros.contract.verify import verify


def walk(pipeline: Pipeline, random: stdlib_random.Random, decisions: int, lazy: float) -> dict[str, int]:
    """Buffer -> the greatest age (ns) at which a stage read it. Inputs are as old as the contract lets them be, or
    younger; `lazy` is the chance that one brings nothing new while its last message is still young enough."""
    walked, greatest, stamps = Walk(pipeline), {}, {}
    for decision in range(decisions):
        now = 10**12 + decision * pipeline.period_ns
        new = {}
        for buffer in pipeline.spec.buffers:
            if buffer.kind != "input" or buffer.name in dict(pipeline.spec.ages):
                continue
            if buffer.timeless:
                if decision == 0 or buffer.name == pipeline.spec.noise or random.random() < 0.3:
                    new[buffer.name] = (decision, None)
                continue
            oldest = now - pipeline.input[buffer.name].max_age_ns
            last = stamps.get(buffer.name, oldest - 1)
            if last < oldest or random.random() >= lazy:
                stamps[buffer.name] = max(last, oldest if random.random() < 0.7 else random.randint(oldest, now))
                new[buffer.name] = (decision, stamps[buffer.name])
        for read in walked.step(decision, now, new):
            if read.age_ns is not None:
                greatest[read.buffer] = max(greatest.get(read.buffer, 0), read.age_ns)
    return greatest


@given(pipelines(), st.randoms(use_true_random=False), st.sampled_from([0.0, 0.3, 0.8]))
def test_no_stage_reads_a_buffer_older_than_its_worst_case(pipeline, random, lazy):
    """Over random graphs, rates, overlaps and input ages: what is read, and
    the age that the action is told, is never above what `plan` prints."""
    bound = worst_ages(pipeline)
    for buffer, age in walk(pipeline, random, 60, lazy).items():
        assert age <= bound[buffer], buffer


@given(pipelines())
def test_paths_agree_with_the_buffers(pipeline):
    """The worst path from any input is the worst age of the chunk: the two printouts can't disagree."""
    assert max(p.age_ns for p in paths(pipeline)) == worst_ages(pipeline)[pipeline.spec.chunk]


@pytest.mark.parametrize(("rule", "decisions"), [
    (Refresh("vision", every=1), 0),
    (Refresh("vision"), 0),
    (Refresh("vision", on_change=("scene", "wrist")), 0),
    (Refresh("vision", every=3, max_age_ms=900), 2),
    (Refresh("vision", every=2, max_age_ms=900, commit_after=1), 2),
    (Refresh("vision", every=4, max_age_ms=900, commit_after=3), 6),
    (Refresh("vision", every=1, max_age_ms=900, commit_after=1), 1),
    (Refresh("vision", max_age_ms=900, commit_after=2), 3),
    (Refresh("vision", every=4, on_change=("scene", "wrist"), max_age_ms=900, commit_after=2), 3),
])
def test_one_slow_stage_attains_its_bound(rule, decisions):
    """The formula is tight for one slow stage: a looser one would refuse rates that are fine."""
    contract = servo_contract()
    pipeline = verify(replace(contract, refresh=(rule, *contract.refresh[1:])), SERVO)
    expected = pipeline.input["scene"].max_age_ns + decisions * pipeline.period_ns
    assert worst_ages(pipeline)["vision_tokens"] == expected
    assert walk(pipeline, stdlib_random.Random(1), 300, 0.0)["belief"] == expected


def test_a_stage_that_only_its_age_refreshes_is_bounded_by_it():
    """on_change: [scene] leaves the wrist camera to max_age_ms, which then is the bound."""
    contract = servo_contract()
    rule = Refresh("vision", on_change=("scene",), max_age_ms=700)
    pipeline = verify(replace(contract, refresh=(rule, *contract.refresh[1:])), SERVO)
    assert worst_ages(pipeline)["vision_tokens"] == 700_000_000
    assert {p.input: p.age_ns for p in paths(pipeline)} == {
        "scene": 150_000_000, "wrist": 700_000_000, "joints": 50_000_000}
