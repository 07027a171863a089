"""How a scene is laid out: places, light and camera jitter, drawn from a seed. numpy only; imports no mujoco."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import hypot, pi

import numpy as np

from flashrt_ros.policies.instruction import KINDS, Instruction
from flashrt_ros.policies.tabletop_arm import CAMERAS
from flashrt_ros.policies.tabletop_cell import (
    BELT_RESTS, BELT_RUNS, BELT_SPEED, BELT_X, BELT_Z, BIN_JITTER, BIN_X, BIN_Y, COLOURS, CUBE, CUBE_X, CUBE_Y, TABLE_Z,
)

FIRST_EVALUATION_SEED = 10_000  # training draws its scenes below it, evaluation from it on
# Between the centres of any two cubes on the table: fingers at their widest reach 0.05 m from a cube's centre and a
# neighbour's corner 0.028 m from its own, so an aligned grasp touches no neighbour.
SPACING = 0.088
BELT_START = (0.14, 0.25)  # how far up the belt, from the middle, the named cube starts
SWITCHES = 60  # of the belt: more than any episode lasts
BELT_GAP = (0.12, 0.20)  # from the named cube to the other one on the belt
CAMERA_SHIFT = {"scene": 0.002, "wrist": 0.001}  # m per axis, uniform
CAMERA_TURN = {"scene": 0.0035, "wrist": 0.005}  # rad per axis, uniform


@dataclass(frozen=True)
class Belt:
    """speed: m/s along y while it runs. switches: seconds since the start at which it stops and goes in turn, rising; it
    runs at first."""

    speed: float
    switches: tuple[float, ...]

    def velocity(self, seconds: float) -> float:
        """m/s along y, so long after the start."""
        return self.speed if bisect_right(self.switches, seconds) % 2 == 0 else 0.0


@dataclass(frozen=True)
class Layout:
    """cubes: colour -> (x, y, z, yaw) of the centre. on_belt: colours that ride. bins: colour -> (x, y) of the centre.
    belt: how the belt runs. lamp: direction [3]; lamp_level, ambient_level: brightness factors.
    shift, turn: camera -> displacement [3] (m) and small rotation vector [3] (rad) in the camera's own frame."""

    cubes: dict[str, tuple[float, float, float, float]]
    on_belt: frozenset[str]
    bins: dict[str, tuple[float, float]]
    belt: Belt
    lamp: np.ndarray
    lamp_level: float
    ambient_level: float
    shift: dict[str, np.ndarray]
    turn: dict[str, np.ndarray]


def draw_instruction(kind: str, seed: int) -> Instruction:
    """An instruction of that kind with colours drawn from the seed. Raises InstructionError for an unknown kind."""
    rng = np.random.default_rng([seed, KINDS.index(kind) if kind in KINDS else len(KINDS), 0])
    colour, other = (str(c) for c in rng.choice(COLOURS, 2))
    return Instruction(kind, colour, other if kind == "place" else None)


def draw_layout(instruction: Instruction, seed: int) -> Layout:
    """The layout of a seed. It depends on the instruction only in that a belt task puts its cube on the belt."""
    rng = np.random.default_rng([seed, KINDS.index(instruction.kind), 1])
    riders = _riders(instruction, rng) if instruction.kind == "belt" else {}
    places = dict(riders)
    for colour in COLOURS:
        if colour not in riders:
            x, y = _free_place(rng, list(places.values()))
            places[colour] = (x, y, TABLE_Z + CUBE / 2, rng.uniform(-pi, pi))
    row = rng.permutation(len(COLOURS))
    jitter = rng.uniform(-BIN_JITTER, BIN_JITTER, (len(COLOURS), 2))
    return Layout(
        cubes={colour: places[colour] for colour in COLOURS},
        on_belt=frozenset(riders),
        bins={c: (BIN_X + jitter[i, 0], BIN_Y[row[i]] + jitter[i, 1]) for i, c in enumerate(COLOURS)},
        belt=_belt(seed) if riders else Belt(0.0, ()),
        lamp=np.array([rng.uniform(-0.45, 0.15), rng.uniform(-0.4, 0.4), -1.0]),
        lamp_level=rng.uniform(0.8, 1.15),
        ambient_level=rng.uniform(0.85, 1.1),
        shift={name: rng.uniform(-CAMERA_SHIFT[name], CAMERA_SHIFT[name], 3) for name in CAMERAS},
        turn={name: rng.uniform(-CAMERA_TURN[name], CAMERA_TURN[name], 3) for name in CAMERAS},
    )


def _belt(seed: int) -> Belt:
    rng = np.random.default_rng([seed, KINDS.index("belt"), 2])
    spans = np.stack([rng.uniform(*BELT_RUNS, SWITCHES // 2), rng.uniform(*BELT_RESTS, SWITCHES // 2)], axis=1)
    return Belt(rng.uniform(*BELT_SPEED), tuple(np.cumsum(spans.ravel()).tolist()))


def _riders(instruction: Instruction, rng: np.random.Generator) -> dict[str, tuple]:
    """The named cube up the belt, and one other ahead of it or behind it."""
    other = str(rng.choice([c for c in COLOURS if c != instruction.colour]))
    y = -rng.uniform(*BELT_START)
    beside = y + float(rng.choice((-1.0, 1.0))) * rng.uniform(*BELT_GAP)
    return {
        colour: (BELT_X + rng.uniform(-0.015, 0.015), at, BELT_Z + CUBE / 2, rng.uniform(-pi, pi))
        for colour, at in ((instruction.colour, y), (other, beside))
    }


def _free_place(rng: np.random.Generator, taken: list[tuple]) -> tuple[float, float]:
    """A place in the cubes' zone, at least SPACING from all taken ones. Four always fit: the zone is wide."""
    while True:
        x, y = rng.uniform(*CUBE_X), rng.uniform(*CUBE_Y)
        if all(hypot(x - other[0], y - other[1]) >= SPACING for other in taken):
            return x, y
