"""How stages are carried out: eagerly, on a CPU or a CUDA device.

The Executor protocol is the seam at which CUDA graphs replace eager execution. An executor knows no schedule, no
versions and no buffers but those of the call in hand.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Callable, ContextManager, Iterator, Protocol

import numpy as np
import torch

from flashrt_ros.contract.spec import BufferSpec
from flashrt_ros.engine.buffers import Arena, copy
from flashrt_ros.engine.decision import EngineError
from flashrt_ros.engine.plan import Call, Copies
from flashrt_ros.policies.base import Policy

BACKGROUNDS = ("synchronous", "thread")
BACKGROUND_NICE = 10


class Run(Protocol):
    """One execution of a call. done: its results can be copied. error: what the stage raised, once done.
    duration_ns: of the stage's work; None before it is known (on a GPU: before the next read or wait)."""

    @property
    def done(self) -> bool: ...

    @property
    def error(self) -> Exception | None: ...

    @property
    def duration_ns(self) -> int | None: ...

    def wait(self) -> None:
        """Block until done."""


class Executor(Protocol):
    """All methods are called from one thread, inside `scope`. Work is carried out in the order of the calls, except
    that the stage of a launch (not its copies) may run beside what follows."""

    def scope(self) -> ContextManager[None]:
        """The torch modes and the stream under which everything else is called."""

    def run(self, call: Call) -> Run:
        """Carry out a call in order. A stage's exception is in the run's `error`, not raised."""

    def launch(self, call: Call) -> Run:
        """Make the call's copies in order, then run its stage in the background."""

    def copy(self, pairs: Copies) -> None:
        """Copy (to, from) pairs in order."""

    def fence(self) -> Callable[[], None]:
        """A function that blocks until all work so far is done."""

    def read(self, tensor: torch.Tensor) -> np.ndarray:
        """A fresh host copy of the chunk; the one place that waits for the device."""

    def close(self) -> None:
        """Stop taking background work. A run that is executing is left to end by itself."""


def make_executor(policy: Policy, arena: Arena, chunk: BufferSpec, threads: int, background: str) -> Executor:
    """The eager executor for the arena's device. Raises EngineError for an unknown background mode."""
    if background not in BACKGROUNDS:
        raise EngineError(f"background {background!r} is not a mode; allowed: {', '.join(BACKGROUNDS)}")
    if arena.device.type == "cuda":
        return CudaExecutor(policy, arena, chunk, background)
    return CpuExecutor(policy, threads, background)


class _CpuRun:
    def __init__(self) -> None:
        self.error: Exception | None = None
        self.duration_ns: int | None = None
        self._done = threading.Event()

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def wait(self) -> None:
        self._done.wait()

    def execute(self, policy: Policy, call: Call) -> None:
        start = time.perf_counter_ns()
        try:
            policy.run(call.stage, call.reads, call.writes)
        except Exception as error:
            self.error = error
        self.duration_ns = time.perf_counter_ns() - start
        self._done.set()


class CpuExecutor:
    """Stages run on the caller's thread; background stages likewise (`synchronous`: done when launched), or one after
    another on one worker thread (`thread`). The worker is a daemon: a hung stage does not keep the process alive."""

    def __init__(self, policy: Policy, threads: int, background: str) -> None:
        self._policy = policy
        self._jobs: SimpleQueue[tuple[_CpuRun, Call] | None] | None = None
        if background == "thread":
            self._jobs = SimpleQueue()
            threading.Thread(
                target=_work, args=(self._jobs, policy, threads), name="flashrt-background", daemon=True
            ).start()

    def scope(self) -> ContextManager[None]:
        return torch.inference_mode()

    def run(self, call: Call) -> _CpuRun:
        copy(call.copies)
        run = _CpuRun()
        run.execute(self._policy, call)
        return run

    def launch(self, call: Call) -> _CpuRun:
        if self._jobs is None:
            return self.run(call)
        copy(call.copies)
        run = _CpuRun()
        self._jobs.put((run, call))
        return run

    def copy(self, pairs: Copies) -> None:
        copy(pairs)

    def fence(self) -> Callable[[], None]:
        return lambda: None

    def read(self, tensor: torch.Tensor) -> np.ndarray:
        return tensor.numpy().copy()

    def close(self) -> None:
        if self._jobs is not None:
            self._jobs.put(None)


def _work(jobs: SimpleQueue, policy: Policy, threads: int) -> None:
    torch.set_num_threads(threads)  # OpenMP keeps the count per thread
    if sys.platform == "linux":  # where a thread has a niceness of its own: decisions come first
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BACKGROUND_NICE)
    with torch.inference_mode():  # and torch this mode
        while (job := jobs.get()) is not None:
            run, call = job
            run.execute(policy, call)


class _CudaRun:
    """Events around the stage's kernels. An executor keeps one per call, so a new run reuses the events of the last."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.start = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)

    @property
    def done(self) -> bool:
        return self.end.query()

    @property
    def duration_ns(self) -> int | None:
        return round(self.start.elapsed_time(self.end) * 1e6) if self.done else None

    def wait(self) -> None:
        self.end.synchronize()

    def execute(self, policy: Policy, call: Call, stream: torch.cuda.Stream) -> None:
        self.error = None
        self.start.record(stream)
        try:
            policy.run(call.stage, call.reads, call.writes)
        except Exception as error:
            self.error = error
        self.end.record(stream)


class CudaExecutor:
    """The action's stream has the highest priority. Background stages have a stream of the lowest (`thread`), whose
    order against the action's is kept by events; or they use the action's own (`synchronous`) and are waited for."""

    def __init__(self, policy: Policy, arena: Arena, chunk: BufferSpec, background: str) -> None:
        self._policy = policy
        low, high = torch.cuda.Stream.priority_range()
        self._action = torch.cuda.Stream(arena.device, priority=high)
        self._background = torch.cuda.Stream(arena.device, priority=low) if background == "thread" else None
        self._frozen = torch.cuda.Event()
        self._runs: dict[int, _CudaRun] = {}  # by the identity of the call, which lives as long as the engine
        self._chunk = arena.host(chunk)

    @contextmanager
    def scope(self) -> Iterator[None]:
        with torch.inference_mode(), torch.cuda.stream(self._action):
            yield

    def run(self, call: Call) -> _CudaRun:
        copy(call.copies)
        run = self._run_of(call)
        run.execute(self._policy, call, self._action)
        return run

    def launch(self, call: Call) -> _CudaRun:
        if self._background is None:
            run = self.run(call)
            run.wait()
            return run
        copy(call.copies)
        run = self._run_of(call)
        self._frozen.record(self._action)
        # The stage starts after the copies into its shadow, and so after the last commit out of it.
        self._background.wait_event(self._frozen)
        with torch.cuda.stream(self._background):
            run.execute(self._policy, call, self._background)
        return run

    def copy(self, pairs: Copies) -> None:
        copy(pairs)

    def fence(self) -> Callable[[], None]:
        event = torch.cuda.Event()
        event.record(self._action)
        return event.synchronize

    def read(self, tensor: torch.Tensor) -> np.ndarray:
        self._chunk.copy_(tensor, non_blocking=True)
        self._action.synchronize()
        return self._chunk.numpy().copy()

    def close(self) -> None:
        """Nothing to stop: the streams end with the executor."""

    def _run_of(self, call: Call) -> _CudaRun:
        if id(call) not in self._runs:
            self._runs[id(call)] = _CudaRun()
        return self._runs[id(call)]
