"""Policies and contracts for the tests: a servo like the demo's, small ones, and random ones."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Mapping, NamedTuple, Sequence

from hypothesis import strategies as st

from flashrt_ros.contract.age import hold, timed_reads, worst_ages
from flashrt_ros.contract.load import load
from flashrt_ros.contract.pipeline import Pipeline, Stage
from flashrt_ros.contract.schema import Channel, Contract, Image, Input, Limits, Output, PolicyChoice, Refresh, Rollback
from flashrt_ros.contract.spec import BufferSpec, PolicySpec, StageSpec
from flashrt_ros.contract.verify import verify
from flashrt_ros.resources import find

CONTRACT = find("config/color_servo.contract.yaml")
JOINTS = ("shoulder_pan", "shoulder_lift", "elbow", "forearm_roll", "wrist_pitch", "wrist_roll", "gripper")
SERVO = PolicySpec(
    type="color_servo",
    buffers=(
        BufferSpec("scene", (96, 96, 3), "uint8", "input"),
        BufferSpec("wrist", (96, 96, 3), "uint8", "input"),
        BufferSpec("joints", (7,), "float32", "input"),
        BufferSpec("task", (64,), "uint8", "input", timeless=True),
        BufferSpec("vision_tokens", (24, 8), "float32", "derived"),
        BufferSpec("belief", (16,), "float32", "derived"),
        BufferSpec("chunk", (32, 7), "float32", "output"),
    ),
    stages=(
        StageSpec("vision", ("scene", "wrist"), ("vision_tokens",)),
        StageSpec("fuse", ("vision_tokens", "task"), ("belief",)),
        StageSpec("action", ("belief", "joints"), ("chunk",)),
    ),
    action="action",
    chunk="chunk",
    joints=JOINTS,
    trained_stale=True,
)


def servo_contract() -> Contract:
    return load(CONTRACT)


PERIOD_NS = 100_000_000


INPUTS = {b.name: b for b in (
    BufferSpec("now", (1,), "float32", "input"),
    BufferSpec("camera0", (2, 2, 3), "uint8", "input"),
    BufferSpec("camera1", (2, 2, 3), "uint8", "input"),
    BufferSpec("text", (4,), "uint8", "input", timeless=True),
    BufferSpec("noise", (3,), "float32", "input", timeless=True),
)}
CHANNELS = {
    "now": Input("now", Channel("now", "sensor_msgs/msg/JointState"), select=("position.j",)),
    "camera0": Input("camera0", Channel("camera0", "sensor_msgs/msg/Image"), image=Image((2, 2))),
    "camera1": Input("camera1", Channel("camera1", "sensor_msgs/msg/Image"), image=Image((2, 2))),
    "text": Input("text", Channel("text", "std_msgs/msg/String", "latched")),
}


class Rule(NamedTuple):
    """slack_ns: what max_age_ms allows above the worst case; None: no max_age_ms unless verify asks for one."""

    every: int | None = None
    on_change: tuple[str, ...] = ()
    commit_after: int | None = None
    slack_ns: int | None = None


def joined(
    stages: Mapping[StageSpec, Rule], inputs: Sequence[str] = (), max_age_ms: Mapping[str, float] = MappingProxyType({}),
    sources: Sequence[str] = (),
) -> Pipeline:
    """These stages over those of INPUTS that they (or `inputs`) name, before an action that reads `now`, the ages of the
    `sources` and whatever nothing else reads. An input is at most 100 ms old unless max_age_ms says otherwise."""
    read = {b for s in stages for b in s.reads}
    bound = [b for name, b in INPUTS.items() if name == "now" or name in read or name in inputs]
    derived = [BufferSpec(b, (2,), "float32", "state" if b in s.reads else "derived") for s in stages for b in s.writes]
    ages = tuple((f"age{i}", source) for i, source in enumerate(sources))
    bound += [BufferSpec(name, (1,), "float32", "input", timeless=True) for name, _ in ages]
    action = StageSpec(
        "action", tuple(b.name for b in (*bound, *derived) if b.name == "now" or b.name not in read), ("chunk",))
    noise = "noise" if INPUTS["noise"] in bound else None
    buffers = (*bound, *derived, BufferSpec("chunk", (8, 1), "float32", "output"))
    spec = PolicySpec("small", buffers, (*stages, action), "action", "chunk", ("j",), noise, ages,
                      trained_stale=True)
    contract = Contract(
        policy=PolicyChoice("small"), rate_hz=10.0, deadline_ms=80.0, refresh=(), rollback=Rollback(),
        inputs=tuple(
            replace(CHANNELS[b.name], max_age_ms=None if b.timeless else max_age_ms.get(b.name, 100.0))
            for b in bound if b.name not in spec.engine_filled),
        outputs=(Output("arm", Channel("arm", "trajectory_msgs/msg/JointTrajectory"), ("j",)),),
        limits=Limits({"j": (-1.0, 1.0)}, {"j": 1.0}, boundary_jump=0.1))
    return verify(replace(contract, refresh=_refresh(contract, spec, {s.name: r for s, r in stages.items()})), spec)


def _refresh(contract: Contract, spec: PolicySpec, rules: Mapping[str, Rule]) -> tuple[Refresh, ...]:
    """The rules with their max_age_ms: the worst case plus the slack."""
    stages: list[Stage] = []
    for stage in spec.stages:
        rule = rules.get(stage.name, Rule(every=1))
        candidate = Stage(stage.name, stage.reads, stage.writes, rule.every, rule.on_change, None, rule.commit_after)
        pipeline = Pipeline(contract, spec, (*stages, candidate))
        ages, timed = worst_ages(pipeline), timed_reads(pipeline, candidate)
        holds = [hold(candidate, b) for b in timed]
        if timed and (rule.slack_ns is not None or any(h != 0 for h in holds)):
            worst = max(ages[b] + ((rule.commit_after or 0) if h is None else h) * PERIOD_NS
                        for b, h in zip(timed, holds))
            candidate = replace(candidate, max_age_ns=worst + (rule.slack_ns or 0))
        stages.append(candidate)
    return tuple(
        Refresh(s.name, s.every, s.on_change, None if s.max_age_ns is None else s.max_age_ns / 1e6, s.commit_after)
        for s in stages)


@st.composite
def pipelines(draw, most_stages: int = 4, most_every: int = 4) -> Pipeline:
    """A random pipeline that verify accepts: 1 to `most_stages` stages before the action, each with its own rule."""
    inputs = ["now", *draw(st.lists(st.sampled_from([n for n in INPUTS if n != "now"]), unique=True, max_size=4))]
    sources, stages, stamped = list(inputs), {}, [n for n in inputs if not INPUTS[n].timeless]
    for i in range(draw(st.integers(1, most_stages))):
        reads = draw(st.lists(st.sampled_from(sources), min_size=1, max_size=3, unique=True))
        writes = [f"b{i}"] + [f"b{i}x"] * draw(st.booleans())
        state = [f"state{i}"] * draw(st.booleans())
        every = draw(st.sampled_from([None, *range(1, most_every + 1)]))
        stages[StageSpec(f"s{i}", (*reads, *state), (*writes, *state))] = Rule(
            every=every,
            on_change=tuple(draw(st.lists(st.sampled_from(reads), max_size=2, unique=True))),
            commit_after=draw(st.sampled_from([None, *range(1, (every or 2) + 1)])),
            slack_ns=draw(st.sampled_from([None, 0, PERIOD_NS // 2, 3 * PERIOD_NS])))
        sources += writes
        stamped += [*writes, *state] if set(reads) & set(stamped) else []
    aged = draw(st.lists(st.sampled_from(stamped), max_size=2))
    return joined(stages, inputs, {name: draw(st.sampled_from([30.0, 100.0, 250.0])) for name in inputs}, aged)
