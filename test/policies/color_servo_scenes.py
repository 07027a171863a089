"""Runs color_servo's stages on the built-in world. Whole episodes: bench.closed_loop with the shipped contract."""

from pathlib import Path

import numpy as np
import torch

from flashrt_ros.contract.schema import PolicyChoice
from flashrt_ros.engine.buffers import TORCH_DTYPE
from flashrt_ros.policies.color_servo import ColorServo
from flashrt_ros.sim.world import World

CHOICE = PolicyChoice("color_servo")
CONTRACT = Path(__file__).resolve().parents[2] / "config" / "color_servo.contract.yaml"
BLACK = np.zeros((96, 96, 3), np.uint8)


def inputs(
    policy: ColorServo, scene: np.ndarray, wrist: np.ndarray, joints: np.ndarray, text: str
) -> dict[str, np.ndarray]:
    task = policy.encode_text(text)
    return {"scene": scene.copy(), "wrist": wrist.copy(), "joints": joints.astype(np.float32), "task": task}


def seen(policy: ColorServo, world: World, text: str) -> dict[str, np.ndarray]:
    """The policy's inputs as the world shows itself now."""
    return inputs(policy, world.render("scene"), world.render("wrist"), world.joints()[0], text)


def decide(policy: ColorServo, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run the three stages once; every buffer by name. The given arrays are read in place."""
    buffers = {b.name: torch.zeros(b.shape, dtype=TORCH_DTYPE[b.dtype]) for b in policy.spec.buffers}
    buffers |= {name: torch.from_numpy(value) for name, value in given.items()}
    for stage in policy.spec.stages:
        policy.run(stage.name, {n: buffers[n] for n in stage.reads}, {n: buffers[n] for n in stage.writes})
    return {name: tensor.numpy() for name, tensor in buffers.items()}
