"""A policy's own declaration is held to rules too: a graph that can't be ordered, or that moves data nowhere, would
fail at run time or hide a mistake."""

from dataclasses import replace
from itertools import permutations

import pytest

from contract_cases import TEXT, assert_says, line_of, refused
from contract_specs import JOINTS, SERVO
from flashrt_ros.contract.load import loads
from flashrt_ros.contract.spec import BufferSpec, PolicySpec, StageSpec
from flashrt_ros.contract.verify import verify

EXTRA = BufferSpec("extra", (4,), "float32", "derived")
MEMORY = BufferSpec("memory", (4,), "float32", "state")
AGE = BufferSpec("age", (1,), "float32", "input", timeless=True)
REMEMBER = {"reads": ("vision_tokens", "task", "memory"), "writes": ("belief", "memory")}


def servo(*buffers: BufferSpec, idle: StageSpec | None = None, **changes: dict) -> PolicySpec:
    """The servo with these buffers added (or put in place of those of the same name), fields of its stages changed, and
    perhaps an idle stage more."""
    names = {b.name for b in buffers}
    return replace(
        SERVO, buffers=(*(b for b in SERVO.buffers if b.name not in names), *buffers),
        stages=(*(replace(s, **changes.get(s.name, {})) for s in SERVO.stages), *([idle] if idle else [])))


def aged(*buffers: BufferSpec, ages: tuple = (("age", "belief"),), **changes: dict) -> PolicySpec:
    """The servo whose action reads AGE too."""
    changes.setdefault("action", {"reads": ("belief", "joints", "age")})
    return replace(servo(*{b.name: b for b in (AGE, *buffers)}.values(), **changes), ages=ages)


RULES = {
    "buffer declared twice": (
        replace(SERVO, buffers=(*SERVO.buffers, SERVO.buffers[0])), "buffer 'scene' is declared twice"),
    "stage declared twice": (
        servo(idle=SERVO.stages[1]), "stage 'fuse' is declared twice"),
    "joint declared twice": (
        replace(SERVO, joints=(*JOINTS[:-1], "elbow")), "joint 'elbow' is declared twice"),
    "action that is no stage": (
        replace(SERVO, action="act"), "the action stage 'act' is not a stage ... did you mean 'action'?"),
    "undeclared buffer": (
        servo(fuse={"reads": ("tokens", "task")}), "stage 'fuse' names the buffer 'tokens', which is not declared"),
    "stage that writes nothing": (
        servo(idle=StageSpec("idle", ("scene",), ())), "stage 'idle' writes nothing"),
    "stage that reads nothing": (
        servo(EXTRA, idle=StageSpec("idle", (), ("extra",))), "stage 'idle' reads nothing but its own state"),
    "written input": (
        servo(fuse={"writes": ("belief", "joints")}), "stage 'fuse' writes the input 'joints'"),
    "two writers": (
        servo(fuse={"writes": ("belief", "vision_tokens")}),
        "buffer 'vision_tokens' has two writers, 'vision' and 'fuse'"),
    "read that nothing writes": (
        servo(EXTRA, action={"reads": ("belief", "joints", "extra")}),
        "stage 'action' reads 'extra', but nothing writes it"),
    "buffer left over": (
        servo(EXTRA), "buffer 'extra' is declared, but nothing writes it"),
    "written but never read": (
        servo(EXTRA, fuse={"writes": ("belief", "extra")}), "nothing reads the derived buffer 'extra'"),
    "input that nothing reads": (
        servo(vision={"reads": ("scene",)}), "nothing reads the input buffer 'wrist'"),
    "output that nothing takes": (
        servo(replace(EXTRA, kind="output"), fuse={"writes": ("belief", "extra")}),
        "the output buffer 'extra' is not the chunk"),
    "cycle": (
        servo(EXTRA, vision={"reads": ("scene", "wrist", "extra")}, fuse={"writes": ("belief", "extra")}),
        "cycle: vision -> fuse -> vision ... state buffer"),
    "cycle of one": (
        servo(fuse={"reads": ("vision_tokens", "task", "belief")}),
        "cycle: stage 'fuse' reads and writes the derived buffer 'belief' ... make it a state buffer"),
    "state of two stages": (
        servo(MEMORY, fuse=REMEMBER, action={"reads": ("belief", "joints", "memory")}),
        "the state buffer 'memory' is written by 'fuse' and touched by 'fuse', 'action'"),
    "state that its writer doesn't read": (
        servo(MEMORY, fuse={"writes": ("belief", "memory")}, action={"reads": ("belief", "joints", "memory")}),
        "the state buffer 'memory' is written by 'fuse' ... exactly one stage"),
    "stage that leads nowhere": (
        servo(MEMORY, idle=StageSpec("idle", ("scene", "memory"), ("memory",))),
        "stage 'idle' leads to nothing that the action 'action' reads"),
    "chunk that isn't the output": (
        replace(SERVO, chunk="belief"), "the output buffer 'chunk' is not the chunk"),
    "chunk that isn't there": (
        replace(servo(replace(MEMORY, name="chunk"), action={"reads": ("belief", "joints", "chunk")}), chunk="plan"),
        "the chunk 'plan' is not an output buffer that 'action' writes"),
    "chunk of another width": (
        servo(BufferSpec("chunk", (32, 6), "float32", "output")),
        "the chunk 'chunk' is float32 [32, 6] ... float32 [steps, 7]"),
    "noise that ages": (
        replace(SERVO, noise="joints"), "the noise 'joints' is not a timeless input"),
    "age that is no buffer": (
        replace(SERVO, ages=(("agee", "belief"),)), "the age 'agee' is not declared; declared: scene, wrist"),
    "age of another shape": (
        aged(replace(AGE, shape=(2,))), "the age 'age' is declared as timeless input, float32 [2] ... float32 [1]"),
    "age of another dtype": (
        aged(replace(AGE, dtype="float16")), "the age 'age' is declared as timeless input, float16 [1] ... float32 [1]"),
    "age that ages": (
        aged(replace(AGE, timeless=False)), "the age 'age' is declared as input, float32 [1]; an age is a timeless input"),
    "age that is computed": (
        replace(SERVO, ages=(("belief", "joints"),)), "the age 'belief' is declared as derived, float32 [16]"),
    "age that another stage reads": (
        aged(fuse={"reads": ("vision_tokens", "task", "age")}),
        "stage 'fuse' reads the age 'age'; only the action 'action' reads ages"),
    "age of nothing": (
        aged(ages=(("age", "beleif"),)),
        "the source 'beleif' of the age 'age' is not declared ... did you mean 'belief'?"),
    "age of a text": (
        aged(ages=(("age", "task"),)),
        "the source 'task' of the age 'age' has no stamp before the action; one of scene, wrist, joints, vision_tokens, "
        "belief"),
    "age of an age": (
        aged(ages=(("age", "age"),)), "the source 'age' of the age 'age' has no stamp before the action"),
    "age of what is computed from text alone": (
        aged(EXTRA, ages=(("age", "extra"),), idle=StageSpec("hear", ("task",), ("extra",)),
             action={"reads": ("belief", "joints", "age", "extra")}),
        "the source 'extra' of the age 'age' has no stamp before the action"),
    "age of what the action writes": (  # it has none at the first decision
        aged(MEMORY, ages=(("age", "memory"),),
             action={"reads": ("belief", "joints", "age", "memory"), "writes": ("chunk", "memory")}),
        "the source 'memory' of the age 'age' has no stamp before the action"),
    "age of two sources": (
        aged(ages=(("age", "belief"), ("age", "joints"))), "the age 'age' is declared twice"),
    "age that is the noise": (
        replace(aged(), noise="age"), "the age 'age' is the noise too"),
}


@pytest.mark.parametrize(("spec", "words"), RULES.values(), ids=RULES)
def test_stage_graph_that_can_not_run_is_refused(spec, words):
    """Each rule broken once; the error points at the line that chose the policy."""
    error = refused(TEXT, spec)
    assert error.key == "policy.type" and error.line == line_of(TEXT, "type: color_servo")
    assert_says(error, words)


def test_ages_of_all_that_is_stamped_before_the_action_are_accepted():
    """An input, what a stage computes from one, another stage's state; and two ages of one source."""
    sources = ("scene", "vision_tokens", "belief", "memory", "memory")
    names = [f"age{i}" for i in range(len(sources))]
    spec = servo(MEMORY, *(replace(AGE, name=n) for n in names), fuse=REMEMBER,
                 action={"reads": ("belief", "joints", *names)})
    assert verify(loads(TEXT), replace(spec, ages=tuple(zip(names, sources))))


def test_stages_run_in_topological_order_whatever_their_declaration():
    """The engine runs them in this order, so a stage must come after all that it reads."""
    for stages in permutations(servo(MEMORY, fuse=REMEMBER).stages):
        pipeline = verify(loads(TEXT), replace(servo(MEMORY, fuse=REMEMBER), stages=stages))
        assert [s.name for s in pipeline.stages] == ["vision", "fuse", "action"]
