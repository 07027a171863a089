"""What follows when a decision's chunk is refused: the state machine of rollback, as a value with pure transitions.

Owns the causes of a trip and what each leads to. What a trip is, guards.py says; what a retry does, maker.py. Must not import
numpy or anything of the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Mapping

from flashrt_ros.errors import FlashRTError

NONFINITE, POSITION, VELOCITY, JUMP, STAGE_ERROR = "nonfinite", "position", "velocity", "jump", "stage_error"
AGE, DEADLINE = "age", "deadline"
CONTENT = (NONFINITE, POSITION, VELOCITY, JUMP, STAGE_ERROR)  # what was decided is wrong: deciding anew may help
TIME = (AGE, DEADLINE)  # it comes too late, or saw too little: deciding anew would only come later


class RollbackError(FlashRTError):
    """The state machine was told what cannot happen (a programming error of whoever decides)."""


class State(str, Enum):
    """The values stand in messages."""

    NORMAL = "normal"  # chunks are handed out; a trip costs one
    RETRY = "retry"  # the decision under way is to be made again, from the last good belief
    HOLD = "hold"  # too many trips in a row: one attempt each, until a chunk passes
    FAULT = "fault"  # and those that followed were wrong as well: nothing is decided until reset()


@dataclass(frozen=True, slots=True)
class Rollback:
    """max_consecutive: trips in a row, attempts counted, that lead to HOLD; and content trips in HOLD that lead to FAULT.

    consecutive: trips since a chunk passed. in_hold: content trips since HOLD began; time trips never lead to FAULT, for a
    camera that comes back or a load that passes is no reason to call an operator. attempt: of the decision under way, 0 at
    first. trips: of each cause, all that ever were.

    Each transition returns a new value and raises RollbackError in FAULT, which reset() alone leaves.
    """

    max_consecutive: int
    state: State = State.NORMAL
    consecutive: int = 0
    in_hold: int = 0
    attempt: int = 0
    trips: Mapping[str, int] = field(default_factory=lambda: MappingProxyType(dict.fromkeys(CONTENT + TIME, 0)))

    def __post_init__(self) -> None:
        if self.max_consecutive < 1:
            raise RollbackError(f"max_consecutive is {self.max_consecutive}; it must be at least 1 trip")

    def begin(self) -> Rollback:
        """A new decision. A retry of the last one that was not made is not made up for."""
        self._refuse_in_fault("begin")
        return replace(self, state=State.NORMAL if self.state is State.RETRY else self.state, attempt=0)

    def passed(self) -> Rollback:
        """The attempt under way made a chunk that no guard trips on."""
        self._refuse_in_fault("passed")
        return replace(self, state=State.NORMAL, consecutive=0, in_hold=0)

    def tripped(self, cause: str, fits: bool) -> Rollback:
        """The attempt under way was refused; cause: one of CONTENT + TIME. fits: another attempt would make the deadline.

        In RETRY it is to be made, as `attempt`; in any other state the decision is over, without a chunk.
        """
        self._refuse_in_fault("tripped")
        if cause not in self.trips:
            raise RollbackError(f"{cause!r} is no cause of a trip; allowed: {', '.join(CONTENT + TIME)}")
        content = cause in CONTENT
        counted = replace(self, consecutive=self.consecutive + 1,
                          trips=MappingProxyType({**self.trips, cause: self.trips[cause] + 1}))
        if self.state is State.HOLD:
            in_hold = self.in_hold + content
            return replace(counted, state=State.FAULT if in_hold >= self.max_consecutive else State.HOLD, in_hold=in_hold)
        if counted.consecutive >= self.max_consecutive:
            return replace(counted, state=State.HOLD)
        if content and fits:
            return replace(counted, state=State.RETRY, attempt=self.attempt + 1)
        return replace(counted, state=State.NORMAL)

    def reset(self) -> Rollback:
        """By an operator, or after a jump of the clock: everything is forgotten but the counts."""
        return Rollback(self.max_consecutive, trips=self.trips)

    def _refuse_in_fault(self, transition: str) -> None:
        if self.state is State.FAULT:
            raise RollbackError(f"{transition}() in {self.state.name}: nothing is decided there until reset()")
