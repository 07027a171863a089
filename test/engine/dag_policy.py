"""Random pipelines for the engine's laws: small DAGs of affine-and-tanh stages, with any refresh rules."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, replace
from typing import Callable

import numpy as np
import torch
from hypothesis import strategies as st

from flashrt_ros.contract.pipeline import Pipeline, Stage
from flashrt_ros.contract.schema import Channel, Contract, Input, Limits, Output, PolicyChoice, Refresh, Rollback
from flashrt_ros.contract.spec import BufferSpec, PolicySpec, StageSpec
from flashrt_ros.engine.observation import InputValue, Observation
from flashrt_ros.policies.base import Policy

SIZE = 4  # every buffer holds four float32, the chunk as [2, 2]; but an age one
PERIOD_NS = 100_000_000


class DagPolicy(Policy):
    """Each output of a stage is tanh(sum of weight * read + bias), with weights that depend on the names alone."""

    def __init__(self, spec: PolicySpec) -> None:
        self.spec = spec

    def run(self, stage, reads, writes):
        for name, out in writes.items():
            total = torch.full((SIZE,), _weight(stage, name, "bias"), device=out.device)
            for read, value in reads.items():
                total += _weight(stage, name, read) * value.reshape(-1)
            out.copy_(torch.tanh(total).reshape(out.shape))

    def encode_text(self, text: str) -> np.ndarray:
        return np.full(SIZE, len(text), np.float32)

    def weights_digest(self) -> str:
        return "none"


class OldestPolicy(DagPolicy):
    """Each output is the minimum of its reads, own state and ages aside. With inputs that hold their own stamps (timeless ones
    hold infinity), every buffer then holds the stamp of the oldest observation in it."""

    def run(self, stage, reads, writes):
        ages = dict(self.spec.ages)
        known = [value.reshape(SIZE) for name, value in reads.items() if name not in writes and name not in ages]
        for out in writes.values():
            out.copy_(torch.stack(known).amin(0).reshape(out.shape))


class GatedPolicy(DagPolicy):
    """Background runs on another thread wait until `gate` is set."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__(spec)
        self.gate = threading.Event()
        self._owner = threading.get_ident()

    def run(self, stage, reads, writes):
        if threading.get_ident() != self._owner and not self.gate.wait(timeout=60):
            raise TimeoutError("the test never opened the gate")
        super().run(stage, reads, writes)


class FailingPolicy(DagPolicy):
    """The stage `broken` scribbles over what it writes and raises, until it is mended (broken = None)."""

    broken: str | None = None

    def run(self, stage, reads, writes):
        if stage == self.broken:
            for out in writes.values():
                out.fill_(float("nan"))
            raise ValueError("a kernel of the test failed")
        super().run(stage, reads, writes)


def _weight(*names: str) -> float:
    digest = hashlib.sha256("/".join(names).encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**31 - 1.0


def make_pipeline(
    inputs: dict[str, bool],
    stages: list[Stage],
    states: tuple[str, ...] = (),
    deadline_ms: float = 80.0,
    defaults: dict[str, str] | None = None,
    declared: tuple[Input, ...] | None = None,
    ages: tuple[tuple[str, str], ...] = (),
) -> Pipeline:
    """inputs: name -> timeless. The last stage is the action, reads the `ages` too and writes `chunk`. Everything but noise
    and ages has a topic. Nothing is verified."""
    stages = [*stages[:-1], replace(stages[-1], reads=(*stages[-1].reads, *dict(ages)))]
    buffers = [BufferSpec(name, (1,), "float32", "input", timeless=True) for name in dict(ages)]
    buffers += [BufferSpec(name, (SIZE,), "float32", "input", timeless) for name, timeless in inputs.items()]
    for stage in stages:
        for name in stage.writes:
            if name == "chunk":
                buffers.append(BufferSpec(name, (2, 2), "float32", "output"))
            else:
                buffers.append(BufferSpec(name, (SIZE,), "float32", "state" if name in states else "derived"))
    spec = PolicySpec(
        type="dag",
        buffers=tuple(buffers),
        stages=tuple(StageSpec(s.name, s.reads, s.writes) for s in stages),
        action=stages[-1].name,
        chunk="chunk",
        joints=("a", "b"),
        noise="noise" if "noise" in inputs else None,
        ages=ages,
        trained_stale=True,
    )
    contract = Contract(
        policy=PolicyChoice("dag"),
        rate_hz=1e9 / PERIOD_NS,
        deadline_ms=deadline_ms,
        inputs=declared or tuple(
            Input(n, Channel(n, "std_msgs/msg/Float32MultiArray"), default=(defaults or {}).get(n))
            for n in inputs if n != "noise"
        ),
        refresh=tuple(Refresh(s.name, s.every, s.on_change) for s in stages),
        outputs=(Output("arm", Channel("arm/joint_trajectory", "trajectory_msgs/msg/JointTrajectory"), ("a", "b")),),
        limits=Limits(),
        rollback=Rollback(),
    )  # fmt: skip
    return Pipeline(contract, spec, tuple(stages))


def vla(every: int = 2, commit_after: int | None = 1, max_age_ms: float | None = None, **more) -> Pipeline:
    """A vision stage (overlapped), a prefix that follows it and a recurrent action: the shape of a real policy."""
    return make_pipeline(
        {"scene": False, "joints": False, "task": True},
        [
            Stage("vision", ("scene",), ("tokens",), every=every, commit_after=commit_after,
                  max_age_ns=None if max_age_ms is None else round(max_age_ms * 1e6)),
            Stage("prefix", ("tokens", "task"), ("cache",)),
            Stage("action", ("cache", "joints", "memory"), ("memory", "chunk"), every=1),
        ],
        states=("memory",),
        **more,
    )  # fmt: skip


def observed(pipeline: Pipeline) -> list[BufferSpec]:
    """The inputs that an observation holds."""
    return [b for b in pipeline.spec.buffers if b.kind == "input" and b.name not in dict(pipeline.spec.ages)]


def observation(
    pipeline: Pipeline, decision: int, idents: dict[str, int] | None = None, now_ns: int | None = None
) -> Observation:
    """Every input new at each decision (or with the given idents), stamped `now`; the ident decides the content."""
    now_ns = decision * PERIOD_NS if now_ns is None else now_ns
    values = {}
    for spec in observed(pipeline):
        ident = (idents or {}).get(spec.name, decision + 1)
        values[spec.name] = InputValue(content(spec.name, ident), ident, None if spec.timeless else now_ns)
    return Observation(decision, now_ns, values)


def content(name: str, ident: int) -> np.ndarray:
    return np.array([_weight(name, str(ident), str(i)) for i in range(SIZE)], np.float32)


@dataclass(frozen=True)
class Step:
    """One boundary of a schedule. fresh: inputs with a new message here, stamped `lag_ns` before now."""

    decision: int
    fresh: frozenset[str]
    lag_ns: int
    reset: bool
    hold: bool  # for overlap: leave the background unfinished here


def observations(pipeline: Pipeline, steps: list[Step], value: Callable[[str, int, int], np.ndarray]):
    """(step, observation) along a schedule. value(name, ident, stamp_ns) gives an input's content."""
    now: dict[str, InputValue] = {}
    for step in steps:
        for spec in observed(pipeline):
            name = spec.name
            if name in step.fresh or name not in now:
                stamp = max(step.decision * PERIOD_NS - step.lag_ns, 0)
                stamp = stamp if name not in now or now[name].stamp_ns is None else max(stamp, now[name].stamp_ns)
                now[name] = InputValue(value(name, step.decision + 1, stamp), step.decision + 1,
                                       None if spec.timeless else stamp)  # fmt: skip
        yield step, Observation(step.decision, step.decision * PERIOD_NS, dict(now))


@st.composite
def pipelines(
    draw, state: bool = True, overlap: bool = True, ages: bool = True, age_inputs: bool = False
) -> Pipeline:
    """A random DAG of two to five stages over one to three inputs and, at times, noise. ages: stages may have a max_age.
    age_inputs: the action is told the ages of one or two buffers."""
    inputs = {f"in{i}": draw(st.booleans()) if i else False for i in range(draw(st.integers(1, 3)))}
    if draw(st.booleans()):
        inputs["noise"] = True
    known, stages, states = list(inputs), [], []
    stamped = [name for name, timeless in inputs.items() if not timeless]
    count = draw(st.integers(2, 5))
    for i in range(count):
        action = i == count - 1
        reads = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
        if action and stages and not set(reads) & set(known[len(inputs):]):
            reads.append(known[-1])
        writes = ["chunk"] if action else [f"out{i}"] + ([f"also{i}"] if draw(st.booleans()) else [])
        on_change = draw(st.lists(st.sampled_from(known), max_size=2, unique=True))
        if state and draw(st.booleans()):
            states.append(f"state{i}")
            reads.append(states[-1])
            writes.append(states[-1])
        stage = Stage(
            f"stage{i}", tuple(reads), tuple(writes),
            max_age_ns=draw(st.none() | st.integers(1, 6).map(lambda n: n * PERIOD_NS)) if ages else None,
        )  # fmt: skip
        if action:
            stage = replace(stage, every=1)
        else:
            stage = replace(
                stage,
                every=draw(st.none() | st.integers(1, 4)),
                on_change=tuple(on_change),
                commit_after=draw(st.none() | st.integers(1, 3)) if overlap else None,
            )
        stages.append(stage)
        known += [name for name in writes if name not in states]
        stamped += writes if not action and set(reads) & set(stamped) else []
    sources = draw(st.lists(st.sampled_from(stamped), min_size=1, max_size=2)) if age_inputs else []
    return make_pipeline(inputs, stages, tuple(states), ages=tuple((f"age{i}", s) for i, s in enumerate(sources)))


@st.composite
def schedules(draw, pipeline: Pipeline, resets: bool = True) -> list[Step]:
    """Up to 16 boundaries with skipped decisions, arrivals of new messages, their lags and, at times, resets."""
    names = [s.name for s in observed(pipeline)]
    steps, decision = [], 0
    for _ in range(draw(st.integers(3, 16))):
        steps.append(
            Step(
                decision,
                frozenset(draw(st.lists(st.sampled_from(names), max_size=3))),
                draw(st.integers(0, 3)) * PERIOD_NS // 2,
                resets and draw(st.integers(0, 9)) == 0,
                draw(st.booleans()),
            )
        )
        decision += 1 + max(0, draw(st.integers(-3, 2)))
    return steps
