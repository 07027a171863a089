"""The laws of selective refresh, over random pipelines and schedules."""

from __future__ import annotations

import numpy as np
import torch
from dag_policy import SIZE, DagPolicy, OldestPolicy, content, observations, pipelines, schedules
from dag_reference import Reference, same_bits
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.engine.engine import Engine


def by_ident(name: str, ident: int, stamp_ns: int) -> np.ndarray:
    return content(name, ident)


@given(st.data())
def test_with_unchanged_inputs_any_schedule_gives_what_refreshing_everything_gives(data):
    """The licence for selective refresh: for pure stages it changes when work is done, never its result."""
    pipeline = data.draw(pipelines(state=False))
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    chunks = []
    for step, seen in observations(pipeline, data.draw(schedules(pipeline)), lambda name, *_: content(name, 0)):
        if step.reset:
            engine.reset()
        chunks.append(engine.decide(seen).chunk)

    values = {b: torch.zeros(spec.shape) for b, spec in pipeline.buffers.items()}
    values |= {name: torch.from_numpy(content(name, 0)) for name in engine.buffers.inputs}
    for stage in pipeline.stages:
        engine.policy.run(stage.name, {b: values[b] for b in stage.reads}, {b: values[b] for b in stage.writes})
    assert chunks[0] is not None
    assert all(same_bits(chunk, values["chunk"]) for chunk in chunks if chunk is not None)


@given(st.data())
def test_the_engine_equals_a_naive_interpreter_of_the_rules(data):
    """Plans, shadows and preallocated buffers are optimisations: no bit, version or stamp may tell them from the rules
    written down plainly, with recurrent state, ages, late arrivals, skipped decisions and resets in the way."""
    pipeline = data.draw(pipelines(age_inputs=data.draw(st.booleans())))
    policy = DagPolicy(pipeline.spec)
    engine, reference = Engine(pipeline, policy), Reference(pipeline, policy)
    for step, seen in observations(pipeline, data.draw(schedules(pipeline)), by_ident):
        if step.reset:
            engine.reset()
            reference.reset()
        decision = engine.decide(seen)
        chunk, ran = reference.decide(seen)

        assert [run.stage for run in decision.runs] == ran
        assert engine.buffers.versions == reference.version
        assert engine.buffers.stamps == reference.stamp
        assert all(same_bits(engine.buffers.tensors[b], value) for b, value in reference.value.items())
        assert (decision.chunk is None) == (chunk is None)
        assert chunk is None or same_bits(decision.chunk, chunk)


@given(st.data())
def test_versions_never_fall_and_no_returned_decision_is_over_age(data):
    """Whoever orders chunks by version or trusts max_age_ms relies on these without checking."""
    pipeline = data.draw(pipelines())
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    before = dict(engine.buffers.versions)
    for step, seen in observations(pipeline, data.draw(schedules(pipeline)), by_ident):
        if step.reset:
            engine.reset()
        decision = engine.decide(seen)
        assert all(engine.buffers.versions[b] >= version for b, version in before.items())
        before = dict(engine.buffers.versions)
        over = [
            state.name for state, stage in zip(decision.stages, pipeline.stages, strict=True)
            if stage.max_age_ns is not None and state.age_ns is not None and state.age_ns > stage.max_age_ns
        ]  # fmt: skip
        assert (decision.chunk is None) == bool(over)
        assert (decision.refused is None) == (not over)


@given(st.data())
def test_a_stamp_is_that_of_the_oldest_observation_in_the_content(data):
    """The data itself carries its age here, so a stamp that drifts from what it describes is seen at once."""
    pipeline = data.draw(pipelines())
    engine = Engine(pipeline, OldestPolicy(pipeline.spec))

    def own_stamp(name: str, ident: int, stamp_ns: int) -> np.ndarray:
        timeless = pipeline.buffers[name].timeless
        return np.full(SIZE, np.inf if timeless else stamp_ns / 1e6, np.float32)  # whole ms: exact in float32

    for step, seen in observations(pipeline, data.draw(schedules(pipeline, resets=False)), own_stamp):
        engine.decide(seen)
        for name, tensor in engine.buffers.tensors.items():
            stamp = engine.buffers.stamps[name]
            held = tensor.flatten()[0].item()
            assert held == (np.inf if stamp is None else stamp / 1e6), name
