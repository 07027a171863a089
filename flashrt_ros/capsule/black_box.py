"""The black box: of every decision that a guard stopped, the capsule before it and what it saw, on disk.

Owns the writer thread and the bounds of the folder. Nothing here ever waits in the way of a decision, or raises into it: what cannot be
written is counted.
"""

from __future__ import annotations

import threading
from datetime import datetime, timezone
from pathlib import Path
from queue import SimpleQueue

import torch

from flashrt_ros.capsule.evidence import Evidence
from flashrt_ros.capsule.file import SUFFIX, save
from flashrt_ros.capsule.host import HostCopy, HostTier
from flashrt_ros.capsule.record import Record
from flashrt_ros.capsule.stored import seal
from flashrt_ros.engine.engine import Engine


class BlackBox:
    """folder: where the files go, made when the first is written. limit, max_bytes: of this folder's capsule files; the oldest go.

    written, lost: evidence so far. problem: why the last was lost; empty: none was, or the folder works again. last: the newest file.
    """

    def __init__(self, folder: str | Path, engine: Engine, limit: int = 64, max_bytes: int = 2 << 30) -> None:
        self._folder, self._limit, self._max_bytes = Path(folder).expanduser(), limit, max_bytes
        self._host = HostTier(engine)
        self._jobs: SimpleQueue[tuple[Record, HostCopy, Evidence] | None] = SimpleQueue()
        self.written = self.lost = 0
        self.problem = ""
        self.last: Path | None = None
        self._thread = threading.Thread(target=self._work, name="black-box", daemon=True)
        self._thread.start()

    def keep(self, record: Record, memory: torch.Tensor, evidence: Evidence) -> None:
        """Take evidence of a decision that has just been stopped. record, memory: of the boundary before it. evidence: without outputs, which
        are fetched here."""
        copy = self._host.fetch(memory)
        if copy is None:
            self.lost += 1
            self.problem = "trips come faster than they can be written"
        else:
            self._jobs.put((record, copy, evidence))

    def close(self) -> None:
        """Returns when all that was taken is written or lost."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._write(*job)
            except Exception as error:  # a bug here must not cost the evidence of every later trip
                self.lost += 1
                self.problem = f"{self._folder}: {type(error).__name__}: {error}"
            finally:
                job[1].release()

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
        self._make_room()

    def _make_room(self) -> None:
        """By name, which begins with the date: the oldest first, and never the newest."""
        files = [(path, path.stat().st_size) for path in sorted(self._folder.glob(f"*{SUFFIX}"))]
        while len(files) > 1 and (len(files) > self._limit or sum(size for _, size in files) > self._max_bytes):
            files.pop(0)[0].unlink(missing_ok=True)
