"""How color_servo turns beliefs into chunks, and what it refuses."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import torch
from color_servo_scenes import BLACK, CHOICE, CONTRACT, decide, inputs, seen

from flashrt_ros import policies
from flashrt_ros.contract.load import load
from flashrt_ros.contract.verify import verify
from flashrt_ros.engine.engine import Engine
from flashrt_ros.policies import PolicyChoiceError, color_servo, color_tokens, pick_servo, tabletop_arm
from flashrt_ros.policies.base import TaskError
from flashrt_ros.policies.color_tokens import WRIST_HAND
from flashrt_ros.policies.pick_servo import SQUEEZE
from flashrt_ros.policies.tabletop_arm import HOME, forward, inverse
from flashrt_ros.policies.tabletop_cell import CUBE
from flashrt_ros.sim.world import World


@pytest.fixture(scope="module")
def policy():
    return policies.load(CHOICE)


@pytest.fixture(scope="module")
def scene():
    """A world as seed 4 lays it out."""
    world = World((96, 96))
    world.reset("place", 4)
    yield world
    world.close()


def test_without_a_target_the_arm_stays(policy):
    """No image, no motion."""
    chunk = decide(policy, inputs(policy, BLACK, BLACK, HOME, "pick up the red cube"))["chunk"]
    assert np.array_equal(chunk, np.tile(HOME.astype(np.float32), (32, 1)))


def test_without_an_instruction_the_arm_stays(policy, scene):
    """The task buffer is zero until the first message, however much there is to see."""
    chunk = decide(policy, seen(policy, scene, ""))["chunk"]
    assert np.array_equal(chunk, np.tile(scene.joints()[0].astype(np.float32), (32, 1)))


def test_without_its_bin_a_cube_is_not_fetched(policy, scene):
    """Carrying a cube to nowhere in particular is worse than not starting."""
    given = seen(policy, scene, "put the red cube in the blue bin")
    given["scene"][66:] = 0  # where the bins are
    assert not decide(policy, given)["belief"][8]
    assert np.ptp(decide(policy, given)["chunk"], axis=0).max() == 0


def test_an_unseen_cube_is_looked_for_from_home(policy, scene):
    """Close to the table the arm can hide the cube from both cameras, and would then wait for ever."""
    given = seen(policy, scene, "pick up the red cube")
    for image in (given["scene"][:66], given["wrist"]):
        image[:] = 128  # grey, but for the bins
    low = np.append(inverse((0.30, 0.10, 0.03), 0.0, HOME), tabletop_arm.MAX_OPENING)
    chunk = decide(policy, given | {"joints": low.astype(np.float32)})["chunk"].astype(float)
    assert forward(chunk[-1])[2, 3] > 0.10
    held = decide(policy, given | {"joints": np.append(low[:6], CUBE).astype(np.float32)})["chunk"]
    assert np.allclose(held[:, 6], SQUEEZE)  # but what may be a cube is not let go


def test_fingers_that_may_hold_a_cube_keep_squeezing_it_in_the_dark(policy):
    """To command the measured opening would let go of the cube when a camera drops out."""
    joints = np.append(HOME[:6], CUBE)
    chunk = decide(policy, inputs(policy, BLACK, BLACK, joints, "pick up the red cube"))["chunk"]
    assert np.allclose(chunk[:, 6], SQUEEZE) and np.ptp(chunk[:, :6], axis=0).max() == 0


@pytest.mark.parametrize("colour", ["red", "green", "blue", "yellow"])
def test_the_arm_goes_for_the_cube_that_is_named(policy, scene, colour):
    """Only the text differs between these four runs, so it is the text that steers."""
    chunk = decide(policy, seen(policy, scene, f"pick up the {colour} cube"))["chunk"].astype(float)
    start, end = forward(chunk[0])[:2, 3], forward(chunk[-1])[:2, 3]
    gained = {c: np.linalg.norm(b.position[:2] - start) - np.linalg.norm(b.position[:2] - end)
              for c, b in scene.objects().cubes.items()}
    assert max(gained, key=gained.get) == colour


def test_a_cube_in_the_hand_moves_with_the_hand(policy):
    """The belief may be three decisions old when the arm lifts. If it left the cube behind on the table, the servo
    would let go of it."""
    belief = np.zeros(12)
    belief[[0, 1, 7]] = 1.0  # pick, located, in hand
    belief[2:5] = 0.27, 0.05, CUBE / 2
    lifted, carried = (np.append(inverse((x, 0.05, 0.16), 0.0, HOME), CUBE) for x in (0.27, 0.52))
    for joints in (lifted, carried):
        held = color_servo.act(belief, joints)
        assert (held[:, 6] == SQUEEZE).all() and forward(held[-1])[2, 3] > 0.16
    belief[7] = 0.0
    assert color_servo.act(belief, lifted)[-1, 6] > CUBE  # not in the hand: the fingers open for the approach


def test_a_leaning_tool_is_righted_gently(policy, scene):
    """A moving arm's joints trail their commands, so the tool leans. To right it at once in every chunk makes the arm
    swing: without this the policy loses most cubes on the way to their bins."""
    given = seen(policy, scene, "pick up the red cube")
    leaning = scene.joints()[0] + (0, 0, 0, 0, 0.15, 0, 0)
    upright = decide(policy, given)["chunk"]
    righted = decide(policy, given | {"joints": leaning.astype(np.float32)})["chunk"]
    assert np.allclose(righted[0], leaning, atol=1e-6)
    assert np.abs(np.diff(righted[:, 4])).max() < np.abs(np.diff(upright[:, 4])).max() + 0.015
    assert np.allclose(forward(righted[-1].astype(float))[:3, 0], (0, 0, -1), atol=0.01)


def test_in_hand_is_seen_at_the_grasp_and_not_above_it(policy):
    """The wrist camera, not the finger opening, tells a held cube from fingers that pass its width in the air."""
    world = World((96, 96))
    colour = world.reset("pick", 2).colour
    cube = world.objects().cubes[colour]
    yaw = (cube.yaw + np.pi / 4) % (np.pi / 2) - np.pi / 4
    flags = []
    for height in (0.06, 0.0):
        target = np.append(inverse(cube.position + (0, 0, height), yaw, HOME), tabletop_arm.MAX_OPENING)
        start = world.joints()[0]
        for step in range(1, 201):
            world.step(start + (target - start) * step / 200)
        out = decide(policy, seen(policy, world, world.instruction.text))
        assert out["vision_tokens"][WRIST_HAND : WRIST_HAND + 4, 0].any()
        flags.append(bool(out["belief"][7]))
    world.close()
    assert flags == [False, True]


def test_the_same_inputs_give_the_same_bytes_and_are_left_alone(policy, scene):
    """Capsules replay a decision bit for bit; a stage that writes what it reads would break every other stage."""
    given = seen(policy, scene, "put the green cube in the red bin")
    before = {name: value.copy() for name, value in given.items()}
    first, second = decide(policy, given), decide(policies.load(CHOICE), given)
    for name in first:
        assert first[name].tobytes() == second[name].tobytes(), name
    for name in before:
        assert np.array_equal(given[name], before[name]), name


def test_outputs_do_not_depend_on_what_the_buffers_held(policy, scene):
    """After a rollback a stage writes over whatever is there."""
    given = {n: torch.from_numpy(v) for n, v in seen(policy, scene, "pick up the blue cube").items()}
    clean, dirty = torch.zeros(16, 8), torch.full((16, 8), torch.nan)
    for out in (clean, dirty):
        policy.run("vision", given, {"vision_tokens": out})
    assert torch.equal(clean, dirty)


def test_instructions_are_encoded_or_refused(policy):
    """A text that the policy can't follow must be refused where it is given, not when the arm should move."""
    task = policy.encode_text("  put the red cube in the blue bin ")
    assert task.shape == (64,) and task.dtype == np.uint8
    assert task.tobytes().rstrip(b"\0") == b"put the red cube in the blue bin"
    assert not policy.encode_text("").any()
    with pytest.raises(TaskError, match="make me a sandwich.*pick up the {colour} cube"):
        policy.encode_text("make me a sandwich")
    with pytest.raises(TaskError, match="purple"):
        policy.encode_text("pick up the purple cube")
    with pytest.raises(TaskError, match="bytes, of 64"):
        policy.encode_text("pick up the" + 60 * " " + "red cube")


@pytest.mark.parametrize("module, name, value", [
    (color_tokens, "TOP_FACE", 0.8), (color_servo, "IN_BIN", 16), (pick_servo, "GAIN", 7.5),
    (tabletop_arm, "HAND", 0.17),
])
def test_a_tuned_constant_changes_the_digest(policy, monkeypatch, module, name, value):
    """The digest stands for weights: a capsule of another tuning must be refused."""
    before = policy.weights_digest()
    assert before == policies.load(CHOICE).weights_digest()
    monkeypatch.setattr(module, name, value)
    assert policy.weights_digest() != before


def test_the_shipped_contract_fits_the_policy():
    """It is what `make demo` runs: it must verify, and warm-up must get through all stages on empty inputs."""
    contract = load(CONTRACT)
    pipeline = verify(contract, policies.spec(contract.policy))
    assert pipeline.warnings == ()
    engine = Engine(pipeline, policies.load(contract.policy))
    assert set(engine.warm_up()) == {"vision", "fuse", "action"}
    engine.close()


@pytest.mark.parametrize("change, message", [
    ({"type": "colour_servo"}, "'colour_servo'; allowed are .*did you mean 'color_servo'"),
    ({"checkpoint": "weights.safetensors"}, "'weights.safetensors'.*no weights.*'builtin'"),
    ({"precision": "fp16"}, "'fp16'.*'fp32'"),
])
def test_a_policy_that_does_not_exist_is_refused(change, message):
    """The message names what was asked for and what there is."""
    choice = dataclasses.replace(CHOICE, **change)
    for ask in (policies.spec, policies.load):
        with pytest.raises(PolicyChoiceError, match=message):
            ask(choice)


def test_the_declaration_is_had_without_torch():
    """`flashrt plan` needs nothing else, and importing torch takes a second."""
    code = ("import sys; from flashrt_ros import policies; from flashrt_ros.contract.schema import PolicyChoice; "
            "print(policies.spec(PolicyChoice('color_servo')).type, 'torch' in sys.modules)")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["color_servo", "False"]
