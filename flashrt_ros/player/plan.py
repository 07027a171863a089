"""The motion ahead, tick by tick: a reference tracked within limits, then a limited stop, then rest.

Owns the rows that both the real ticks and the preview read, so the two cannot differ. Must not know chunks, clocks or
states. numpy only.
"""

from __future__ import annotations

from typing import Protocol, Sequence

import numpy as np

from flashrt_ros.player.jerk import JerkLimited
from flashrt_ros.player.limits import Limits
from flashrt_ros.player.row import Row


class MotionLaw(Protocol):
    """Ticks within limits. track: the next row, towards a reference that will then be at these values [N]; stop: the rows to
    rest; rest: at a position [N]."""

    def track(self, row: Row, position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray) -> Row: ...

    def stop(self, row: Row) -> list[Row]: ...

    def rest(self, position: np.ndarray) -> Row: ...


class AccelerationLimited:
    """Ticks of constant acceleration, see limits.py. Rows do not tell it."""

    def __init__(self, limits: Limits, dt: float) -> None:
        self._limits, self._dt = limits, dt

    def track(self, row: Row, position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray) -> Row:
        return Row(*self._limits.clamp_step(row.position, row.velocity, position, velocity, self._dt))

    def stop(self, row: Row) -> list[Row]:
        return [Row(*values) for values in zip(*self._limits.stop_profile(row.position, row.velocity, self._dt))]

    def rest(self, position: np.ndarray) -> Row:
        return Row(position, np.zeros_like(position))


def motion_law(limits: Limits, dt: float) -> MotionLaw:
    """Of ticks of dt (s): with limited jerk if that is limited, else with limited acceleration."""
    return AccelerationLimited(limits, dt) if limits.jerk is None else JerkLimited(limits, dt)


class Plan:
    """Rows are a tick of dt (s) apart. The first are given: the present and what is fixed already. The next, up to row
    `follows`, track the reference (positions, velocities [M, N], one row per tick); after them comes a limited stop, and at rest
    the last row is repeated. Without a reference the stop follows the given rows.

    Rows are computed when first asked for: a preview of w ticks costs w ticks once, and then one tick per tick.
    """

    def __init__(self, law: MotionLaw, dt: float, rows: Sequence[Row], reference: tuple[np.ndarray, np.ndarray] | None = None) -> None:
        self._law, self._reference = law, reference
        if reference is not None:
            self._accelerations = np.diff(reference[1], axis=0, prepend=rows[-1].velocity[None]) / dt
        self._given = len(rows)
        self.follows = self._given - 1 + (0 if reference is None else len(reference[0]))
        self._rows: list[Row] = []
        self._complete = False
        for row in rows:
            self._append(row)
        if reference is None:
            self._stop()

    def row(self, i: int) -> Row:
        """Row i >= 0; its arrays are read-only."""
        self._extend(i)
        return self._rows[min(i, len(self._rows) - 1)]

    def at_rest(self, i: int) -> bool:
        """Whether nothing moves from row i on."""
        self._extend(i)
        return self._complete and i >= len(self._rows) - 1

    def preview(self, start: int, leave: int) -> list[Row]:
        """Rows start, start + 1, ... up to row `leave`, and from there a limited stop: the last velocity is zero."""
        self._extend(leave)
        if leave >= self.follows:
            return self._rows[start:] or self._rows[-1:]
        return self._rows[start:leave + 1] + self._law.stop(self._rows[leave])

    def _extend(self, i: int) -> None:
        while len(self._rows) <= i and not self._complete:
            done = len(self._rows) - self._given
            positions, velocities = self._reference
            self._append(self._law.track(self._rows[-1], positions[done], velocities[done], self._accelerations[done]))
            if len(self._rows) > self.follows:
                self._stop()

    def _stop(self) -> None:
        for row in self._law.stop(self._rows[-1]):
            self._append(row)
        self._complete = True

    def _append(self, row: Row) -> None:
        for values in row:
            if values is not None:
                values.setflags(write=False)
        self._rows.append(row)
