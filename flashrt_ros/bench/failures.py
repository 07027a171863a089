"""Why an episode failed: one cause, judged from where things really were at each decision. numpy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flashrt_ros.policies.instruction import Instruction
from flashrt_ros.policies.tabletop_arm import MAX_OPENING
from flashrt_ros.policies.tabletop_cell import BIN_INNER, CUBE
from flashrt_ros.sim.score import MOVED_M

NO_CHUNK = "no chunk"
WRONG_CUBE = "wrong cube moved"
PUSHED = "another cube was pushed"
NEVER_REACHED = "never reached the cube"
HOVERED = "hovered"
CLOSED_BESIDE = "closed beside it"
DROPPED = "dropped it"
MISSED_BIN = "missed the bin"
OUT_OF_TIME = "ran out of time"
CAUSES = (NO_CHUNK, WRONG_CUBE, PUSHED, NEVER_REACHED, HOVERED, CLOSED_BESIDE, DROPPED, MISSED_BIN, OUT_OF_TIME)

REACHED_M = 0.03  # lateral distance of tool and cube from which the tool counts as over it
DOWN_M = 0.028  # height of the tool over a cube's centre from which the fingertips, 8 mm further down, are beside the cube
RISEN_M = 0.015  # a cube that is tipped over its edge rises less
HELD_M = 0.03  # distance of tool and cube between fingers
AROUND = CUBE + 0.015  # finger openings up to this may hold a cube
EMPTY = CUBE - 0.006  # finger openings below this hold nothing
AT_BIN_M = BIN_INNER / 2 + CUBE  # lateral distance from a bin's centre at which letting go is meant for a bin


@dataclass(frozen=True)
class Record:
    """What happened, at each of N moments: the D decisions and the end.

    tool [N, 3], opening [N] (m); cubes: colour -> [N, 3]; displaced: colour of each cube but the named one -> [N], the
    furthest that it has been from where it should be (Score.moved). bins: colour -> [3]. refused: decisions without a
    chunk, and chunks that were not played.
    """

    instruction: Instruction
    tool: np.ndarray
    opening: np.ndarray
    cubes: dict[str, np.ndarray]
    displaced: dict[str, np.ndarray]
    bins: dict[str, np.ndarray]
    decisions: int
    refused: int


def cause(record: Record) -> str:
    """One of CAUSES for an episode that failed: the first thing that went wrong for good."""
    if 2 * record.refused > record.decisions:
        return NO_CHUNK
    moved = [colour for colour, metres in record.displaced.items() if metres[-1] > MOVED_M]
    if moved:
        return WRONG_CUBE if any(_handled(record, colour) for colour in moved) else PUSHED
    cube = record.cubes[record.instruction.colour]
    over = _aside(record.tool, cube) <= REACHED_M
    if not over.any():
        return NEVER_REACHED
    down = over & (record.tool[:, 2] - cube[:, 2] < DOWN_M)
    if not down.any():
        return HOVERED
    if cube[:, 2].max() - cube[0, 2] < RISEN_M:
        closed = record.opening[int(down.argmax()):] < EMPTY
        return CLOSED_BESIDE if closed.any() else OUT_OF_TIME
    held = _held(record, record.instruction.colour)
    if held[-1] or not held.any():
        return OUT_OF_TIME
    let_go = cube[np.flatnonzero(held)[-1]]
    at_a_bin = min(float(_aside(let_go, bin_)) for bin_ in record.bins.values()) < AT_BIN_M
    return MISSED_BIN if record.instruction.bin is not None and at_a_bin else DROPPED


def _handled(record: Record, colour: str) -> bool:
    """Whether the hand took this cube for the named one: it lifted it, or closed the fingers over it, not just ran into it."""
    cube = record.cubes[colour]
    if cube[:, 2].max() - cube[0, 2] >= RISEN_M:
        return True
    closing = (record.opening < 0.9 * MAX_OPENING) & ~_held(record, record.instruction.colour)
    return bool((closing & (_aside(record.tool, cube) <= REACHED_M)).any())


def _held(record: Record, colour: str) -> np.ndarray:
    """[N]: whether the cube is between fingers that have closed on it."""
    near = np.linalg.norm(record.tool - record.cubes[colour], axis=-1) < HELD_M
    return near & (record.opening < AROUND)


def _aside(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Lateral distance of points [..., 3]."""
    return np.hypot(a[..., 0] - b[..., 0], a[..., 1] - b[..., 1])
