"""What color_servo believes, held against where things really are."""

import numpy as np
import pytest
from color_servo_scenes import BLACK, CHOICE, decide, inputs, seen

from flashrt_ros import policies
from flashrt_ros.policies.color_tokens import SCENE_CUBE, WRIST_CUBE
from flashrt_ros.policies.tabletop_arm import HOME
from flashrt_ros.policies.tabletop_cell import COLOURS
from flashrt_ros.sim.world import World

OTHER = dict(zip(COLOURS, COLOURS[1:] + COLOURS[:1]))


@pytest.fixture(scope="module")
def policy():
    return policies.load(CHOICE)


@pytest.fixture(scope="module")
def world():
    world = World((96, 96))
    yield world
    world.close()


def yaw_error(believed: float, true: float) -> float:
    return abs((believed - true + np.pi / 4) % (np.pi / 2) - np.pi / 4)


def test_every_cube_and_bin_is_found_under_every_light_and_camera_error(policy, world):
    """The fingers leave 20 mm to each side of a cube; the wrist camera, where it sees a cube whole, must do far better,
    because it is what the last centimetres go by."""
    for seed in range(30):
        world.reset("place", seed)
        truth = world.objects()
        for colour in COLOURS:
            at = COLOURS.index(colour)
            out = decide(policy, seen(policy, world, f"put the {colour} cube in the {OTHER[colour]} bin"))
            kind, located, *cube, yaw, surface, in_hand, bin_located = out["belief"][:9]
            by_wrist = out["vision_tokens"][WRIST_CUBE + at, 7] > 0
            assert (kind, located, in_hand, bin_located, surface) == (2, 1, 0, 1, 0), (seed, colour)
            off = np.linalg.norm(cube - truth.cubes[colour].position)
            assert off < (0.005 if by_wrist else 0.008), (seed, colour, off)
            assert yaw_error(yaw, truth.cubes[colour].yaw) < np.deg2rad(6 if by_wrist else 20), (seed, colour)
            bin_off = np.linalg.norm(out["belief"][9:12] - truth.bins[OTHER[colour]].position)
            assert bin_off < 0.010, (seed, colour, bin_off)


def test_cubes_on_the_belt_are_found_at_its_height(policy, world):
    """A cube on the belt lies 10 mm higher; to take it for one on the table would press the fingers into the belt."""
    for seed in range(10):
        colour = world.reset("belt", seed).colour
        belief = decide(policy, seen(policy, world, world.instruction.text))["belief"]
        assert belief[6] == pytest.approx(0.010)
        assert np.linalg.norm(belief[2:5] - world.objects().cubes[colour].position) < 0.012, seed


def test_dim_light_and_sensor_noise_move_no_cube(policy, world):
    """Colours are told by shares of red, green and blue, so half the light is the same scene."""
    world.reset("pick", 3)
    text = "pick up the red cube"
    bright = seen(policy, world, text)
    noise = np.random.default_rng(0).integers(-3, 4, (2, 96, 96, 3))
    dim = {c: np.clip(bright[c] * 0.5 + noise[i], 0, 255).astype(np.uint8) for i, c in enumerate(("scene", "wrist"))}
    for colour in COLOURS:
        task = {"task": policy.encode_text(f"pick up the {colour} cube")}
        before, after = (decide(policy, given)["belief"] for given in (bright | task, bright | dim | task))
        assert np.abs(after[2:5] - before[2:5]).max() < 0.003, colour
        assert yaw_error(after[5], before[5]) < np.deg2rad(4), colour


def test_black_images_show_nothing(policy):
    """A camera that died must not leave a target behind."""
    out = decide(policy, inputs(policy, BLACK, BLACK, HOME, "put the red cube in the blue bin"))
    assert not out["vision_tokens"].any()
    assert not out["belief"][1:].any()


def test_the_two_cameras_agree_on_where_a_cube_is(policy, world):
    """Their errors are their mounts' jitter; more would mean that one of the two geometries is wrong."""
    world.reset("pick", 1)
    tokens = decide(policy, seen(policy, world, "pick up the red cube"))["vision_tokens"]
    both = tokens[WRIST_CUBE : WRIST_CUBE + 4, 7] > 0
    assert both.sum() >= 2
    apart = tokens[SCENE_CUBE : SCENE_CUBE + 4, 2:4][both] - tokens[WRIST_CUBE : WRIST_CUBE + 4, 2:4][both]
    assert np.abs(apart).max() < 0.012
