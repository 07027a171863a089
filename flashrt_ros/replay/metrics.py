"""What a replay is judged by: how far what was decided is from what was done, and how the pipeline fared. numpy only.

Open loop: the recorded motion is of whoever moved the robot then, and the policy saw what followed from that, not from its own chunks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Sequence

import numpy as np

from flashrt_ros.capsule.maker import Made, NotMade
from flashrt_ros.chunk.chunk import Chunk
from flashrt_ros.chunk.sample import sample
from flashrt_ros.replay.redecide import Step

HORIZONS_S = (0.1, 0.2, 0.5, 1.0)  # at which errors are told, where a chunk reaches so far


class Truth:
    """What the joints did, at the stamps that count: positions of N joints, rad or m, in the order of their recording."""

    def __init__(self) -> None:
        self._times_ns: list[int] = []
        self._positions: list[np.ndarray] = []
        self._arrays: tuple[np.ndarray, np.ndarray] | None = None

    def add(self, time_ns: int, positions: np.ndarray) -> None:
        """positions: [N]. What comes out of order says nothing new."""
        if not self._times_ns or time_ns > self._times_ns[-1]:
            self._times_ns.append(time_ns)
            self._positions.append(np.asarray(positions, np.float32))
            self._arrays = None

    def at(self, times_ns: np.ndarray) -> np.ndarray:
        """float64 [len(times_ns), N], between samples on a straight line; NaN outside the recording."""
        if len(self._times_ns) < 2:
            return np.full((len(times_ns), len(self._positions[0]) if self._positions else 0), np.nan)
        if self._arrays is None:
            since = (np.array(self._times_ns, np.int64) - self._times_ns[0]) * 1e-9
            self._arrays = since, np.array(self._positions, np.float64).T
        since, columns = self._arrays
        asked = (times_ns - self._times_ns[0]) * 1e-9
        return np.stack([np.interp(asked, since, column, left=np.nan, right=np.nan) for column in columns], axis=1)


@dataclass
class Metrics:
    """Reckoned step by step, in memory that does not grow with the cameras' frames. joints: of the chunk, in order; of each, its column in
    the truth or None."""

    joints: tuple[str, ...]
    columns: tuple[int | None, ...]
    step_ns: int
    chunks: list[Chunk] = field(default_factory=list)
    refused: Counter = field(default_factory=Counter)
    trips: Counter = field(default_factory=Counter)
    runs: Counter = field(default_factory=Counter)
    ages_ns: dict[str, list[int]] = field(default_factory=dict)
    moments: int = 0
    idle: int = 0

    def add(self, step: Step) -> None:
        self.moments += 1
        outcome = step.outcome
        if outcome is None:
            self.idle += 1
            return
        for tripped in outcome.trips:
            self.trips[tripped.trip.guard] += 1
        if isinstance(outcome, NotMade):
            refusal = outcome.refusal
            self.refused[f"{refusal.input} {refusal.reason}" if refusal else outcome.trips[-1].trip.guard] += 1
            return
        self._add_made(outcome)

    def _add_made(self, made: Made) -> None:
        self.chunks.append(made.chunk)
        for run in made.decision.runs:
            self.runs[run.stage] += 1
        for stage in made.decision.stages:
            if stage.age_ns is not None:
                self.ages_ns.setdefault(stage.name, []).append(stage.age_ns)

    def errors(self, truth: Truth) -> np.ndarray:
        """|chunk - truth|, float64 [H, N], the mean over all chunks; NaN where none has a counterpart."""
        if not self.chunks:
            return np.full((0, len(self.joints)), np.nan)
        horizon = self.chunks[0].horizon
        total, count = np.zeros((horizon, len(self.joints))), np.zeros((horizon, len(self.joints)))
        steps = np.arange(horizon, dtype=np.int64) * self.step_ns
        known = [i for i, column in enumerate(self.columns) if column is not None]
        for chunk in self.chunks:
            done = truth.at(chunk.start_ns + steps)
            for i in known:
                apart = np.abs(chunk.positions[:, i] - done[:, self.columns[i]])
                total[:, i] += np.nan_to_num(apart)
                count[:, i] += ~np.isnan(apart)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def jumps(self) -> np.ndarray:
        """How far each chunk is from what the one before said for its first moment: the joint that is farthest, rad or m."""
        pairs = [(sample(before, chunk.start_ns), chunk) for before, chunk in zip(self.chunks, self.chunks[1:])]
        return np.array([np.abs(chunk.positions[0] - said.position).max() for said, chunk in pairs if not said.past_end])

    def figures(self, truth: Truth) -> dict[str, Any]:
        """In JSON types. Errors by joint and horizon: mean of the absolute difference, rad or m."""
        errors, jumps = self.errors(truth), self.jumps()
        rows = {f"{at_s:g}": round(at_s * 1e9 / self.step_ns) for at_s in HORIZONS_S}
        return {
            "moments": self.moments, "without_task": self.idle, "chunks": len(self.chunks),
            "refused": dict(sorted(self.refused.items())), "trips": dict(sorted(self.trips.items())), "runs": dict(sorted(self.runs.items())),
            "age_ms": {stage: _quantiles(np.array(ages) * 1e-6) for stage, ages in sorted(self.ages_ns.items())},
            "jump": _quantiles(jumps),
            "error": {joint: {at_s: _number(errors[row, i]) for at_s, row in rows.items() if row < len(errors)}
                      for i, joint in enumerate(self.joints)},
        }


def _quantiles(values: Sequence[float]) -> dict[str, float | None]:
    return {f"p{q}": _number(np.percentile(values, q)) if len(values) else None for q in (50, 99, 100)}


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if np.isnan(value) else round(float(value), 9)
