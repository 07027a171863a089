"""A saved boundary is all that there is: whatever happens between saving and loading leaves no trace in what follows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from dag_policy import (
    DagPolicy, GatedPolicy, content, make_pipeline, observation, observations, pipelines, schedules, vla,
)  # fmt: skip
from dag_reference import same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_ros.contract.pipeline import Stage
from flashrt_ros.engine.decision import EngineError
from flashrt_ros.engine.engine import Engine
from flashrt_ros.engine.observation import InputValue, Observation


def scheduled(data, pipeline):
    """(step, observation) along a random schedule; the noise is another at each decision, as everywhere."""
    steps = data.draw(schedules(pipeline, resets=False))
    steps = [replace(step, fresh=step.fresh | {"noise"}) for step in steps]
    return list(observations(pipeline, steps, lambda name, ident, _: content(name, ident)))


def dirty(engine):
    """Overwrite every tensor of the engine, live or not, and its books."""
    engine.drain()
    for tensor in [*engine.buffers.tensors.values(), engine.slab.memory.view(torch.uint8)]:
        tensor.fill_(37)
    engine.buffers.become(dict.fromkeys(engine.buffers.versions, 999), dict.fromkeys(engine.buffers.stamps, 5),
                          dict.fromkeys(engine.buffers.idents, -3))
    engine.ledger.clear()


def decide_all(steps, *engines):
    """Each engine makes every one of these decisions."""
    for _, seen in steps:
        for engine in engines:
            engine.decide(seen)


def told(decision):
    """What of a decision must repeat: all but durations and the counts of misses since the engine was made."""
    return (None if decision.chunk is None else decision.chunk.tobytes(), decision.refused, decision.late,
            [(r.stage, r.reason, r.background) for r in decision.runs], [(c.stage, c.launched) for c in decision.commits],
            [(s.name, s.version, s.stamp_ns, s.last_run) for s in decision.stages])


@settings(max_examples=150)
@given(st.data())
def test_load_then_continue_equals_the_uninterrupted_run(data):
    """For any DAG, refresh rules, overlap, arrivals and misses, and at any boundary: the closure is what must be kept, no less.
    A capsule that forgets one buffer shows here."""
    ages = data.draw(st.booleans())  # then nothing is late: a superseded run that still holds its shadow is waited for
    pipeline = data.draw(pipelines(ages=ages, age_inputs=data.draw(st.booleans())))
    steps = scheduled(data, pipeline)
    cut = data.draw(st.integers(0, len(steps) - 1))
    engine = Engine(pipeline, GatedPolicy(pipeline.spec), background="thread", stage_ms=dict.fromkeys(pipeline.stage, 1.0))
    try:
        memory, boundary, original = engine.memory(), None, []
        for i, (step, seen) in enumerate(steps):
            if ages or not step.hold:
                engine.policy.gate.set()
                engine.drain()
            engine.policy.gate.clear()
            original.append(engine.decide(seen))
            if i == cut:
                boundary = engine.save(memory)
        engine.policy.gate.set()
        for _ in range(2):  # a capsule is not used up
            dirty(engine)
            engine.load(memory, boundary)
            for (_, seen), then in zip(steps[cut + 1:], original[cut + 1:]):
                engine.drain()
                assert told(engine.decide(seen, withheld=then.late)) == told(then)
    finally:
        engine.policy.gate.set()
        engine.drain()
        engine.close()


@settings(max_examples=60)
@given(st.data())
def test_another_engine_continues_from_the_bytes(data):
    """A capsule that was read from a disk goes into an engine that has never decided anything."""
    pipeline = data.draw(pipelines())
    steps = scheduled(data, pipeline)
    cut = data.draw(st.integers(0, len(steps) - 1))
    first, second = (Engine(pipeline, DagPolicy(pipeline.spec)) for _ in range(2))
    memory = first.memory()
    decide_all(steps[: cut + 1], first)
    boundary = first.save(memory)
    dirty(second)
    second.load(memory.clone(), boundary)
    for _, seen in steps[cut + 1:]:
        assert told(first.decide(seen)) == told(second.decide(seen))


@settings(max_examples=100)
@given(st.data())
def test_rewind_then_fresh_depends_on_belief_and_observation_only(data):
    """A retry: whatever the decisions since have left behind, refreshing everything from the restored state gives the chunk that
    it would have given right then; and versions only grow."""
    pipeline = data.draw(pipelines(ages=False))
    steps = scheduled(data, pipeline)
    cut = data.draw(st.integers(0, len(steps) - 1))
    engine, other = (Engine(pipeline, DagPolicy(pipeline.spec)) for _ in range(2))
    memory = engine.memory()
    decide_all(steps[: cut + 1], engine, other)
    boundary = engine.save(memory)
    decide_all(steps[cut + 1:], engine)
    before = dict(engine.buffers.versions)
    last = steps[-1][1]
    seen = observation(pipeline, last.decision + 1)
    engine.rewind(memory, boundary)
    ours, theirs = engine.decide(seen, fresh=True), other.decide(seen, fresh=True)
    assert same_bits(ours.chunk, theirs.chunk)
    assert {r.reason for r in ours.runs} == {"never"} and not any(r.background for r in ours.runs)
    assert all(version >= before[name] for name, version in engine.buffers.versions.items())


@settings(max_examples=100)
@given(st.data())
def test_rewind_keeps_what_came_from_outside(data):
    """The physical world does not roll back: a rewound pipeline works on with the inputs that it has, and what stages had not
    yet seen of them is still news to them."""
    pipeline = data.draw(pipelines(ages=False, overlap=False))
    steps = scheduled(data, pipeline)
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    memory = engine.memory()
    cut = data.draw(st.integers(0, len(steps) - 1))
    decide_all(steps[: cut + 1], engine)
    boundary = engine.save(memory)
    decide_all(steps[cut + 1:], engine)
    inputs = {name: engine.buffers.tensors[name].clone() for name in engine.slab.inputs}
    engine.rewind(memory, boundary)
    assert all(same_bits(inputs[name], engine.buffers.tensors[name]) for name in inputs)
    assert all(same_bits(engine.slab.regions[b].view(memory), engine.buffers.tensors[b]) for b in engine.slab.buffers)
    for stage, consumed in engine.ledger.consumed.items():
        for name, version in consumed.items():
            if name in pipeline.writer:
                had_seen = boundary.ledger.consumed[stage][name] == boundary.versions[name]
                assert (version == engine.buffers.versions[name]) == had_seen


def test_a_discarded_background_run_never_commits():
    """It was launched from a belief that has been taken back."""
    pipeline = vla(every=2, commit_after=1)
    engine = Engine(pipeline, GatedPolicy(pipeline.spec), background="thread")
    try:
        memory = engine.memory()
        for k in range(2):
            engine.decide(observation(pipeline, k))
        boundary = engine.save(memory)
        engine.decide(observation(pipeline, 2))  # launches vision
        engine.rewind(memory, boundary)
        engine.policy.gate.set()
        engine.drain()
        decision = engine.decide(observation(pipeline, 3))
        assert decision.commits == () and decision.late == ()
    finally:
        engine.policy.gate.set()
        engine.close()


def test_saving_and_loading_allocate_nothing():
    """Memory is made once, before the robot moves."""
    pipeline = vla()
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    memory, count = engine.memory(), engine.allocations
    for k in range(4):
        engine.decide(observation(pipeline, k))
        boundary = engine.save(memory)
        engine.load(memory, boundary)
        engine.rewind(memory, boundary)
    assert engine.allocations == count


@pytest.mark.parametrize("forks", [2, 5])
def test_forks_differ_in_noise_only_and_the_first_is_the_decision_itself(forks):
    """Choosing among candidates must not change what the policy would have said without them."""
    pipeline = make_pipeline({"scene": False, "noise": True}, [
        Stage("vision", ("scene",), ("tokens",), every=2), Stage("action", ("tokens", "noise"), ("chunk",), every=1)])
    one, many = Engine(pipeline, DagPolicy(pipeline.spec)), Engine(pipeline, DagPolicy(pipeline.spec), forks=forks)
    for k in range(4):
        seen = observation(pipeline, k)
        noises = np.stack([seen.inputs["noise"].value, *(content("noise", 100 * k + i) for i in range(1, forks))])
        forked = Observation(k, seen.now_ns, {**seen.inputs, "noise": InputValue(noises, k + 1, None)})
        ours, theirs = many.decide(forked), one.decide(seen)
        assert ours.candidates.shape == (forks, 2, 2) and same_bits(ours.chunk, theirs.chunk)
        tokens, chunk = many.buffers.tensors["tokens"], torch.zeros(2, 2)
        for noise, candidate in zip(noises, ours.candidates):
            many.policy.run("action", {"tokens": tokens, "noise": torch.from_numpy(noise)}, {"chunk": chunk})
            assert same_bits(candidate, chunk)


def test_forks_are_refused_where_they_mean_nothing():
    """A policy without noise would give equal candidates; an action with a state would leave several behind."""
    pipeline = vla()
    with pytest.raises(EngineError, match="takes no noise"):
        Engine(pipeline, DagPolicy(pipeline.spec), forks=2)
    with pytest.raises(EngineError, match="at least 1"):
        Engine(pipeline, DagPolicy(pipeline.spec), forks=0)
