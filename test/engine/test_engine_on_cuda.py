"""The CUDA executor keeps the promises of the CPU's: same schedule, same commits, nothing allocated. Needs a GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from dag_policy import DagPolicy, FailingPolicy, content, observation, observations, pipelines, schedules, vla
from dag_reference import same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_ros.engine.decision import EngineError
from flashrt_ros.engine.engine import Engine

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


class SlowPolicy(DagPolicy):
    """Spins on the GPU in every background run, long enough to be unfinished at the next decisions."""

    cycles = 0

    def run(self, stage, reads, writes):
        if stage == "vision":
            torch.cuda._sleep(self.cycles)
        super().run(stage, reads, writes)


@settings(max_examples=25)
@given(st.data())
def test_streams_change_no_bit(data):
    """Side by side on two streams, or one after another on one: the same buffers, versions and chunk."""
    pipeline = data.draw(pipelines(ages=False))
    steps = data.draw(schedules(pipeline))
    threaded, serial = (
        Engine(pipeline, DagPolicy(pipeline.spec), "cuda", background=mode) for mode in ("thread", "synchronous")
    )
    for step, seen in observations(pipeline, steps, lambda name, ident, _: content(name, ident)):
        if step.reset:
            threaded.reset(), serial.reset()
        if not step.hold:
            threaded.drain()
        ours = threaded.decide(seen)
        theirs = serial.decide(seen, withheld=ours.late)
        assert same_bits(ours.chunk, theirs.chunk) and ours.stages == theirs.stages


def test_cpu_and_cuda_follow_the_same_schedule_and_agree_to_rounding():
    """What is tuned at a desk must be what runs on the robot; only rounding may differ between devices."""
    pipeline = vla()
    cpu, cuda = (Engine(pipeline, DagPolicy(pipeline.spec), device) for device in ("cpu", "cuda"))
    cuda.warm_up()
    for k in range(8):
        ours, theirs = (engine.decide(observation(pipeline, k)) for engine in (cuda, cpu))
        assert [(r.stage, r.reason) for r in ours.runs] == [(r.stage, r.reason) for r in theirs.runs]
        assert ours.stages == theirs.stages
        np.testing.assert_allclose(ours.chunk, theirs.chunk, rtol=1e-5, atol=1e-6)
        assert all(r.duration_ns > 0 for r in ours.runs)


def test_a_slow_background_stage_neither_delays_the_action_nor_commits_early():
    """The action returns while vision still runs; vision's result comes at the first boundary where it is done."""
    pipeline = vla(every=2, commit_after=1)
    engine = Engine(pipeline, SlowPolicy(pipeline.spec), "cuda", background="thread")
    engine.warm_up()
    for k in range(2):
        engine.decide(observation(pipeline, k))
    engine.policy.cycles = 2_000_000_000  # about a second
    engine.decide(observation(pipeline, 2))
    assert engine.decide(observation(pipeline, 3)).late == ("vision",)
    engine.drain()
    decision = engine.decide(observation(pipeline, 4))
    assert [(c.stage, c.launched) for c in decision.commits] == [("vision", 2)]
    assert decision.commits[0].duration_ns > 100_000_000 and engine.misses == {"vision": 1}


def test_ages_reach_the_action_on_the_device():
    """They are known only between two stages of a plan, and must be there before the second without a wait for the
    first; the page-locked slots that alternate must not carry the age of an earlier decision."""
    pipeline = vla(every=3, commit_after=1, ages=(("cache_age", "cache"), ("joints_age", "joints")))
    cpu, cuda = (Engine(pipeline, DagPolicy(pipeline.spec), device) for device in ("cpu", "cuda"))
    cuda.warm_up()
    for k in range(12):
        ours, theirs = (engine.decide(observation(pipeline, k)) for engine in (cuda, cpu))
        for age in dict(pipeline.spec.ages):
            assert same_bits(cuda.buffers.tensors[age].cpu(), cpu.buffers.tensors[age])
        np.testing.assert_allclose(ours.chunk, theirs.chunk, rtol=1e-5, atol=1e-6)


def test_deciding_allocates_no_buffer_on_the_device():
    """An allocation can synchronise the device; the caching allocator must have reached its steady state."""
    pipeline = vla(ages=(("cache_age", "cache"),))
    engine = Engine(pipeline, DagPolicy(pipeline.spec), "cuda", background="thread")
    engine.warm_up()
    for k in range(4):
        engine.decide(observation(pipeline, k))
    engine.drain()
    allocations, held = engine.allocations, torch.cuda.memory_allocated()
    reserved = torch.cuda.memory_reserved()
    for k in range(4, 24):
        engine.decide(observation(pipeline, k))
    engine.drain()
    assert engine.allocations == allocations
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == (held, reserved)


def test_a_failing_stage_leaves_state_and_engine_whole():
    """Copies and undo run on the action's stream: the order that saves the state on a CPU must hold there."""
    pipeline = vla(every=1, commit_after=None)
    engine, sound = (Engine(pipeline, FailingPolicy(pipeline.spec), "cuda") for _ in range(2))
    for k in range(2):
        engine.decide(observation(pipeline, k)), sound.decide(observation(pipeline, k))
    engine.policy.broken = "action"
    with pytest.raises(EngineError, match="stage 'action' failed at decision 2"):
        engine.decide(observation(pipeline, 2))
    engine.policy.broken = None
    assert same_bits(engine.decide(observation(pipeline, 3)).chunk, sound.decide(observation(pipeline, 3)).chunk)


@settings(max_examples=25)
@given(st.data())
def test_a_boundary_comes_back_bit_for_bit(data):
    """Saved and loaded in order with two streams that may both be at work, and through page-locked host memory as well."""
    pipeline = data.draw(pipelines(ages=False))
    steps = [replace(s, fresh=s.fresh | {"noise"}) for s in data.draw(schedules(pipeline, resets=False))]
    heard = list(observations(pipeline, steps, lambda name, ident, _: content(name, ident)))
    cut = data.draw(st.integers(0, len(heard) - 1))
    engine = Engine(pipeline, DagPolicy(pipeline.spec), "cuda", background="thread")
    memory, host, original = engine.memory(), engine.memory(host=True), []
    for i, (step, seen) in enumerate(heard):
        if not step.hold:
            engine.drain()
        original.append(engine.decide(seen))
        if i == cut:
            boundary = engine.save(memory)
            wait = engine.fetch(((host, memory),))
    wait()
    for source in (memory, host):
        engine.drain()
        engine.slab.memory.fill_(37)
        engine.load(source, boundary)
        for (_, seen), then in zip(heard[cut + 1:], original[cut + 1:]):
            engine.drain()
            again = engine.decide(seen, withheld=then.late)
            assert same_bits(again.chunk, then.chunk) and again.late == then.late
            assert [(s.name, s.version, s.stamp_ns) for s in again.stages] == [(s.name, s.version, s.stamp_ns) for s in then.stages]


def test_a_rewound_engine_on_the_device_depends_on_belief_and_observation_only():
    """A retry on a GPU: what is in flight is discarded, everything is computed anew."""
    pipeline = vla(every=2, commit_after=1)
    engine, clean = (Engine(pipeline, DagPolicy(pipeline.spec), "cuda", background=mode) for mode in ("thread", "synchronous"))
    memory = engine.memory()
    for k in range(3):
        engine.decide(observation(pipeline, k)), clean.decide(observation(pipeline, k))
    boundary = engine.save(memory)
    for k in range(3, 7):
        engine.decide(observation(pipeline, k))
    engine.rewind(memory, boundary)
    seen = observation(pipeline, 7)
    assert same_bits(engine.decide(seen, fresh=True).chunk, clean.decide(seen, fresh=True).chunk)
