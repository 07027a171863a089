"""A training record says what is so: pictures, the expert's chunk, and where things really are."""

import numpy as np
import pytest

from flashrt_ros.policies.instruction import KINDS
from flashrt_ros.policies.pick_servo import chunk
from flashrt_ros.policies.tabletop_arm import CAMERAS, forward, tool_yaw
from flashrt_ros.policies.tabletop_cell import BIN_HEIGHT, COLOURS, CUBE, TABLE_Z
from flashrt_ros.policies.tabletop_vla_words import encode
from flashrt_ros.sim import expert
from flashrt_ros.sim.episode import Episode
from flashrt_ros.sim.robot import MS, Robot
from flashrt_ros.train.record import NEAR_M, RECORD, fill

CHANNELS = {"red": [0], "green": [1], "blue": [2], "yellow": [0, 1]}  # that are bright in a colour


@pytest.fixture(scope="module")
def robot():
    robot = Robot()
    yield robot
    robot.close()


def record(episode: Episode, garbage: int = 0) -> np.ndarray:
    row = np.full(RECORD.itemsize, garbage, np.uint8).view(RECORD)[0]
    fill(row, episode, encode(episode.instruction.text))
    return row


def in_the_hand(robot: Robot) -> Episode:
    """An episode at a decision at which the named cube is off the table."""
    episode = Episode(robot, "pick", 3)
    while robot.world.objects().cubes[episode.instruction.colour].position[2] < TABLE_Z + 1.5 * CUBE:
        episode.act(expert.decide(robot.world))
    return episode


def test_all_is_written(robot):
    """The row lies in shared memory, and holds the last decision's."""
    for episode in (Episode(robot, "place", 3), in_the_hand(robot)):
        low, high = record(episode, 0), record(episode, 0x55)
        for name in RECORD.names:
            if name not in ("first", "every", "ended", "policy_drove"):  # the world's own
                assert np.array_equal(low[name], high[name]), name


def test_it_holds_what_the_policy_sees_and_is_told(robot):
    episode = Episode(robot, "belt", 4, frame_lead_ns=36 * MS)
    episode.act(expert.decide(robot.world), 20 * MS)
    row = record(episode)
    assert np.array_equal(row["frames"], np.stack([episode.frames[camera] for camera in ("scene", "wrist")]))
    assert np.array_equal(row["joints"], episode.joints.astype(np.float32))
    assert np.array_equal(row["words"], encode(episode.instruction.text))
    assert row["frame_age"] == pytest.approx(0.036)


@pytest.mark.parametrize("kind", KINDS)
def test_the_label_is_the_experts_chunk_without_velocities(robot, kind):
    """What the arm's motion adds to the expert's chunk no single picture shows: it would be noise in the label."""
    episode, world = Episode(robot, kind, 5), robot.world

    def wanted() -> np.ndarray:
        belief = expert.privileged_belief(world.instruction, world.objects())
        return chunk(belief, episode.joints, 32, 0.02, None).astype(np.float32)

    assert np.array_equal(record(episode)["label"], wanted())
    assert np.abs(wanted() - expert.decide(world)).max() > 0.01  # which starts from rest
    for _ in range(6):
        episode.act(expert.decide(world))
    assert np.array_equal(record(episode)["label"], wanted())


@pytest.mark.parametrize("kind, seed", [("place", 3), ("belt", 8)])
def test_points_are_where_the_cameras_see_things(robot, kind, seed):
    """By the cameras' geometry, and by the colour of the picture there: a wrong order of cameras or colours would teach
    the stem nonsense without a sound."""
    episode = Episode(robot, kind, seed)
    row, objects = record(episode), robot.world.objects()
    for i, (name, camera) in enumerate(CAMERAS.items()):
        for j, (kind_of, colour) in enumerate([(k, c) for k in ("cubes", "bins") for c in COLOURS]):
            position = getattr(objects, kind_of)[colour].position + (0, 0, 0.012 if kind_of == "bins" else 0)
            u, v = camera.project(position, (96, 96), episode.joints)
            within = bool(0 < u < 96 and 0 < v < 96)
            assert row["points"][i, j, 2] == within
            np.testing.assert_allclose(row["points"][i, j, :2], (u / 96, v / 96) if within else 0, atol=1e-6)
            if name == "scene" and kind_of == "cubes" and within:
                pixel = row["frames"][0, int(v), int(u)].astype(int)
                dark = [c for c in range(3) if c not in CHANNELS[colour]]
                assert pixel[CHANNELS[colour]].min() > 1.3 * pixel[dark].max(), f"{colour}: {pixel}"
    assert row["points"][0, :4, 2].sum() >= 3 and row["points"][0, 4:, 2].all() and 0.012 < BIN_HEIGHT


def test_geometry_leads_from_the_tool_to_the_named_cube_and_bin(robot):
    episode = Episode(robot, "place", 3)
    row, objects = record(episode), robot.world.objects()
    cube, bin_ = objects.cubes[episode.instruction.colour], objects.bins[episode.instruction.bin]
    tool = forward(episode.joints)
    np.testing.assert_allclose(tool[:3, 3] + NEAR_M * row["geometry"][:3], cube.position, atol=1e-6)
    np.testing.assert_allclose(tool[:3, 3] + NEAR_M * row["geometry"][5:], bin_.position, atol=1e-6)
    turned = np.arctan2(row["geometry"][4], row["geometry"][3]) / 4  # a cube looks alike from four sides
    assert np.sin(2 * (turned + tool_yaw(tool) - cube.yaw)) ** 2 == pytest.approx(0, abs=1e-9)
    assert row["geometry_known"].tolist() == [1] * 8


def test_geometry_that_is_not_there_is_not_taught(robot):
    """A pick has no bin; and the yaw of a cube in the hand is the hand's."""
    assert record(Episode(robot, "pick", 3))["geometry_known"].tolist() == [1] * 5 + [0] * 3
    row = record(in_the_hand(robot))
    assert row["geometry_known"].tolist() == [1] * 3 + [0] * 5 and np.abs(row["geometry"][:3]).max() * NEAR_M < 0.03
