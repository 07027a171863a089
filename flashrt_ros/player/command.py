"""What the player says: its state, the command of one tick, the points of a window."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from flashrt_ros.chunk.chunk import Cursor


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
