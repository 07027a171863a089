"""Runs single episodes through the engine: what a worker process does. One closed loop exists at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flashrt_ros.bench.closed_loop import ClosedLoop
from flashrt_ros.bench.failures import cause
from flashrt_ros.bench.jobs import BLACK, EXPERT, MEASURED, Job, Setting
from flashrt_ros.bench.recorder import Recorder
from flashrt_ros.bench.rows import Result
from flashrt_ros.bench.strip import draw_strip
from flashrt_ros.contract.load import load


class Runner:
    """failures: where the pictures of failed episodes go; None: none are made. Close it."""

    def __init__(self, failures: Path | None = None) -> None:
        self._failures = failures
        self._made: tuple | None = None  # what the loop was made for
        self._loop: ClosedLoop | None = None

    def run(self, job: Job) -> tuple[Result, str]:
        """The result, and the digest of the pipeline that it belongs to."""
        loop = self._loop_for(job)
        recorder = Recorder(keep_frames=self._failures is not None)
        outcome = loop.run(job.instruction, job.seed, job.told, job.setting.condition == EXPERT, recorder.watch)
        why = None if outcome.success else cause(recorder.finish())
        result = Result(job.kind, job.seed, outcome.task, outcome.told, outcome.success, why, outcome.reason,
                        round(outcome.seconds, 3), outcome.decisions, outcome.refused, round(outcome.decision_ms, 3),
                        round(outcome.decision_p95_ms, 3), round(outcome.jerk_rad_s3, 3), round(outcome.mean_jump_rad, 6))
        if self._failures is not None:
            path = strip_path(self._failures, job)
            if outcome.success:
                path.unlink(missing_ok=True)  # of an earlier run
            else:
                draw_strip(recorder.frames, caption(job, result), path)
        return result, loop.digest

    def close(self) -> None:
        if self._loop is not None:
            self._loop.close()
            self._loop = self._made = None

    def _loop_for(self, job: Job) -> ClosedLoop:
        setting = job.setting
        key = job.path, setting, job.threads
        if key != self._made:
            self.close()
            latency = MEASURED if setting.latency == MEASURED else round(setting.latency * 1e6)
            self._loop = ClosedLoop(load(job.path, dict(setting.overrides)), latency,
                                    np.zeros_like if setting.condition == BLACK else None, setting.device, job.threads,
                                    setting.strategy)
            self._made = key
        return self._loop


def caption(job: Job, result: Result) -> str:
    told = f" (was told: {result.told})" if result.told != result.task else ""
    return f"{result.task}{told} - seed {job.seed} - {result.cause} - {', '.join(_names(job.setting))}"


def strip_path(folder: Path, job: Job) -> Path:
    """`color_servo, black images/place_10003.png`: one folder per row."""
    return folder / ", ".join(_names(job.setting)).replace("/", "_") / f"{job.kind}_{job.seed}.png"


def _names(setting: Setting) -> list[str]:
    return [setting.contract, *(f"{key}={value}" for key, value in setting.overrides), setting.condition]
