"""Capsules that an operator has asked to keep, in host memory for longer than the ring; and how a capsule is found by its id.

They are sealed and written on a thread of their own, so that no decision waits for it. Knows no ROS.
"""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Iterable, TypeVar

from flashrt_ros.capsule.checks import GONE, CapsuleRefused
from flashrt_ros.capsule.file import SUFFIX, save
from flashrt_ros.capsule.host import HostCopy, HostTier
from flashrt_ros.capsule.record import Record
from flashrt_ros.capsule.ring import Capsule, Ring
from flashrt_ros.capsule.stored import Stored, seal
from flashrt_ros.capsule.worker import Worker
from flashrt_ros.engine.engine import Engine

LEAST_DIGITS = 6  # of an id: with the few capsules that there are, no two agree in so many by chance

Told = Callable[[str], None]
AnyCapsule = TypeVar("AnyCapsule", bound="Capsule | Stored")


class Shelf:
    """The last `limit` capsules that were kept. folder: where files go, made when the first is written."""

    def __init__(self, engine: Engine, folder: str | Path, limit: int = 8) -> None:
        self._limit, self._folder = limit, Path(folder).expanduser().absolute()
        self._host = HostTier(engine, outputs=False)
        self._kept: tuple[Stored, ...] = ()
        self._worker = Worker("shelf")

    @property
    def capsules(self) -> tuple[Stored, ...]:
        """Oldest first. Any thread may ask."""
        return self._kept

    def path(self, record: Record) -> Path:
        """Of this capsule's file, the same whenever it is written: no name that a black box would take for one of its own."""
        return self._folder / f"snapshot_{record.id[:16]}{SUFFIX}"

    def keep(self, ring: Ring, capsule: Capsule, path: Path | None, told: Told) -> None:
        """Begin to keep a capsule of the ring, and to write it to `path` (None: nowhere). Called on the thread that decides,
        between two decisions. told(problem) is called, on any thread, when that is done (empty) or has failed."""
        try:
            copy = self._host.fetch(ring.memory(capsule))
        except CapsuleRefused as refused:
            return told(str(refused))
        if copy is None:
            return told("snapshots come faster than they can be sealed: ask again")
        return self._worker.do(lambda: told(self._try(capsule.record, copy, path)))

    def close(self) -> None:
        """Returns when all that was taken is kept and written, or has failed."""
        self._worker.close()

    def _try(self, record: Record, copy: HostCopy, path: Path | None) -> str:
        try:
            return self._keep(record, copy, path)
        except Exception as error:  # a bug here must be told, and must not cost later snapshots
            return f"{type(error).__name__}: {error}"

    def _keep(self, record: Record, copy: HostCopy, path: Path | None) -> str:
        """The problem; empty: none."""
        try:
            copy.wait()
            stored = seal(record, copy.tensors)
        finally:
            copy.release()
        others = (other for other in self._kept if other.record.id != record.id)
        self._kept = (*others, stored)[-self._limit :]
        try:
            if path is not None:
                save(path, stored)
        except OSError as error:
            return f"kept in memory, but not written: {error}"
        return ""


def find(digits: str, capsules: Iterable[AnyCapsule]) -> AnyCapsule:
    """The one whose id begins with these hex digits; of two with one id, the later. Raises CapsuleRefused if there is none, if there
    are more, or if less than LEAST_DIGITS are given."""
    digits = digits.strip().lower()
    if len(digits) < LEAST_DIGITS:
        raise CapsuleRefused(GONE, f"'{digits}' is too short for the id of a capsule: give at least {LEAST_DIGITS} digits of it")
    found = {c.record.id: c for c in capsules if c.record.id.startswith(digits)}
    if not found:
        raise CapsuleRefused(GONE, f"no capsule has an id that begins with '{digits}'; it was not taken here, or newer ones have "
                                   "its place in the ring: list the capsules that there are, or restore it from its file")
    if len(found) > 1:
        raise CapsuleRefused(GONE, f"the ids of {len(found)} capsules begin with '{digits}'; give more digits: {', '.join(found)}")
    return next(iter(found.values()))
