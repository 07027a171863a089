"""Which fault a drill plants at which decision, and whether each was found: pure functions. Must not import rclpy or torch.

A fault and the trip that it must lead to belong together by the decision, so finding a fault one decision late, twice, or by
another guard is not finding it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Sequence

import numpy as np

from flashrt_ros.capsule.rollback import AGE, DEADLINE, NONFINITE, POSITION, STAGE_ERROR

NAN, LIMIT, STAGE, LATE, FROZEN = "nan", "limit", "stage", "late", "frozen"
# Each cause, and the guard that must stop it.
GUARD = MappingProxyType({NAN: NONFINITE, LIMIT: POSITION, STAGE: STAGE_ERROR, LATE: DEADLINE, FROZEN: AGE})
FIRST = 2  # decisions of an episode before the first fault may come, so that there is a chunk to be lost
PERIOD, JITTER = 4, 1  # decisions from one fault to the next, and by how many each is put off
PAUSE = PERIOD - JITTER  # at least: each is alone, whatever it costs


def fault_at(seed: int, episode: int, step: int) -> str | None:
    """What is planted at a decision; step: counted from the episode's first, 0. All causes come once, in an order of their own,
    before one comes again. seed, episode: at least 0."""
    slot, late = divmod(step - FIRST, PERIOD)
    if slot < 0:
        return None
    rng = np.random.default_rng((seed, episode, slot // len(GUARD)))
    order, delays = rng.permutation(len(GUARD)), rng.integers(0, JITTER + 1, len(GUARD))
    which = slot % len(GUARD)
    return list(GUARD)[order[which]] if late == delays[which] else None


@dataclass(frozen=True, slots=True)
class Planted:
    """A fault as it was planted: this decision must trip, at its first attempt. cause: a key of GUARD."""

    cause: str
    session: int
    epoch: int
    decision: int

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: str) -> Planted:
        return Planted(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Found:
    """A trip, as the policy told it. guard: that tripped; detail: what it said."""

    guard: str
    session: int
    epoch: int
    decision: int
    attempt: int
    detail: str


@dataclass(frozen=True)
class Matching:
    """pairs: faults with the trips that they led to. missed: faults without one. spare: trips without a fault."""

    pairs: tuple[tuple[Planted, Found], ...]
    missed: tuple[Planted, ...]
    spare: tuple[Found, ...]

    @property
    def complete(self) -> bool:
        """Each fault led to one trip, and each trip was of one fault."""
        return not self.missed and not self.spare

    def planted(self, cause: str) -> int:
        return self.matched(cause) + sum(fault.cause == cause for fault in self.missed)

    def matched(self, cause: str) -> int:
        return sum(fault.cause == cause for fault, _ in self.pairs)

    def trips(self) -> Counter[str]:
        """Of each guard, all that were told."""
        return Counter(found.guard for found in (*(found for _, found in self.pairs), *self.spare))


def match(planted: Sequence[Planted], found: Sequence[Found]) -> Matching:
    """Put each fault together with the one trip of its decision, first attempt, and guard."""
    left, pairs, missed = list(found), [], []
    for fault in planted:
        wanted = GUARD[fault.cause], fault.session, fault.epoch, fault.decision, 0
        trip = next((t for t in left if (t.guard, t.session, t.epoch, t.decision, t.attempt) == wanted), None)
        if trip is None:
            missed.append(fault)
        else:
            left.remove(trip)
            pairs.append((fault, trip))
    return Matching(tuple(pairs), tuple(missed), tuple(left))
