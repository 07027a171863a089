"""Policies and contracts for the tests: the demo's, and random ones."""

from __future__ import annotations

from dataclasses import replace

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


@st.composite
def pipelines(draw, most_stages: int = 4, most_every: int = 4) -> Pipeline:
    """A random pipeline that verify accepts: 1 to `most_stages` stages before the action, each with a rule of its own.

    Whatever nothing else reads, the action reads; it also reads the input `now` directly, so no rate is refused.
    """
    inputs = [BufferSpec("now", (1,), "float32", "input")]
    inputs += [BufferSpec(f"camera{i}", (2, 2, 3), "uint8", "input") for i in range(draw(st.integers(0, 2)))]
    if draw(st.booleans()):
        inputs.append(BufferSpec("text", (4,), "uint8", "input", timeless=True))
    if noise := "noise" if draw(st.booleans()) else None:
        inputs.append(BufferSpec(noise, (3,), "float32", "input", timeless=True))
    buffers, stages, rules = list(inputs), [], {}
    for i in range(draw(st.integers(1, most_stages))):
        sources = [b.name for b in buffers if b.kind != "state"]
        reads = draw(st.lists(st.sampled_from(sources), min_size=1, max_size=3, unique=True))
        writes = [f"b{i}"] + [f"b{i}x"] * draw(st.booleans())
        buffers += [BufferSpec(name, (2,), "float32", "derived") for name in writes]
        state = [f"state{i}"] * draw(st.booleans())
        buffers += [BufferSpec(name, (2,), "float32", "state") for name in state]
        stages.append(StageSpec(f"s{i}", (*reads, *state), (*writes, *state)))
        every = draw(st.sampled_from([None, *range(1, most_every + 1)]))
        on_change = tuple(draw(st.lists(st.sampled_from(reads), max_size=2, unique=True)))
        commit_after = draw(st.sampled_from([None, *range(1, (every or 2) + 1)]))
        slack_ns = draw(st.sampled_from([None, 0, PERIOD_NS // 2, 3 * PERIOD_NS]))
        rules[f"s{i}"] = (every, on_change, commit_after, slack_ns)
    read = {b for s in stages for b in s.reads}
    buffers.append(BufferSpec("chunk", (8, 1), "float32", "output"))
    left_over = tuple(b.name for b in buffers[:-1] if b.name not in read or b.name == "now")
    stages.append(StageSpec("action", left_over, ("chunk",)))
    rules["action"] = (1, (), None, None)
    spec = PolicySpec("random", tuple(buffers), tuple(stages), "action", "chunk", ("j",), noise, trained_stale=True)
    bound = tuple(
        Input(b.name, Channel(b.name, "std_msgs/msg/String", "latched")) if b.timeless
        else replace(_TIMED[b.name], max_age_ms=draw(st.sampled_from([30.0, 100.0, 250.0])))
        for b in inputs if b.name != noise)
    contract = Contract(
        policy=PolicyChoice("random"), rate_hz=10.0, deadline_ms=80.0, inputs=bound, refresh=(),
        outputs=(Output("arm", Channel("arm", "trajectory_msgs/msg/JointTrajectory"), ("j",)),),
        limits=Limits({"j": (-1.0, 1.0)}, {"j": 1.0}, boundary_jump=0.1), rollback=Rollback())
    return verify(replace(contract, refresh=_refresh(contract, spec, rules)), spec)


_TIMED = {
    "now": Input("now", Channel("now", "sensor_msgs/msg/JointState"), select=("position.j",)),
    **{n: Input(n, Channel(n, "sensor_msgs/msg/Image"), image=Image((2, 2))) for n in ("camera0", "camera1")},
}


def _refresh(contract: Contract, spec: PolicySpec, rules: dict) -> tuple[Refresh, ...]:
    """The rules with the max_age_ms that verify asks for: the worst case, plus the slack drawn (None: if needed)."""
    stages: list[Stage] = []
    for stage in spec.stages:
        every, on_change, commit_after, slack_ns = rules[stage.name]
        candidate = Stage(stage.name, stage.reads, stage.writes, every, on_change, None, commit_after)
        pipeline = Pipeline(contract, spec, (*stages, candidate))
        ages, timed = worst_ages(pipeline), timed_reads(pipeline, candidate)
        holds = [hold(candidate, b) for b in timed]
        max_age = None
        if timed and (slack_ns is not None or any(h != 0 for h in holds)):
            max_age = (slack_ns or 0) + max(
                ages[b] + ((commit_after or 0) if h is None else h) * PERIOD_NS for b, h in zip(timed, holds))
        stages.append(replace(candidate, max_age_ns=max_age))
    return tuple(
        Refresh(s.name, s.every, s.on_change, None if s.max_age_ns is None else s.max_age_ns / 1e6, s.commit_after)
        for s in stages)
