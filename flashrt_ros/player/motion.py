"""What the player follows: the plan, where in it the player is, and the chunk that it was made from. Must not know clocks, holds
or what a chunk must be to be followed. numpy only.

Everything is counted in ticks. A change of plan leaves the rows alone that are on their way to the controller already.
"""

from __future__ import annotations

import numpy as np

from flashrt_ros.chunk.chunk import Chunk
from flashrt_ros.player.limits import Limits
from flashrt_ros.player.plan import Plan, motion_law
from flashrt_ros.player.row import Row


class Motion:
    """Idle until `rest_at`. slow: the limits of an approach. chunk: what is followed, None: nothing, and the arm comes to rest.
    consumed: ticks for which a chunk was followed. revision: rises with every change of plan."""

    def __init__(self, limits: Limits, slow: Limits, tick_ns: int) -> None:
        self._tick_ns, self._dt = tick_ns, tick_ns * 1e-9
        self._law, self._slow_law = motion_law(limits, self._dt), motion_law(slow, self._dt)
        self._plan: Plan | None = None  # None: idle
        self.chunk: Chunk | None = None
        self.consumed = self.revision = 0

    @property
    def idle(self) -> bool:
        return self._plan is None

    @property
    def at_rest(self) -> bool:
        """Whether nothing will move until another plan is followed."""
        return self._plan.at_rest(self._row)

    @property
    def left(self) -> int:
        """Ticks for which the chunk is still followed; negative, or of no meaning, without one."""
        return self._plan.follows - self._row

    @property
    def step(self) -> float:
        """The fractional step of the chunk that the present row is."""
        return (self._row_0_ns + self._row * self._tick_ns) / self.chunk.step_ns

    def ahead(self, ticks: int = 0) -> Row:
        """The row that the plan has in so many ticks."""
        return self._plan.row(self._row + ticks)

    def window(self, start: int, leave: int) -> list[Row]:
        """The rows from `start` ticks ahead (negative: behind, as far as there are any) to `leave`, and from there a limited stop.
        The first is for `begins(start)`."""
        return self._plan.preview(self.begins(start, leave) + self._row, self._row + leave)

    def begins(self, start: int, leave: int) -> int:
        """How many ticks ahead the first row of such a window is."""
        return min(max(-self._row, start), leave)

    def end(self) -> None:
        """Be idle."""
        self._plan = self.chunk = None

    def rest_at(self, position: np.ndarray) -> None:
        self._change(Plan(self._law, self._dt, [self._law.rest(position)]), 0)

    def follow(self, reference: tuple[np.ndarray, np.ndarray], lead: int, slow: bool, chunk: Chunk | None = None, into_ns: int = 0,
               end: str = "") -> None:
        """From `lead` ticks ahead on this reference (positions, velocities [M, N], one row per tick), and then a stop. chunk: what
        it is of, and into_ns how far in it the present is; end: what `advance` says when it is over."""
        present, fixed = self._fixed(lead)
        self._change(Plan(self._slow_law if slow else self._law, self._dt, fixed, reference), present, chunk, into_ns, end)

    def stop(self, lead: int) -> None:
        """Drop the chunk, and begin a limited stop in so many ticks; at rest nothing is left to command."""
        if self.at_rest:
            self.chunk = None
            return
        present, fixed = self._fixed(lead)
        self._change(Plan(self._law, self._dt, fixed), present)

    def advance(self, ticks: int) -> str:
        """Go on; returns the `end` of the chunk if it is over now, else nothing."""
        before = self._row
        self._row += ticks
        if self.chunk is None:
            return ""
        self.consumed += min(self._row, self._plan.follows) - before
        if self._row <= self._plan.follows:
            return ""
        self.chunk = None
        return self._end

    def _fixed(self, lead: int) -> tuple[int, list[Row]]:
        """The rows that no change of plan may touch: the one before the present (for windows that begin there), the
        present, and `lead` ahead; and which of them is the present."""
        first = max(0, self._row - 1)
        return self._row - first, [self._plan.row(i) for i in range(first, self._row + lead + 1)]

    def _change(self, plan: Plan, present: int, chunk: Chunk | None = None, into_ns: int = 0, end: str = "") -> None:
        """From now on this plan, of which row `present` is the present, into_ns into the chunk."""
        self._plan, self._row = plan, present
        self.revision += 1
        self.chunk, self._row_0_ns, self._end = chunk, into_ns - present * self._tick_ns, end
