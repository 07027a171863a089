"""A recording without a bag: cameras, joints and instructions as messages, drawn from a seed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.replay.redecide import Message

MS = 1_000_000
TASK = "pick up the red cube"


def joint_state(positions) -> SimpleNamespace:
    return SimpleNamespace(name=list(JOINTS), position=list(positions), velocity=[], effort=[])


def picture(pixels: np.ndarray) -> SimpleNamespace:
    height, width, _ = pixels.shape
    return SimpleNamespace(encoding="rgb8", height=height, width=width, step=3 * width, is_bigendian=0, data=pixels.tobytes())


def recording(seconds: float, seed: int = 0, task: str = TASK, start_ns: int = 10**18) -> list[Message]:
    """Both cameras at 20 Hz, joints at 100 Hz that swing slowly, the instruction first; received 3 ms after their stamps."""
    draw = np.random.default_rng(seed)
    messages = [Message("task", start_ns, None, SimpleNamespace(data=task))]
    for at_ms in range(0, round(seconds * 1000), 10):
        stamp_ns = start_ns + at_ms * MS
        swing = 0.2 * np.sin(at_ms * 1e-3 * (1 + np.arange(7) / 10))
        swing[6] = 0.04
        messages.append(Message("joint_states", stamp_ns + 3 * MS, stamp_ns, joint_state(swing)))
        if at_ms % 50 == 0:
            for topic in ("scene_camera/image_raw", "wrist_camera/image_raw"):
                pixels = draw.integers(0, 256, (96, 96, 3), np.uint8)
                messages.append(Message(topic, stamp_ns + 3 * MS, stamp_ns, picture(pixels)))
    return messages
