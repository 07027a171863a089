"""Who is speaking and in which epoch: the order that chunks carry. Imports nothing of ROS.

A session is one activation; an epoch rises whenever the chunks made so far must not be played any longer.
"""

from __future__ import annotations

import secrets
import threading
from typing import Callable


def random_id() -> int:
    """A random id that fits uint64 and JSON's exact integers, never 0."""
    return secrets.randbits(53) | 1


class Session:
    """announce(session, epoch, reason) is called, from the raising thread, each time the epoch rises."""

    def __init__(self, announce: Callable[[int, int, str], None]) -> None:
        self._announce = announce
        self._lock = threading.Lock()
        self.id = random_id()
        self.epoch = 0
        self.seq = 0

    def raise_epoch(self, reason: str) -> int:
        """reason: activate, task, reset, clock jump or restore."""
        with self._lock:
            self.epoch += 1
            self._announce(self.id, self.epoch, reason)
            return self.epoch

    def stamp(self, epoch: int) -> int | None:
        """The seq for a chunk that was begun in `epoch`, or None when the epoch has risen since: it must not go out."""
        with self._lock:
            if epoch != self.epoch:
                return None
            self.seq += 1
            return self.seq
