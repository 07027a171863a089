"""One training record: what the cameras and joints showed at a decision, what the expert would do there, and where things
really were. numpy only."""

from __future__ import annotations

import numpy as np

from flashrt_ros.policies.instruction import Instruction
from flashrt_ros.policies.pick_servo import chunk
from flashrt_ros.policies.tabletop_arm import CAMERAS, JOINTS, forward, tool_yaw
from flashrt_ros.policies.tabletop_cell import COLOURS, CUBE, TABLE_Z
from flashrt_ros.policies.tabletop_vla_spec import HORIZON, IMAGE, STEP_S
from flashrt_ros.policies.tabletop_vla_words import TEXT
from flashrt_ros.sim import expert
from flashrt_ros.sim.episode import PERIOD_NS, Episode

PERIOD_S = PERIOD_NS * 1e-9  # between decisions
NEAR_M = 0.1  # one unit of the geometry targets

# points: per camera, cubes then bins in the order of COLOURS: u, v as shares of the image, and 1 if within it.
# geometry: the named cube from the tool (x, y, z in NEAR_M), cos and sin of four times its yaw, the named bin from the
# tool; geometry_known: 1 where there is such a thing.
RECORD = np.dtype([
    ("frames", np.uint8, (2, IMAGE, IMAGE, 3)),
    ("joints", np.float32, (len(JOINTS),)),
    ("label", np.float32, (HORIZON, len(JOINTS))),
    ("words", np.int32, (TEXT,)),
    ("points", np.float32, (2, 2 * len(COLOURS), 3)),
    ("geometry", np.float32, (8,)),
    ("geometry_known", np.float32, (8,)),
    ("frame_age", np.float32),  # s
    ("first", np.int32),  # 1 at an episode's first decision
    ("every", np.int32),  # decisions between vision refreshes in this episode, when the policy drives
    ("ended", np.int32),  # of the episode before, at `first`: 0 none, else 1 + kind, negative where it failed
    ("policy_drove", np.int32),  # likewise: 1 if the policy drove it
])


def fill(row: np.void, episode: Episode, words: np.ndarray) -> None:
    """Write all fields that follow from the episode's present decision."""
    row["frames"][:] = [episode.frames[camera] for camera in CAMERAS]
    row["joints"] = episode.joints
    row["label"] = label(episode)
    row["words"] = words
    row["frame_age"] = (episode.now_ns - episode.frames_ns) * 1e-9
    _fill_truth(row, episode)


def label(episode: Episode) -> np.ndarray:
    """The expert's chunk [32, 7] here and now, a function of what a camera and the joints can show (so: no velocities)."""
    world = episode.robot.world
    belief = expert.privileged_belief(world.instruction, world.objects())
    return chunk(belief, episode.joints, HORIZON, STEP_S, None)


def _fill_truth(row: np.void, episode: Episode) -> None:
    world, q = episode.robot.world, episode.joints
    objects = world.objects()
    cubes = np.array([objects.cubes[c].position for c in COLOURS])
    bins = np.array([objects.bins[c].position for c in COLOURS]) + (0, 0, 0.012)
    for i, camera in enumerate(CAMERAS.values()):
        uv = camera.project(np.concatenate([cubes, bins]), (IMAGE, IMAGE), q) / IMAGE
        seen = np.isfinite(uv).all(-1) & (uv > 0).all(-1) & (uv < 1).all(-1)
        row["points"][i, :, :2] = np.where(seen[:, None], uv, 0)
        row["points"][i, :, 2] = seen
    row["geometry"], row["geometry_known"] = _geometry(world.instruction, objects, forward(q))


def _geometry(instruction: Instruction, objects, tool: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    cube = objects.cubes[instruction.colour]
    yaw = 4 * (cube.yaw - tool_yaw(tool))
    place = instruction.bin is not None
    bin_ = (objects.bins[instruction.bin].position - tool[:3, 3]) / NEAR_M if place else np.zeros(3)
    lying = float(cube.position[2] < TABLE_Z + CUBE)
    values = np.concatenate([(cube.position - tool[:3, 3]) / NEAR_M, [np.cos(yaw), np.sin(yaw)], bin_])
    return values, np.array([1, 1, 1, lying, lying, place, place, place])
