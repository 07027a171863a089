"""The hot tier: the last good boundaries, on the engine's own device.

Owns the slots and which capsule lies in which. A snapshot and a restore are one copy each, in order with the decisions' work; nothing is
allocated after construction. Whether a capsule may be restored at all is asked in checks.py.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Callable

from flashrt_ros.capsule.checks import GONE, CapsuleRefused
from flashrt_ros.capsule.record import Record
from flashrt_ros.engine.boundary import Boundary
from flashrt_ros.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Capsule:
    """A boundary that lies in a slot of the ring, as long as the slot's generation is still this one."""

    record: Record
    slot: int
    generation: int


class Ring:
    """The newest `depth` good boundaries, and the present one where it is not known to be good. Raises ValueError for a depth
    below 1."""

    def __init__(self, engine: Engine, depth: int) -> None:
        if depth < 1:
            raise ValueError(f"depth is {depth}; it must be at least 1")
        self._engine = engine
        self._memory = [engine.memory() for _ in range(depth + 1)]
        self._generation = [0] * (depth + 1)
        self._present = depth  # the slot of a boundary that nobody can go back to
        self._good: deque[Capsule] = deque(maxlen=depth)
        self._taken = 0

    @property
    def capsules(self) -> tuple[Capsule, ...]:
        """Those that can be gone back to, oldest first."""
        return tuple(self._good)

    def take(self, record: Callable[[Boundary], Record]) -> Capsule:
        """Keep the present boundary as a good one; the oldest gives way."""
        capsule = self._save(self._taken % self._good.maxlen, record)
        self._taken += 1
        self._good.append(capsule)
        return capsule

    def note(self, record: Callable[[Boundary], Record]) -> Capsule:
        """Keep the present boundary until the next note, as evidence only."""
        return self._save(self._present, record)

    def load(self, capsule: Capsule) -> None:
        """Put the engine exactly where it was. Raises CapsuleRefused for a capsule whose slot has been used again."""
        self._engine.load(self.memory(capsule), capsule.record.boundary)

    def rewind(self, capsule: Capsule) -> None:
        """Give a live engine the capsule's belief (Engine.rewind). Raises CapsuleRefused, likewise."""
        self._engine.rewind(self.memory(capsule), capsule.record.boundary)

    def memory(self, capsule: Capsule):
        """uint8 [nbytes] on the device. Raises CapsuleRefused, likewise."""
        if self._generation[capsule.slot] != capsule.generation:
            raise CapsuleRefused(GONE, f"capsule {capsule.record.id[:12]} is not in the ring any more: it keeps the last "
                                       f"{self._good.maxlen} good decisions; take a snapshot of what is to be kept for longer")
        return self._memory[capsule.slot]

    def _save(self, slot: int, record: Callable[[Boundary], Record]) -> Capsule:
        self._generation[slot] += 1
        boundary = self._engine.save(self._memory[slot])
        return Capsule(record(boundary), slot, self._generation[slot])
