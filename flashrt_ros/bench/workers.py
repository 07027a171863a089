"""Episodes in many spawned processes. A worker stays with a setting as long as there are episodes of it, because what is
built for one (engine, world, graphics context) serves them all. Imports neither torch nor mujoco in the parent."""

from __future__ import annotations

import os
import traceback
from collections import Counter, deque
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Iterator, Sequence

from flashrt_ros.bench.jobs import EvaluationError, Job, Setting
from flashrt_ros.bench.rows import Result
from flashrt_ros.errors import FlashRTError
from flashrt_ros.spawn import deaf_to_ctrl_c, start


@dataclass
class _Worker:
    process: BaseProcess
    job: Job | None = None


def episodes(jobs: Sequence[Job], workers: int, failures: Path | None = None,
             threads: int = 1) -> Iterator[tuple[Job, Result, str]]:
    """Every job with its result and its pipeline's digest, as they end. failures: see Runner. threads: of each process.

    Closing the iterator, or Ctrl-C, ends the processes. Raises EvaluationError for an error in a worker or a worker's death.
    """
    queue = _Queue(jobs)
    crew: dict[Connection, _Worker] = {}
    try:
        with _environment(threads), deaf_to_ctrl_c():
            for _ in range(min(workers, len(jobs))):
                pipe, process = start(_work, failures)
                crew[pipe] = _Worker(process)
        for pipe, worker in crew.items():
            _give(pipe, worker, queue)
        while any(worker.job for worker in crew.values()):
            for pipe in wait([pipe for pipe, worker in crew.items() if worker.job]):
                worker = crew[pipe]
                job, answer = worker.job, _answer(pipe, worker)
                _give(pipe, worker, queue)  # before the result is looked at: the worker need not wait for that
                yield job, *answer
    except BaseException:
        for worker in crew.values():
            worker.process.terminate()
        raise
    finally:
        for pipe, worker in crew.items():
            pipe.close()
            worker.process.join()


class _Queue:
    """Jobs by setting. take() goes on with the setting that a worker has, else joins the one with most jobs per worker."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._waiting: dict[Setting, deque[Job]] = {}
        self._at_work: Counter[Setting] = Counter()
        for job in jobs:
            self._waiting.setdefault(job.setting, deque()).append(job)

    def take(self, last: Job | None) -> Job | None:
        setting = None if last is None else last.setting
        if setting not in self._waiting:
            if setting is not None:
                self._at_work[setting] -= 1
            setting = max(self._waiting, key=lambda s: len(self._waiting[s]) / (1 + self._at_work[s]), default=None)
            if setting is None:
                return None
            self._at_work[setting] += 1
        jobs = self._waiting[setting]
        job = jobs.popleft()
        if not jobs:
            del self._waiting[setting]
        return job


def _give(pipe: Connection, worker: _Worker, queue: _Queue) -> None:
    worker.job = queue.take(worker.job)
    try:
        pipe.send(worker.job)
    except OSError:
        pass  # it has died; its answer will say so


def _answer(pipe: Connection, worker: _Worker) -> tuple[Result, str]:
    try:
        answer = pipe.recv()
    except (EOFError, OSError):
        worker.process.join()
        raise EvaluationError(
            f"a worker ended with status {worker.process.exitcode} in {worker.job.kind}, seed {worker.job.seed} "
            f"({worker.job.setting.condition}); if memory ran out (status -9), try fewer --workers") from None
    if isinstance(answer, str):
        raise EvaluationError(answer)
    return answer


def _work(pipe: Connection, failures: Path | None) -> None:
    from flashrt_ros.bench.runner import Runner

    runner = Runner(failures)
    try:
        while (job := pipe.recv()) is not None:
            try:
                pipe.send(runner.run(job))
            except FlashRTError as error:
                pipe.send(str(error))
            except Exception:  # a bug: the parent ends the evaluation with its traceback
                pipe.send(f"{job.kind}, seed {job.seed}, {job.setting.condition}: an error in the program\n"
                          f"{traceback.format_exc()}")
    except (EOFError, OSError):  # the parent is gone
        pass
    finally:
        runner.close()


@contextmanager
def _environment(threads: int) -> Iterator[None]:
    """As many threads per process as were asked for, whoever would start more: OpenMP and BLAS one per core, Mesa's software
    rasteriser up to 32 (0: it draws in the calling thread)."""
    wanted = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)) | {"LP_NUM_THREADS": "0"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
