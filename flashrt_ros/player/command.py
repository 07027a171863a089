"""What the player says: its state, the command of one tick, the points of a window."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Sequence

import numpy as np

from flashrt_ros.chunk.chunk import Cursor


SAME = 1e-7  # of accelerations, or jerks: less is rounding


class State(str, Enum):
    IDLE = "idle"  # not active
    HOLDING = "holding"  # at rest, ready for a chunk
    PLAYING = "playing"
    STOPPING = "stopping"  # a limited stop is under way; a chunk may end it
    FAULT = "fault"  # two speak at once, in chunks or to the controller: stops, holds and refuses until one is gone
    ESTOP = "estop"  # stops and then holds, until the reset
    TAKEN_OVER = "taken_over"  # at rest; a person has the arm, and no command is meant for it
    APPROACHING = "approaching"  # plays a chunk that is far from the arm, slowly until it gets there


class Point(NamedTuple):
    """position, velocity: float64 [N], read-only, for time_ns; acceleration likewise if the jerk is limited, else None. Between
    two points lies the polynomial that they determine: a cubic, or with accelerations a quintic."""

    time_ns: int
    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray | None = None

    def of(self, columns: list[int]) -> Point:
        """Of some joints only."""
        return Point(self.time_ns, self.position[columns], self.velocity[columns],
                     None if self.acceleration is None else self.acceleration[columns])


def thinned(points: Sequence[Point]) -> list[Point]:
    """The points without those that lie on the polynomial through the ones that stay: a stop, or a finger at rest, is then told in
    a few, and what is told in fewer is sent sooner. Between cubic points acceleration is constant, between quintic ones jerk."""
    last = [p.velocity if p.acceleration is None else p.acceleration for p in points]
    if len(points) < 3:
        return list(points)
    seconds = np.diff([p.time_ns for p in points])[:, None] * 1e-9
    steepness = np.diff(last, axis=0) / seconds
    bends = (np.abs(np.diff(steepness, axis=0)) > SAME).any(axis=1)
    return [points[0], *(p for p, bend in zip(points[1:-1], bends) if bend), points[-1]]


@dataclass(frozen=True, slots=True, eq=False)
class Command:
    """The state that the arm should have at time_ns; position, velocity: float64 [N], read-only. tracking_error: the
    largest |measured - previous command| in rad or m; None if nothing was measured, NaN if a measurement was."""

    time_ns: int
    position: np.ndarray
    velocity: np.ndarray
    state: State
    cursor: Cursor
    tracking_error: float | None
