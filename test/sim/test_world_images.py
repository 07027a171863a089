"""What the cameras see: the right size, the right colours in the right places, different scenes for different seeds."""

import numpy as np
import pytest

from flashrt_ros.policies.tabletop_arm import CAMERAS, HOME, inverse
from flashrt_ros.policies.tabletop_cell import BELT_WIDTH, BELT_X, COLOURS, CUBE
from flashrt_ros.sim.mjcf import RGB
from flashrt_ros.sim.world import MAX_SIZE, World, WorldError


@pytest.fixture(scope="module")
def world():
    world = World()
    yield world
    world.close()


def colour_at(image, pixel):
    """The cube colour that the pixel [2] is most like in direction, or None where it has hardly any colour."""
    rgb = image[int(pixel[1]), int(pixel[0])].astype(float)
    if rgb.max() - rgb.min() < 0.4 * rgb.max():
        return None
    return max(COLOURS, key=lambda c: np.dot(rgb, RGB[c]) / np.linalg.norm(RGB[c]))


@pytest.mark.parametrize("kind, seed", [("pick", 0), ("place", 1), ("belt", 2), ("belt", 3), ("pick", 4)])
def test_the_scene_camera_sees_every_cube_where_it_is(world, kind, seed):
    """Nominal camera and privileged pose meet at a pixel of the right colour, despite light and jitter."""
    world.reset(kind, seed)
    image = world.render("scene")
    assert image.shape == (96, 96, 3) and image.dtype == np.uint8
    for colour, cube in world.objects().cubes.items():
        front = cube.position + (0.015, 0, CUBE / 2)  # towards the camera, on the top face
        pixel = CAMERAS["scene"].project(front, world.size, HOME)
        if np.all((pixel >= 0) & (pixel < 96)):  # a bystander far up the belt may lie outside
            assert colour_at(image, pixel) == colour
        else:
            assert colour in world.layout.on_belt and colour != world.instruction.colour


def rail_level(world):
    """Median grey level of the scene image where the belt's rails are, 8 mm outside the belt."""
    image, levels = world.render("scene"), []
    for x in (BELT_X - BELT_WIDTH / 2 - 0.008, BELT_X + BELT_WIDTH / 2 + 0.008):
        for y in np.linspace(-0.3, 0.3, 41):
            pixel = CAMERAS["scene"].project(np.array([x, y, 0.012]), world.size, HOME)
            if np.all((pixel >= 0) & (pixel < 96)):
                levels.append(image[int(pixel[1]), int(pixel[0])].mean())
    return np.median(levels)


@pytest.mark.parametrize("seed", range(8))
def test_one_image_tells_whether_the_belt_runs(world, seed):
    """Its rails are lit while it runs: a policy without memory, that sees no motion, can know. One threshold tells in every
    light; in the same light running is at least 60 grey levels brighter."""
    world.reset("belt", seed)
    levels = {True: [], False: []}
    for tick in range(1000):
        if tick % 100 == 50:
            levels[world.objects().belt_velocity > 0].append(rail_level(world))
        world.step(HOME)
    assert min(levels[True]) > 110 > max(levels[False])
    assert min(levels[True]) - max(levels[False]) > 60


def test_the_light_changes_with_the_belt_and_nothing_else_does(world):
    """Before and after the very control update in which the belt stops: the rails go dark, the rest of the picture stays."""
    world.reset("belt", 3)
    while world.objects().belt_velocity:
        before = world.render("scene").astype(int)
        world.step(HOME)
    changed = np.abs(world.render("scene") - before).max(axis=2) > 30
    rows = np.flatnonzero(changed.sum(axis=1) > 20)
    assert 3 <= len(rows) <= 8 and changed[rows].sum() > 0.9 * changed.sum() > 200


def test_the_rails_of_a_belt_that_has_no_task_are_dark(world):
    """Whatever ran before: else light would mean less than motion."""
    world.reset("belt", 1)
    assert rail_level(world) > 110
    for kind in ("pick", "place"):
        world.reset(kind, 1)
        assert rail_level(world) < 110


@pytest.mark.parametrize("seed", range(4))
def test_the_wrist_camera_sees_the_cube_below_the_hand(world, seed):
    """From the approach on it looks at the named cube between the fingers: where the scene camera is blocked."""
    instruction = world.reset("pick", seed)
    cube = world.objects().cubes[instruction.colour]
    above = np.append(inverse(cube.position + (0, 0, 0.07), cube.yaw, HOME), HOME[6])
    for i in range(500):
        world.step(HOME + (above - HOME) * min(1.0, i / 400))
    pixel = CAMERAS["wrist"].project(cube.position + (0, 0, CUBE / 2), world.size, world.joints()[0])
    assert np.all((pixel > 10) & (pixel < 86))
    assert colour_at(world.render("wrist"), pixel) == instruction.colour


def test_jitter_moves_the_picture_by_little(world):
    """Cameras are mounted a little differently in each scene: present, but within what localisation can bear."""
    world.reset("pick", 0)
    layouts = []
    for seed in range(5):
        world.reset("pick", seed)
        layouts.append(world.layout)
    for name in CAMERAS:
        shifts = np.array([layout.shift[name] for layout in layouts])
        turns = np.array([layout.turn[name] for layout in layouts])
        assert 0 < np.abs(shifts).max() <= 0.003 and 0 < np.abs(turns).max() <= np.deg2rad(0.3)
    assert len({layout.lamp_level for layout in layouts}) == 5


@pytest.mark.parametrize("size", [(640, 480), (64, 48)])
def test_other_sizes_show_the_same_scene(size):
    """Width first; the geometry scales with the height, so cubes are where project says at every size."""
    world = World(size)
    world.reset("pick", 4)
    image = world.render("scene")
    assert image.shape == (size[1], size[0], 3)
    cube = world.objects().cubes["red"]
    pixel = CAMERAS["scene"].project(cube.position + (0.015, 0, CUBE / 2), size, HOME)
    assert colour_at(image, pixel) == "red"
    world.close()


@pytest.mark.parametrize("size", [(0, 96), (96, MAX_SIZE + 1)])
def test_an_impossible_size_is_refused(size):
    """With the sizes that are possible."""
    with pytest.raises(WorldError, match=f"{MAX_SIZE}"):
        World(size)


def test_an_unknown_camera_is_refused_by_name(world):
    """With the names there are."""
    with pytest.raises(WorldError, match="'ceiling'.*scene, wrist"):
        world.render("ceiling")
