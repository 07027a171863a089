"""A process that writes capsules until it is killed.

`killed_writer.py FOLDER calls`: once per call that a write makes to the file system, with kill -9 right before it.
`killed_writer.py FOLDER anytime ROUNDS SEED`: in a loop, with kill -9 from outside after a random time.
Each round is a process of its own, forked before torch has any thread.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Callable

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "engine")]

from capsule_cases import decided, sealed  # noqa: E402

from flashrt_ros.capsule.file import SUFFIX, save  # noqa: E402
from flashrt_ros.capsule.stored import Stored, seal  # noqa: E402

LONG = 2 << 20  # float32 elements: a write that takes its time


def capsules(elements: int) -> list[Stored]:
    """Two that differ, of so many elements each, whose record says which it is."""
    record = sealed(decided()).record
    return [seal(replace(record, parent=str(i)), {"big": torch.full((elements,), float(i))}) for i in range(2)]


def forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)  # no farewell of the parent's
    return child


def kill_before_each_call(folder: Path) -> int:
    """The number of rounds; in the last, the write ended before the call came that was to be its last."""
    old, new = capsules(1000)
    calls = 0
    while True:
        path = folder / f"{calls:04}{SUFFIX}"
        save(path, old)

        def work() -> None:
            left = calls

            def at_call(frame, event, argument) -> None:
                nonlocal left
                if event == "c_call" and (argument.__module__ or type(argument.__self__).__module__) in ("posix", "_io"):
                    left -= 1
                    if left < 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.setprofile(at_call)
            save(path, new)
            sys.setprofile(None)

        _, status = os.waitpid(forked(work), 0)
        calls += 1
        if not os.WIFSIGNALED(status):
            return calls


def kill_at_any_time(folder: Path, rounds: int, seed: int) -> int:
    """How many rounds had written at least one file when they ended."""
    both, chance, wrote = capsules(LONG), random.Random(seed), 0
    for i in range(rounds):
        path = folder / f"{i:04}{SUFFIX}"

        def work() -> None:
            while True:
                for stored in both:
                    save(path, stored)

        child = forked(work)
        time.sleep(chance.uniform(0.0, 0.2))  # not to wait for anything: the moment is what is tried
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        wrote += path.exists()
    return wrote


if __name__ == "__main__":
    where = Path(sys.argv[1])
    print(kill_before_each_call(where) if sys.argv[2] == "calls" else kill_at_any_time(where, int(sys.argv[3]), int(sys.argv[4])))
