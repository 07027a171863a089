"""Processes that compute for a parent: how they are started. Imports nothing of the package."""

from __future__ import annotations

import multiprocessing
import signal
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Callable, Iterator


def start(target: Callable[..., None], *arguments: object) -> tuple[Connection, BaseProcess]:
    """A daemon process that runs target(pipe, *arguments), and the parent's end of that pipe. Both must be picklable.

    It is spawned: a forked one would inherit PyTorch's threads, and CUDA and EGL contexts.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    return ours, process


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """What is started in here does not hear the terminal's Ctrl-C: the parent ends it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
