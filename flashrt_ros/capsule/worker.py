"""A thread for what must not delay a decision: sealing capsules and writing files."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Callable


class Worker:
    """Carries out jobs one after another. A job must not raise: what a failure means is its own business. A daemon: a disk that
    hangs does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def do(self, job: Callable[[], None]) -> None:
        """Returns at once."""
        self._jobs.put(job)

    def close(self) -> None:
        """Returns when all jobs are done."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
