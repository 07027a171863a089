"""Capsules of random pipelines for the tests of the tiers, with everything in them that a capsule can hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Mapping

import numpy as np
import torch
from dag_policy import DagPolicy, observation, vla

from flashrt_ros.capsule.evidence import Evidence, Setup
from flashrt_ros.capsule.record import Digests, Outside, Place, Record
from flashrt_ros.capsule.stored import Stored, seal
from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.engine.boundary import Boundary
from flashrt_ros.engine.decision import Decision
from flashrt_ros.engine.engine import Engine
from flashrt_ros.engine.observation import Observation

HERE = Digests(contract="c" * 64, weights="w" * 64, engine="e" * 64)
TASK = "pick up the red cube"


def record_of(boundary: Boundary, digests: Digests = HERE) -> Record:
    chunk = Chunk(("a", "b"), np.array([[0.1, -0.0], [np.pi, 1e-300]]), 5, 20_000_000, session=7, epoch=2, seq=3,
                  base=Cursor(1, 2, 7, 2, 2, 0.1))
    outside = Outside(TASK, Cursor(1, 2, 7, 2, 3, 1.7), {"scene": (5, 77)})
    return Record("p" * 64, digests, Place(7, 2, 3, 0, 10_000), boundary, outside, chunk, {"vision": 1.25, "action": 0.1})


def sealed(engine: Engine, digests: Digests = HERE) -> Stored:
    """A capsule of the present boundary."""
    memory = engine.memory(host=True)
    record = record_of(engine.save(memory), digests)
    return seal(record, engine.slab.views(memory))


def evidence_of(engine: Engine, seen: Observation, decision: Decision | None, without: str = "",
                guard: str = "nonfinite") -> Evidence:
    """Of the decision that the engine has just made."""
    contract = engine.pipeline.contract
    setup = Setup(contract.text, contract.overrides, str(engine.device), engine.threads, engine.forks,
                  {"torch": torch.__version__})
    outputs = {name: engine.buffers.tensors[name].clone() for name in engine.pipeline.writer}
    candidates, refused = (None, "") if decision is None else (decision.candidates, decision.refused or "")
    return Evidence(setup, guard, "step 3 of shoulder_pan is nan", 1, seen, False, engine.late, candidates, without or refused,
                    outputs, "2026-01-01T00:00:00+00:00")


def decided(pipeline: Pipeline | None = None, decisions: int = 4) -> Engine:
    """An engine that has decided a few times; of the shape of a real policy, with a run in flight."""
    pipeline = pipeline or vla(every=3, commit_after=2)
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    for k in range(decisions):
        engine.decide(observation(pipeline, k))
    return engine


def bfloat16(pipeline: Pipeline, *names: str) -> Pipeline:
    """The pipeline with these buffers in bfloat16, which numpy doesn't have."""
    buffers = tuple(replace(b, dtype="bfloat16") if b.name in names else b for b in pipeline.spec.buffers)
    return replace(pipeline, spec=replace(pipeline.spec, buffers=buffers))


def bits(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], bytes]:
    return str(tensor.dtype), tuple(tensor.shape), tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def each(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple]:
    return {name: bits(tensor) for name, tensor in tensors.items()}


def all_of(engine: Engine) -> tuple:
    """Everything that a restore could change."""
    engine.drain()
    memory = engine.memory()
    boundary = engine.save(memory)
    return boundary, bits(memory), each(engine.buffers.tensors)


def content_of(stored: Stored, evidence: Evidence | None) -> tuple:
    """All that a file says, to the bit."""
    chunk = stored.record.chunk
    return (stored.record.to_json(), None if chunk is None else bits(torch.from_numpy(chunk.positions)), dict(stored.contents),
            each(stored.tensors), None if evidence is None else (evidence.to_json(), each(evidence.arrays())))
