"""A maker over a small pipeline, with an intake that hands out what the test says, a clock that the test turns, and planted faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from dag_policy import PERIOD_NS, DagPolicy, content, make_pipeline, observed

from flashrt_ros.capsule.maker import Asked, ChunkMaker
from flashrt_ros.capsule.record import Digests
from flashrt_ros.contract.pipeline import Pipeline, Stage
from flashrt_ros.contract.schema import Limits, Rollback
from flashrt_ros.engine.engine import Engine
from flashrt_ros.engine.observation import InputValue, Observation
from flashrt_ros.player.limits import Limits as PlayerLimits

DIGESTS = Digests("c" * 64, "w" * 64, "e" * 64)
STAGE_MS = 1.0
RAISE, FAR = 77.0, 88.0
PLANTED = {"nan": np.nan, "far": FAR, "raise": RAISE}


def guarded(depth: int = 4, max_consecutive: int = 3, every: int = 2, commit_after: int | None = 1) -> Pipeline:
    """Vision beside the action, a recurrent memory that the prefix keeps, and noise; limits that no chunk of DagPolicy leaves."""
    pipeline = make_pipeline(
        {"scene": False, "joints": False, "task": True, "noise": True},
        [Stage("vision", ("scene",), ("tokens",), every=every, commit_after=commit_after),
         Stage("prefix", ("tokens", "task", "memory"), ("cache", "memory"), every=1),
         Stage("action", ("cache", "joints", "noise"), ("chunk",), every=1)],
        states=("memory",),
    )  # fmt: skip
    limits = Limits(position={"a": (-2.0, 2.0), "b": (-2.0, 2.0)}, velocity={"a": 500.0, "b": 500.0}, boundary_jump=9.0)
    contract = replace(pipeline.contract, limits=limits, rollback=Rollback(depth=depth, max_consecutive=max_consecutive))
    return replace(pipeline, contract=contract)


class Policy(DagPolicy):
    """Raises for joints of RAISE, and goes far beyond the limits for joints of FAR: faults that stand in the observation."""

    def run(self, stage, reads, writes):
        super().run(stage, reads, writes)
        if stage == "action":
            if reads["joints"][0] == RAISE:
                raise ValueError("a kernel of the test failed")
            if reads["joints"][0] == FAR:
                writes["chunk"].mul_(1000)


class Intake:
    """Every input new at each decision; its content follows from the decision."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._specs = [s for s in observed(pipeline) if s.name != "noise"]

    def take(self, decision, now_ns, decode):
        inputs = {s.name: InputValue(content(s.name, 1 if s.timeless else decision + 1), 1 if s.timeless else decision + 1,
                                     None if s.timeless else now_ns, crc=decision) for s in self._specs}
        return Observation(decision, now_ns, inputs)


class Rig:
    """faults: (decision, attempt) -> one of nan, far, raise, late."""

    def __init__(self, pipeline: Pipeline | None = None, faults: dict[tuple[int, int], str] | None = None, black_box=None) -> None:
        self.pipeline = pipeline or guarded()
        self.policy = Policy(self.pipeline.spec)
        self.engine = Engine(self.pipeline, self.policy, stage_ms=dict.fromkeys(self.pipeline.stage, STAGE_MS))
        self.faults, self.planted, self.seq, self.now_ns = faults or {}, [], 0, 0
        limits = PlayerLimits.of(("a", "b"), self.pipeline.contract.limits)
        self.maker = ChunkMaker(self.engine, Intake(self.pipeline), DIGESTS, PERIOD_NS, limits, lambda: self.now_ns,
                                None if black_box is None else black_box(self.engine), self._corrupt)

    def make(self, decision: int, epoch: int = 1, task: str = "t"):
        asked = Asked(decision, decision * PERIOD_NS, 7, epoch, task, 7, began_ns=self.now_ns)
        return self.maker.make(asked, None, self._stamp)

    def _stamp(self) -> int:
        self.seq += 1
        return self.seq

    def _corrupt(self, seen: Observation, attempt: int) -> Observation:
        fault = self.faults.get((seen.decision, attempt))
        if fault is None:
            return seen
        self.planted.append((seen.decision, attempt, fault))
        if fault == "late":
            self.now_ns += self.pipeline.contract.deadline_ns + 1
            return seen
        joints = seen.inputs["joints"]
        value = np.full_like(joints.value, PLANTED[fault])
        return replace(seen, inputs={**seen.inputs, "joints": replace(joints, value=value, ident=-10 * seen.decision - attempt - 2)})
