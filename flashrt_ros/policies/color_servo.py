"""color_servo: a classical, weightless policy in the three stages of a VLA. Imports no ROS.

  vision  both images and the joints -> tokens: where each colour is seen       (color_tokens.py)
  fuse    tokens and the instruction -> belief: where the named cube and bin are
  action  belief and the joints now  -> chunk: the servo's rollout               (pick_servo.py)

It is stateless. A cube that the fingers hold moves with the tool, so the belief says "in hand" and the action puts it
where the tool is now: that is what lets vision be older than the action. One image holds no velocity, so a cube on the
belt is chased, not led. fuse and action work on the host: on a GPU they synchronise.

Belief [12]: [0] kind, 1 + the index in KINDS, 0 without an instruction or where the scene camera is blind; [1] 1 if the
named cube was located, [2-4] its centre (m), [5] yaw (rad), [6] the height of what it lies on (m); [7] 1 if it is
between the fingers; [8] 1 if the named bin was located, [9-11] the centre of its foot (m).
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from hashlib import sha256
from typing import Mapping

import numpy as np
import torch

from flashrt_ros.contract.schema import PolicyChoice
from flashrt_ros.policies import color_servo_spec, color_tokens, pick_servo, tabletop_arm, tabletop_cell
from flashrt_ros.policies.base import Policy, TaskError
from flashrt_ros.policies.color_servo_spec import HORIZON, STEP_S, TEXT_BYTES
from flashrt_ros.policies.color_tokens import SCENE_CUBE, SCENE_SLOT, WRIST_CUBE, WRIST_HAND, ColorTokens
from flashrt_ros.policies.instruction import KINDS, Instruction, InstructionError, parse
from flashrt_ros.policies.pick_servo import HELD, SQUEEZE, Belief, chunk
from flashrt_ros.policies.tabletop_arm import LOWER, UPPER, forward
from flashrt_ros.policies.tabletop_cell import (
    BELT_WIDTH, BELT_X, BELT_Z, BIN_JITTER, BIN_X, BIN_Y, COLOURS, CUBE, TABLE_Z,
)

SEEN = 12  # pixels from which on a cube counts as seen in the scene; one in full view has 30 to 60
CLEAR = (26, 9)  # pixels, and of the top face, from which on it counts as unobstructed
WRIST_SEEN = 30  # pixels of the top face in the wrist image; from as high as the arm reaches there are 60
BIN_SEEN = 60  # pixels; a bin in full view has 200
IN_BIN = 15  # pixels of a cube's colour in another colour's bin; a neighbouring bin spills fewer
CAMERA_OFFSET = 0.012  # m: how far the scene camera may be off
# Between the fingers at grasp height: top face's pixels, mean u, mean v in the wrist image.
IN_HAND = ((430.0, 820.0), (42.0, 54.0), (67.0, 80.5))


class ColorServo(Policy):
    """device: where the engine's buffers are."""

    def __init__(self, choice: PolicyChoice, device: str = "cpu") -> None:
        self.spec = color_servo_spec.spec(choice)
        self._tokens = ColorTokens(torch.device(device))

    def run(self, stage: str, reads: Mapping[str, torch.Tensor], writes: Mapping[str, torch.Tensor]) -> None:
        if stage == "vision":
            writes["vision_tokens"].copy_(self._tokens(reads["scene"], reads["wrist"], reads["joints"]))
        elif stage == "fuse":
            _write(writes["belief"], fuse(_read(reads["vision_tokens"]), reads["task"].cpu().numpy().tobytes()))
        else:
            _write(writes["chunk"], act(_read(reads["belief"]), _read(reads["joints"])))

    def encode_text(self, text: str) -> np.ndarray:
        """uint8 [64]: UTF-8, padded with zeros. Blank text is no instruction: all zeros, and the arm stays.

        Raises TaskError for any other text that is no instruction, or too long.
        """
        text = text.strip()
        try:
            if text:
                parse(text)
        except InstructionError as error:
            raise TaskError(str(error)) from error
        data = text.encode()
        if len(data) > TEXT_BYTES:
            raise TaskError(f"instruction {text!r} takes {len(data)} bytes, of {TEXT_BYTES}: use single spaces")
        return np.frombuffer(data.ljust(TEXT_BYTES, b"\0"), dtype=np.uint8).copy()

    def weights_digest(self) -> str:
        """There are no weights; what is tuned are the constants of the modules that decide."""
        modules = (color_servo_spec, color_tokens, pick_servo, tabletop_arm, tabletop_cell, sys.modules[__name__])
        constants = {m.__name__: {k: v for k, v in vars(m).items() if k.isupper()} for m in modules}
        text = json.dumps(constants, sort_keys=True, default=_plain)
        return sha256(text.encode()).hexdigest()


def load(choice: PolicyChoice, device: str = "cpu") -> ColorServo:
    """The policy that a contract chose. Raises PolicyChoiceError for a checkpoint or precision that there isn't."""
    return ColorServo(choice, device)


def fuse(tokens: np.ndarray, task: bytes) -> np.ndarray:
    """Belief [12] from tokens [16, 8] and the encoded instruction. Zeros without an instruction (zeros), and where
    the scene camera shows no bin: they always stand there, so it is blind."""
    belief = np.zeros(12)
    text = task.rstrip(b"\0").decode()
    if not text or tokens[SCENE_SLOT : SCENE_SLOT + 4, :4].max() < BIN_SEEN:
        return belief
    instruction = parse(text)
    colour = COLOURS.index(instruction.colour)
    offset = _scene_offset(tokens)
    bin_ = _bin(tokens, offset, instruction)
    in_hand = _in_hand(tokens[WRIST_HAND + colour])
    belief[0] = 1 + KINDS.index(instruction.kind)
    belief[7] = in_hand
    found = _lying(tokens[SCENE_CUBE + colour], tokens[WRIST_CUBE + colour], offset, in_hand)
    if found is not None:
        surface = BELT_Z if abs(found[0] - BELT_X) < BELT_WIDTH / 2 else TABLE_Z
        belief[1:7] = 1.0, found[0], found[1], surface + CUBE / 2, found[2], surface
    if bin_ is not None:
        belief[8:12] = 1.0, *bin_[:2], TABLE_Z
        if found is None and not in_hand and bin_[2] >= IN_BIN:
            belief[1:7] = 1.0, *bin_[:2], TABLE_Z + CUBE / 2, 0.0, TABLE_Z
    return belief


def act(belief: np.ndarray, joints: np.ndarray) -> np.ndarray:
    """Chunk [32, 7] from a belief [12] and the joints [7] now.

    Without instruction or image the arm stays. If cube or bin are not seen, the arm hides them: it goes home to look.
    """
    if belief[0] < 0.5:
        return _stay(joints)
    kind = KINDS[int(belief[0]) - 1]
    located, in_hand, bin_located = belief[1] > 0.5, belief[7] > 0.5, belief[8] > 0.5
    at_cube_width = HELD[0] < joints[6] < HELD[1]
    tool = forward(joints)
    cube, yaw, bin_ = belief[2:5], belief[5], belief[9:12] if kind == "place" else None
    if not (located or in_hand) or (kind == "place" and not bin_located):
        if in_hand or at_cube_width:
            return _stay(joints)
        cube = bin_ = tool[:3, 3]  # the servo leaves a cube that lies in its bin: upwards, then home
    elif in_hand and (joints[6] < HELD[1] or not located):
        cube = tool[:3, 3]
    elif not in_hand and at_cube_width:
        # The servo takes fingers at a cube's width for fingers around one. Here nothing is between them.
        joints = np.append(joints[:6], HELD[1])
    return chunk(Belief(kind, cube, yaw, np.zeros(3), bin_, belief[6]), joints, HORIZON, STEP_S)


def _stay(joints: np.ndarray) -> np.ndarray:
    """The joints as they are; only fingers that may hold something keep squeezing it."""
    rows = np.tile(np.clip(joints, LOWER, UPPER), (HORIZON, 1))
    if HELD[0] < joints[6] < HELD[1]:
        rows[:, 6] = SQUEEZE
    return rows


def _scene_offset(tokens: np.ndarray) -> np.ndarray:
    """[2]: what is to be added to positions from the scene camera, m. Its mount's error shifts all that it sees alike,
    and the wrist camera, which is near, is the better judge of where cubes are."""
    scene, wrist = tokens[SCENE_CUBE : SCENE_CUBE + 4], tokens[WRIST_CUBE : WRIST_CUBE + 4]
    both = _whole(wrist) & _clear(scene)
    if not both.any():
        return np.zeros(2)
    return np.clip((wrist[both, 2:4] - scene[both, 2:4]).mean(0), -CAMERA_OFFSET, CAMERA_OFFSET)


def _clear(scene: np.ndarray) -> np.ndarray:
    return (scene[..., 0] >= CLEAR[0]) & (scene[..., 1] >= CLEAR[1]) & (scene[..., 7] > 0)


def _whole(wrist: np.ndarray) -> np.ndarray:
    return (wrist[..., 1] >= WRIST_SEEN) & (wrist[..., 7] > 0)


def _lying(
    scene: np.ndarray, wrist: np.ndarray, offset: np.ndarray, in_hand: bool
) -> tuple[float, float, float] | None:
    """(x, y, yaw) of a cube from its two region tokens [8], or None if it is not seen lying."""
    if _clear(scene) and not in_hand:
        xy, yaw = scene[2:4] + offset, scene[4]
        if _whole(wrist):
            # While the arm moves, image and joints do not quite belong together: the scene camera bounds the error.
            xy = scene[2:4] + np.clip(wrist[2:4] - scene[2:4], -CAMERA_OFFSET, CAMERA_OFFSET)
            yaw = wrist[4]
        return float(xy[0]), float(xy[1]), float(yaw)
    if _whole(wrist):
        return float(wrist[2]), float(wrist[3]), float(wrist[4])
    if scene[0] >= SEEN and not in_hand:
        return float(scene[2] + offset[0]), float(scene[3] + offset[1]), float(scene[4])
    return None


def _in_hand(token: np.ndarray) -> bool:
    return all(low < token[i] < high for i, (low, high) in zip((1, 5, 6), IN_HAND))


def _bin(tokens: np.ndarray, offset: np.ndarray, instruction: Instruction) -> tuple[float, float, float] | None:
    """(x, y) of the named bin and the pixels of the named cube's colour in it; None if it is not seen."""
    if instruction.bin is None:
        return None
    slots = tokens[SCENE_SLOT : SCENE_SLOT + 4]
    bin_colour = COLOURS.index(instruction.bin)
    place = int(slots[:, bin_colour].argmax())
    slot = slots[place]
    if slot[4] != bin_colour or slot[bin_colour] < BIN_SEEN:
        return None
    # An arm in front of it shifts the mean of what is seen; the places are known.
    x, y = np.clip(slot[5:7] + offset - (BIN_X, BIN_Y[place]), -BIN_JITTER, BIN_JITTER) + (BIN_X, BIN_Y[place])
    return float(x), float(y), float(slot[COLOURS.index(instruction.colour)])


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else asdict(value)


def _read(tensor: torch.Tensor) -> np.ndarray:
    return tensor.double().cpu().numpy()


def _write(tensor: torch.Tensor, values: np.ndarray) -> None:
    tensor.copy_(torch.from_numpy(values))
