"""An action chunk: H future joint targets, stamped, named and ordered. numpy only."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from flashrt_ros.errors import FlashRTError


class ChunkError(FlashRTError):
    """A chunk is malformed."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a player is, or was: step `step` (may be fractional) of chunk (session, epoch, seq), after `tick` consumed
    control ticks of the player run `player`. player 0: no player was heard. lag_ns: as a chunk's base, how long before
    the decision that tick was (a decision falls between two ticks)."""

    player: int = 0
    tick: int = 0
    session: int = 0
    epoch: int = 0
    seq: int = 0
    step: float = 0.0
    lag_ns: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """positions: float64 [H, N], row i for time start_ns + i * step_ns; velocities likewise or None. offset_ns: start_ns
    minus the time of the decision.

    Order among chunks is (session, epoch, seq, attempt). `base` is where the player was when the observation was taken.
    frozen_prefix: so many leading steps were taken over from the chunk before (real-time chunking).
    Raises ChunkError at construction when shapes or steps make no sense; values may be non-finite (guards judge those).
    """

    names: tuple[str, ...]
    positions: np.ndarray
    start_ns: int
    step_ns: int
    velocities: np.ndarray | None = None
    session: int = 0
    epoch: int = 0
    seq: int = 0
    attempt: int = 0
    offset_ns: int = 0
    base: Cursor = field(default_factory=Cursor)
    frozen_prefix: int = 0

    def __post_init__(self) -> None:
        p = self.positions
        if p.ndim != 2 or p.shape[0] < 1 or p.shape[1] != len(self.names):
            raise ChunkError(f"chunk {self.order}: positions have shape {p.shape}; expected "
                             f"[H >= 1, {len(self.names)}] for the joints {', '.join(self.names)}")
        if len(set(self.names)) != len(self.names):
            raise ChunkError(f"chunk {self.order}: a joint is named twice in {self.names}")
        if self.step_ns <= 0:
            raise ChunkError(f"chunk {self.order}: step_ns is {self.step_ns}; it must be positive")
        if not -(2**63) <= self.start_ns <= self.end_ns < 2**63:
            raise ChunkError(f"chunk {self.order}: steps lie at {self.start_ns} to {self.end_ns} ns; times must fit in "
                             "64 bits")
        if self.velocities is not None and self.velocities.shape != p.shape:
            raise ChunkError(f"chunk {self.order}: velocities have shape {self.velocities.shape}, positions {p.shape}")
        if not 0 <= self.frozen_prefix <= self.horizon:
            raise ChunkError(f"chunk {self.order}: frozen_prefix is {self.frozen_prefix}; it must be from 0 to its "
                             f"{self.horizon} steps")

    @property
    def order(self) -> tuple[int, int, int, int]:
        return (self.session, self.epoch, self.seq, self.attempt)

    def played_ns(self, cursor: Cursor, now_ns: int) -> int:
        """How far after its step 0 a player is at now_ns, whose cursor was `cursor` then: in this chunk its cursor says so; in
        another (it will enter this one, or has left it) time does."""
        if (cursor.session, cursor.epoch, cursor.seq) == (self.session, self.epoch, self.seq):
            return round(cursor.step * self.step_ns) + cursor.lag_ns
        return now_ns - self.start_ns

    @property
    def horizon(self) -> int:
        return self.positions.shape[0]

    @property
    def end_ns(self) -> int:
        """Time of the last step."""
        return self.start_ns + (self.horizon - 1) * self.step_ns
