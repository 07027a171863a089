"""What the engine promises around one decision: no allocation, no trace of warm-up, errors that leave it whole."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from dag_policy import DagPolicy, FailingPolicy, observation, vla
from dag_reference import same_bits
from torch.profiler import ProfilerActivity, profile

from flashrt_ros.engine.buffers import InputError
from flashrt_ros.engine.decision import EngineError
from flashrt_ros.engine.digest import digest_of, engine_facts
from flashrt_ros.engine.engine import WARM_UP_ROUNDS, Engine


def addresses(engine: Engine) -> dict[str, int]:
    return {name: tensor.data_ptr() for name, tensor in engine.buffers.tensors.items()}


def test_deciding_allocates_no_buffer_and_moves_none():
    """A recorded plan replays onto fixed addresses, and an allocation in the hot path is a latency spike."""
    pipeline = vla(max_age_ms=350, ages=(("cache_age", "cache"),))
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    engine.warm_up()
    allocations, before = engine.allocations, addresses(engine)
    assert allocations > 1  # the slab, and what no boundary has to keep
    for k in range(20):
        engine.decide(observation(pipeline, k))
    engine.reset()
    engine.decide(observation(pipeline, 0))
    assert engine.allocations == allocations and addresses(engine) == before


def test_the_engine_itself_makes_torch_allocate_nothing():
    """The counter sees the engine's own tensors only; the profiler would see a clone or a cast in a copy as well."""

    class Idle(DagPolicy):
        def run(self, stage, reads, writes):
            pass

    pipeline = vla(ages=(("cache_age", "cache"),))

    def allocated(policy: DagPolicy) -> bool:
        engine = Engine(pipeline, policy)
        seen = [observation(pipeline, k) for k in range(8)]
        for k in range(4):
            engine.decide(seen[k])
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            for k in range(4, 8):
                engine.decide(seen[k])
        return any(event.self_cpu_memory_usage > 0 for event in profiler.key_averages())

    assert allocated(DagPolicy(pipeline.spec))  # the profiler does see a policy's temporaries
    assert not allocated(Idle(pipeline.spec))


@pytest.mark.parametrize("background", ["synchronous", "thread"])
def test_warm_up_measures_every_stage_and_leaves_no_trace(background):
    """The first decision must be the one that a cold engine would have made."""
    pipeline = vla(defaults={"task": "pick up the red cube"})
    warm, cold = (Engine(pipeline, DagPolicy(pipeline.spec), background=background) for _ in range(2))
    times = warm.warm_up()
    assert set(times) == {"vision", "prefix", "action"} and all(ms > 0 for ms in times.values())
    assert warm.stage_ms == times
    assert warm.ledger == cold.ledger and warm.buffers.versions == cold.buffers.versions
    assert warm.buffers.stamps == cold.buffers.stamps and warm.counters == cold.counters
    assert all(same_bits(t, cold.buffers.tensors[b]) for b, t in warm.buffers.tensors.items())
    for k in range(4):
        warm.drain(), cold.drain()
        assert same_bits(warm.decide(observation(pipeline, k)).chunk, cold.decide(observation(pipeline, k)).chunk)
    warm.close(), cold.close()


def test_warm_up_runs_on_the_default_instruction():
    """An all-zero instruction need not be one that the policy knows."""
    pipeline = vla(defaults={"task": "pick"})
    seen = []

    class Listening(DagPolicy):
        def run(self, stage, reads, writes):
            super().run(stage, reads, writes)
            seen.extend(reads["task"].tolist() if "task" in reads else [])

    Engine(pipeline, Listening(pipeline.spec)).warm_up()
    assert set(seen) == {float(len("pick"))} and len(seen) == 4 * WARM_UP_ROUNDS


@pytest.mark.parametrize("stage", ["vision", "prefix", "action"])
def test_a_stage_that_fails_in_warm_up_is_named_and_leaves_no_trace(stage):
    """Configuration fails with the stage's name, and may be tried again on the same engine."""
    pipeline = vla()
    engine = Engine(pipeline, FailingPolicy(pipeline.spec))
    engine.policy.broken = stage
    with pytest.raises(EngineError, match=f"stage '{stage}' failed in warm-up: ValueError: a kernel of the test"):
        engine.warm_up()
    assert all(not t.any() for t in engine.buffers.tensors.values())
    engine.policy.broken = None
    assert engine.decide(observation(pipeline, 0)).chunk is not None


@pytest.mark.parametrize("stage", ["vision", "prefix", "action"])
def test_after_a_stage_error_the_engine_decides_as_if_the_failed_run_had_never_been(stage):
    """The failed stage scribbled over its outputs; recurrent state must be that of the last good decision."""
    pipeline = vla(every=1, commit_after=None)
    engine, sound = (Engine(pipeline, FailingPolicy(pipeline.spec)) for _ in range(2))
    for k in range(3):
        engine.decide(observation(pipeline, k))
        sound.decide(observation(pipeline, k))
    engine.policy.broken = stage
    with pytest.raises(EngineError, match=f"stage '{stage}' failed at decision 3: ValueError") as caught:
        engine.decide(observation(pipeline, 3))
    assert caught.value.stage == stage and engine.counters.errors == 1
    engine.policy.broken = None
    decision = engine.decide(observation(pipeline, 4))
    assert dict((r.stage, r.reason) for r in decision.runs)[stage] == "never"
    assert same_bits(decision.chunk, sound.decide(observation(pipeline, 4)).chunk)


def test_a_refused_observation_changes_nothing():
    """All is checked before anything is written: half an observation would be a belief that never was."""
    pipeline = vla()
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    engine.decide(observation(pipeline, 0))
    before = copy.deepcopy((engine.ledger.last_run, engine.buffers.versions, engine.buffers.stamps, engine.counters))
    bad = observation(pipeline, 1)
    del bad.inputs["task"]
    with pytest.raises(InputError, match="input 'task' is missing; every observation holds scene, joints, task"):
        engine.decide(bad)
    assert before == (engine.ledger.last_run, engine.buffers.versions, engine.buffers.stamps, engine.counters)
    assert engine.decide(observation(pipeline, 1)).chunk is not None


def test_indices_rise_and_time_does_not_fall_until_a_reset():
    """A repeated index would commit twice; a clock that jumped back makes every age negative, and so unbounded."""
    pipeline = vla()
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    engine.decide(observation(pipeline, 5))
    with pytest.raises(InputError, match="decision 5 does not follow decision 5: indices rise"):
        engine.decide(observation(pipeline, 5))
    with pytest.raises(InputError, match="is at 7 ns, before the last one's 500000000; after a clock jump call reset"):
        engine.decide(observation(pipeline, 6, now_ns=7))
    engine.reset()
    assert engine.decide(observation(pipeline, 0, now_ns=7)).chunk is not None


def test_after_a_reset_every_stage_runs_and_versions_go_on():
    """Versions order what was published before with what comes after; content and recurrent state start anew."""
    pipeline = vla()
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    first = engine.decide(observation(pipeline, 0))
    for k in range(1, 5):
        engine.decide(observation(pipeline, k))
    versions = dict(engine.buffers.versions)
    engine.reset()
    assert engine.buffers.versions == versions and set(engine.buffers.stamps.values()) == {None}
    again = engine.decide(observation(pipeline, 0))
    assert [r.reason for r in again.runs] == ["never"] * 3
    assert same_bits(again.chunk, first.chunk)
    assert all(engine.buffers.versions[b] == version + 1 for b, version in versions.items())


def test_the_chunk_is_a_copy():
    """A published chunk must not change under the player's hands at the next decision."""
    pipeline = vla()
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    first = engine.decide(observation(pipeline, 0)).chunk
    kept = first.copy()
    second = engine.decide(observation(pipeline, 1)).chunk
    assert first.dtype == np.float32 and first.shape == (2, 2)
    assert same_bits(first, kept) and not same_bits(first, second)


def test_the_engine_digest_names_what_bits_depend_on_and_nothing_else():
    """Overlap mode changes no bit; thread count, precision and versions may."""
    pipeline = vla()
    engines = [Engine(pipeline, DagPolicy(pipeline.spec), background=mode) for mode in ("synchronous", "thread")]
    digests = {engine.engine_digest() for engine in engines}
    engines[1].close()
    assert len(digests) == 1 and len(digests.pop()) == 64
    facts = engine_facts(torch.device("cpu"), 1, "fp32")
    assert facts["torch"] == torch.__version__ and facts["device"]
    changed = [facts | {key: "another"} for key in facts]
    assert len({digest_of(f) for f in [facts, *changed]}) == len(facts) + 1


def test_the_thread_count_is_set():
    """It changes how sums are split, and so their bits: it must be ours to say, and part of the digest."""
    pipeline = vla()
    try:
        engine = Engine(pipeline, DagPolicy(pipeline.spec), threads=2)
        assert torch.get_num_threads() == 2
        assert engine.engine_digest() != Engine(pipeline, DagPolicy(pipeline.spec), threads=1).engine_digest()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": "tpu"}, "device 'tpu' is unknown; allowed: cpu, cuda, cuda:<index>"),
        ({"device": "meta"}, "device 'meta' is not supported; allowed: cpu, cuda"),
        ({"background": "process"}, "background 'process' is not a mode; allowed: synchronous, thread"),
        ({"threads": 0}, "threads is 0; it must be at least 1"),
    ],
)
def test_a_wrong_argument_is_named_with_what_is_allowed(arguments, message):
    """These come from a user's parameters file."""
    pipeline = vla()
    with pytest.raises(EngineError, match=message):
        Engine(pipeline, DagPolicy(pipeline.spec), **arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="here there is a CUDA device")
def test_cuda_without_a_device_is_refused_with_the_way_out():
    """torch's own error speaks of drivers; the user's way out is a parameter."""
    pipeline = vla()
    with pytest.raises(EngineError, match="device 'cuda': torch finds no CUDA device here; use device: cpu"):
        Engine(pipeline, DagPolicy(pipeline.spec), device="cuda")


def test_a_policy_of_another_declaration_is_refused():
    """The pipeline was verified for certain buffers; running another policy over them would fail deep inside."""
    pipeline = vla()
    assert Engine(pipeline, DagPolicy(vla().spec))  # equal declarations are one
    with pytest.raises(EngineError, match="the policy 'another' does not declare .* verify the contract against this"):
        Engine(pipeline, DagPolicy(replace(pipeline.spec, type="another")))


def test_warnings_of_the_pipeline_are_published_with_every_decision():
    """allow_stale is meant to be seen for as long as it is in force."""
    base = vla()
    pipeline = replace(base, warnings=("vision runs stale: allow_stale is set",))
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    assert engine.decide(observation(pipeline, 0)).warnings == pipeline.warnings
