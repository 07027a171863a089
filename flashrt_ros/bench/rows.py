"""Episodes of one setting and kind of task make a row; rows are compared on the scenes that they share. Pure Python and numpy."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Iterable, Sequence

import numpy as np

from flashrt_ros.bench.intervals import paired_bootstrap, unpaired_bootstrap, wilson
from flashrt_ros.bench.jobs import HELD_OUT_PAIRS, POLICY, Setting
from flashrt_ros.policies.instruction import is_held_out, parse

LEAST = 10  # episodes that each half of `place` must have to be shown by itself
OTHER_PAIRS = "other pairs"


@dataclass(frozen=True)
class Result:
    """One episode, as it stands in a results file. task: the instruction that is scored; told: the one that the policy got.
    cause: why it failed, one of failures.CAUSES, None after success. seconds: simulated. refused, decision_ms, jerk_rad_s3,
    mean_jump_rad: see Outcome; the last two are None in files of versions that did not measure them. How long decisions took and
    how smooth the motion was plays no part in equality."""

    kind: str
    seed: int
    task: str
    told: str
    success: bool
    cause: str | None
    reason: str
    seconds: float
    decisions: int
    refused: int
    decision_ms: float = field(compare=False)
    decision_p95_ms: float = field(compare=False)
    jerk_rad_s3: float | None = field(default=None, compare=False)
    mean_jump_rad: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Row:
    """Episodes of one setting and kind, by rising seed. part: which of them, if not all. runs: which runs made them."""

    setting: Setting
    kind: str
    digest: str
    episodes: tuple[Result, ...]
    part: str = ""
    runs: tuple[int, ...] = (0,)

    @property
    def task(self) -> str:
        return f"{self.kind}, {self.part}" if self.part else self.kind

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(episode.seed for episode in self.episodes)


@dataclass(frozen=True)
class Line:
    """A row's figures. baseline: the row that it is compared with; difference to it in success and the 95 % interval of
    that, in percentage points. paired: on the scenes that both have. median_s: of the successes. decision_ms,
    decision_p95_ms: an episode's median and 95th percentile, of the median episode; jerk_rad_s3, mean_jump_rad: likewise, None if not
    measured. causes: of the failures, most first."""

    row: Row
    successes: int
    n: int
    interval: tuple[float, float]
    median_s: float | None
    decision_ms: float
    decision_p95_ms: float
    jerk_rad_s3: float | None
    mean_jump_rad: float | None
    refused: int
    causes: tuple[tuple[str, int], ...]
    baseline: Row | None = None
    difference: float | None = None
    difference_interval: tuple[float, float] | None = None
    paired: bool = True


def lines(rows: Sequence[Row]) -> list[Line]:
    """Rows in the order of their kinds' first appearance, each compared with the first of its kind; those of `place` with
    their halves behind them. Held-out pairs are compared with the other pairs of the same policy."""
    out = []
    for kind in dict.fromkeys(row.kind for row in rows):
        alike = [row for row in rows if row.kind == kind]
        halves = {row.setting: _halves(row) for row in alike if kind == "place" and row.setting.condition == POLICY}
        for row in alike:
            if row.setting.condition == HELD_OUT_PAIRS:
                others, _ = halves.get(replace(row.setting, condition=POLICY), (None, None))
                out.append(_line(row, others))
            else:
                out.append(_line(row, None if row is alike[0] else alike[0]))
            if row.setting in halves and min(len(half.episodes) for half in halves[row.setting]) >= LEAST:
                others, held_out = halves[row.setting]
                out += [_line(others, None), _line(held_out, others)]
    return out


def _halves(row: Row) -> tuple[Row, Row]:
    """The episodes of `place` whose instruction is not held out, and those whose is."""
    parts = [tuple(e for e in row.episodes if is_held_out(parse(e.task)) == wanted) for wanted in (False, True)]
    return replace(row, episodes=parts[0], part=OTHER_PAIRS), replace(row, episodes=parts[1], part=HELD_OUT_PAIRS)


def _line(row: Row, baseline: Row | None) -> Line:
    done = [e for e in row.episodes if e.success]
    line = Line(
        row, len(done), len(row.episodes), wilson(len(done), len(row.episodes)),
        median_s=_median(e.seconds for e in done) if done else None,
        decision_ms=_median(e.decision_ms for e in row.episodes),
        decision_p95_ms=_median(e.decision_p95_ms for e in row.episodes),
        jerk_rad_s3=_median_of_known(e.jerk_rad_s3 for e in row.episodes),
        mean_jump_rad=_median_of_known(e.mean_jump_rad for e in row.episodes),
        refused=sum(e.refused for e in row.episodes),
        causes=tuple(Counter(e.cause for e in row.episodes if not e.success).most_common()),
    )
    return _compared(line, baseline) if baseline is not None and baseline.episodes else line


def _compared(line: Line, baseline: Row) -> Line:
    ours, theirs = ({e.seed: e.success for e in row.episodes} for row in (line.row, baseline))
    shared = sorted(ours.keys() & theirs.keys())
    a, b = ([results[seed] for seed in shared or results] for results in (ours, theirs))
    low, high = paired_bootstrap(a, b) if shared else unpaired_bootstrap(a, b)
    return replace(line, baseline=baseline, difference=100 * float(np.mean(a) - np.mean(b)),
                   difference_interval=(100 * low, 100 * high), paired=bool(shared))


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))


def _median_of_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _median(known) if known else None
