"""The host tier: boundaries on their way from the device to the disk, without anyone waiting for them."""

from __future__ import annotations

import torch
from capsule_cases import bfloat16, bits, decided, each
from dag_policy import observation, vla

from flashrt_ros.capsule.host import HostTier


def test_a_fetched_boundary_holds_what_was_there_when_it_was_asked_for():
    """By the time the writer reads it the engine has long gone on; in bfloat16 too, where a way through float32 would change
    NaNs."""
    pipeline = bfloat16(vla(), "cache", "tokens")
    engine = decided(pipeline)
    nans = torch.tensor([0x7FC1, -0x7F, 0x7F81, 1], dtype=torch.int16)  # with payloads, and one number
    engine.buffers.tensors["cache"].view(torch.int16).copy_(nans)
    memory = engine.memory()
    engine.save(memory)
    slab = each(engine.slab.views(memory))
    outputs = each({name: engine.buffers.tensors[name] for name in pipeline.writer})
    copy = HostTier(engine).fetch(memory)
    for k in range(4, 7):
        engine.decide(observation(pipeline, k))
    engine.save(memory)
    copy.wait()
    assert each(copy.tensors) == slab and each(copy.outputs) == outputs
    assert slab["cache"] != bits(engine.slab.regions["cache"].view(memory))


def test_room_is_made_once_and_runs_out_rather_than_grow():
    """A burst of trips must not eat the robot's memory: what finds no room is the caller's to count."""
    engine = decided()
    tier, memory = HostTier(engine, count=2), engine.memory()
    engine.save(memory)
    allocations = engine.allocations
    first, second = tier.fetch(memory), tier.fetch(memory)
    assert first is not None and second is not None and tier.fetch(memory) is None
    assert first.tensors["cache"].data_ptr() != second.tensors["cache"].data_ptr()
    first.release()
    assert tier.fetch(memory) is not None and tier.fetch(memory) is None
    assert engine.allocations == allocations
