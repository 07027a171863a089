"""What one decision was: the chunk, and the record of what ran for it. Imports numpy and errors only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flashrt_ros.errors import FlashRTError


class EngineError(FlashRTError):
    """The engine could not make a decision. stage: the stage that failed, or None when the call itself was wrong.

    After a stage error the engine is consistent: the stage is due again and the next decision works.
    """

    def __init__(self, message: str, stage: str | None = None) -> None:
        super().__init__(message)
        self.stage = stage


def said(error: Exception) -> str:
    """What a stage raised, in one line that is the same wherever it is raised. TorchScript puts the stack of whoever traced the
    stage before the message."""
    lines, kind = str(error).strip().splitlines() or [""], type(error).__name__
    return f"{kind}: {lines[-1].removeprefix(f'{kind}: ') if 'TorchScript' in lines[0] else lines[0]}"


@dataclass(frozen=True, slots=True)
class StageRun:
    """One stage that ran, or was launched, at a decision. reason: one of contract.refresh.REASONS.
    duration_ns: of the stage's own work; None while a background run has not finished."""

    stage: str
    reason: str
    background: bool
    duration_ns: int | None


@dataclass(frozen=True, slots=True)
class Commit:
    """A background run whose results became visible at the start of a decision. launched: the decision it began at."""

    stage: str
    launched: int
    duration_ns: int | None


@dataclass(frozen=True, slots=True)
class StageState:
    """A stage after a decision. version: of the buffers that it writes. stamp_ns: of the oldest observation in them,
    age_ns: now - stamp_ns; both None when nothing stamped reaches it, or when it never ran. last_run: decision of its
    last run or launch. misses: background runs, since the engine was made, that were unfinished at their commit."""

    name: str
    version: int
    stamp_ns: int | None
    age_ns: int | None
    last_run: int | None
    misses: int


@dataclass(frozen=True, slots=True)
class Decision:
    """candidates: float32 [n, H, N], chunks in the order of the policy's joints that differ in their noise only, a copy; n is 1
    but for an engine that forks. None: there is none, and `refused` says why.

    late: the stages whose background run was to be committed here or before and was not finished. A replay that passes
    them to Engine.decide(withheld=...) makes the same decisions whatever the speed of its machine.
    """

    index: int
    now_ns: int
    candidates: np.ndarray | None
    refused: str | None
    runs: tuple[StageRun, ...]
    commits: tuple[Commit, ...]
    late: tuple[str, ...]
    stages: tuple[StageState, ...]
    warnings: tuple[str, ...] = ()

    @property
    def chunk(self) -> np.ndarray | None:
        """float32 [H, N]: the first candidate, from the noise that is the decision's own."""
        return None if self.candidates is None else self.candidates[0]
