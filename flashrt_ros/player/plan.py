"""The motion ahead, tick by tick: a reference tracked within limits, then a limited stop, then rest.

Owns the rows that both the real ticks and the preview read, so the two cannot differ. Must not know chunks, clocks or
states. numpy only.
"""

from __future__ import annotations

import numpy as np

from flashrt_ros.player.limits import Limits

Row = tuple[np.ndarray, np.ndarray]  # position, velocity [N]; read-only


class Plan:
    """Row i + 1 is dt seconds after row i. The first rows are given: the present and what is fixed already. The next,
    up to row `follows`, track the reference (positions, velocities [M, N], one row per tick); after them comes a
    limited stop, and at rest the last row is repeated. Without a reference the stop follows the given rows.

    Rows are computed when first asked for: a preview of w ticks costs w ticks once, and then one tick per tick.
    """

    def __init__(self, limits: Limits, dt: float, rows: list[Row],
                 reference: tuple[np.ndarray, np.ndarray] | None = None) -> None:
        self._limits, self._dt = limits, dt
        self._reference = reference
        self._given = len(rows)
        self.follows = self._given - 1 + (0 if reference is None else len(reference[0]))
        self._rows: list[Row] = []
        self._complete = False
        for row in rows:
            self._append(*row)
        if reference is None:
            self._stop()

    def row(self, i: int) -> Row:
        """Position and velocity [N] of row i >= 0."""
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
        return self._rows[start:leave + 1] + list(zip(*self._limits.stop_profile(*self._rows[leave], self._dt)))

    def _extend(self, i: int) -> None:
        while len(self._rows) <= i and not self._complete:
            done = len(self._rows) - self._given
            desired_position, desired_velocity = self._reference[0][done], self._reference[1][done]
            self._append(*self._limits.clamp_step(*self._rows[-1], desired_position, desired_velocity, self._dt))
            if len(self._rows) > self.follows:
                self._stop()

    def _stop(self) -> None:
        for position, velocity in zip(*self._limits.stop_profile(*self._rows[-1], self._dt)):
            self._append(position, velocity)
        self._complete = True

    def _append(self, position: np.ndarray, velocity: np.ndarray) -> None:
        position.setflags(write=False)
        velocity.setflags(write=False)
        self._rows.append((position, velocity))
