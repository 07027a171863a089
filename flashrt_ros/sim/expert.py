"""The scripted expert: the servo fed with privileged poses, for demonstrations and as the upper bound. Imports no torch
and no ROS."""

from __future__ import annotations

import numpy as np

from flashrt_ros.policies.instruction import Instruction
from flashrt_ros.policies.pick_servo import Belief, chunk
from flashrt_ros.policies.tabletop_cell import BELT_WIDTH, BELT_X, BELT_Z, TABLE_Z
from flashrt_ros.sim.world import Objects, World


def privileged_belief(instruction: Instruction, objects: Objects) -> Belief:
    """The belief that perfect perception would give."""
    cube = objects.cubes[instruction.colour]
    on_belt = abs(cube.position[0] - BELT_X) < BELT_WIDTH / 2
    return Belief(
        kind=instruction.kind,
        cube=cube.position,
        yaw=cube.yaw,
        velocity=np.array([0.0, objects.belt_velocity if on_belt else 0.0, 0.0]),
        bin=objects.bins[instruction.bin].position if instruction.bin else None,
        surface_z=BELT_Z if on_belt else TABLE_Z,
    )


def decide(world: World, horizon: int = 32, step_s: float = 0.02) -> np.ndarray:
    """The expert's chunk for the world's present task, float64 [horizon, 7]; row i is for i * step_s from now."""
    position, velocity = world.joints()
    return chunk(privileged_belief(world.instruction, world.objects()), position, horizon, step_s, velocity)
