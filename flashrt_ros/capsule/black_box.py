"""The black box: of every decision that a guard stopped, the capsule before it and what it saw, on disk.

Owns what is written and the bounds of the folder. Nothing here ever waits in the way of a decision, or raises into it: what cannot be
written is counted.
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

import torch

from flashrt_ros.capsule.evidence import Evidence
from flashrt_ros.capsule.file import SUFFIX, save
from flashrt_ros.capsule.host import HostCopy, HostTier
from flashrt_ros.capsule.record import Record
from flashrt_ros.capsule.stored import seal
from flashrt_ros.capsule.worker import Worker
from flashrt_ros.engine.engine import Engine

OWN = f"{'[0-9]' * 8}T*_*_*_*_*_*{SUFFIX}"  # what may be removed: nothing that a person has put there under a name of its own
ABANDONED_S = 3600.0  # a part of a file that is older was left by a process that was killed: no write takes so long


class BlackBox:
    """folder: where the files go, made when the first is written. limit, max_bytes: of all that black boxes have written there; the oldest
    go, but never the one just written.

    written, lost: evidence so far. problem: why the last was lost; empty: none was, or the folder works again. last: the newest file.
    """

    def __init__(self, folder: str | Path, engine: Engine, limit: int = 64, max_bytes: int = 2 << 30) -> None:
        self._folder, self._limit, self._max_bytes = Path(folder).expanduser(), limit, max_bytes
        self._host = HostTier(engine)
        self._worker = Worker("black-box")
        self.written = self.lost = 0
        self.problem = ""
        self.last: Path | None = None

    def keep(self, record: Record, memory: torch.Tensor, evidence: Evidence) -> None:
        """Take evidence of a decision that has just been stopped. record, memory: of the boundary before it. evidence: without outputs, which
        are fetched here."""
        copy = self._host.fetch(memory)
        if copy is None:
            self.lost += 1
            self.problem = "trips come faster than they can be written"
        else:
            self._worker.do(lambda: self._try(record, copy, evidence))

    def close(self) -> None:
        """Returns when all that was taken is written or lost."""
        self._worker.close()

    def _try(self, record: Record, copy: HostCopy, evidence: Evidence) -> None:
        try:
            self._write(record, copy, evidence)
        except Exception as error:  # a bug here must not cost the evidence of every later trip
            self.lost += 1
            self.problem = f"{self._folder}: {type(error).__name__}: {error}"
        finally:
            copy.release()

    def _write(self, record: Record, copy: HostCopy, evidence: Evidence) -> None:
        copy.wait()
        stored = seal(record, copy.tensors)
        evidence = evidence.with_outputs(copy.outputs)
        place, seen = record.place, evidence.observation
        date = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%f")
        path = self._folder / f"{date}_{place.session}_{place.epoch}_{seen.decision}_{evidence.attempt}_{evidence.guard}{SUFFIX}"
        save(path, stored, evidence)
        self.written += 1
        self.last, self.problem = path, ""
        self._make_room(path)

    def _make_room(self, newest: Path) -> None:
        """By name, which begins with the date. The newest stays whatever its date: a clock may have been set back."""
        sizes = {path: _size(path) for path in sorted(self._folder.glob(OWN)) if path != newest}
        number, total = len(sizes) + 1, sum(sizes.values()) + _size(newest)
        for path, size in sizes.items():
            if number <= self._limit and total <= self._max_bytes:
                break
            path.unlink(missing_ok=True)
            number, total = number - 1, total - size
        for part in self._folder.glob(f".{OWN}.*.part"):
            if _age_s(part) > ABANDONED_S:
                part.unlink(missing_ok=True)


def _size(path: Path) -> int:
    """0 for a file that another black box has just removed."""
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def _age_s(path: Path) -> float:
    with suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime
    return 0.0
