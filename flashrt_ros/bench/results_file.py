"""What `flashrt eval --json` writes and `--from` reads: the rows with their figures and every episode, and who ran them."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Sequence

from flashrt_ros import __version__
from flashrt_ros.bench.jobs import EvaluationError, Setting
from flashrt_ros.bench.machine import cpu
from flashrt_ros.bench.rows import Line, Result, Row

FORMAT = 1


@dataclass(frozen=True)
class Run:
    """One call of `flashrt eval`."""

    machine: str
    cores: int
    date: str
    command: str
    version: str


def this_run(command: Sequence[str], device: str = "cpu") -> Run:
    return Run(_machine(device), os.cpu_count() or 1, str(date.today()), " ".join(command), __version__)


def machines(runs: Sequence[Run]) -> list[str]:
    """Where and when these runs were made, each once."""
    return list(dict.fromkeys(f"{run.machine}, {run.cores} cores, {run.date}" for run in runs))


def write(path: Path, runs: Sequence[Run], lines: Sequence[Line]) -> None:
    """lines: of the rows and their parts. Parts stand without episodes: their row has them."""
    figures = [_plain(line) for line in lines]
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"format": FORMAT, "runs": [asdict(run) for run in runs], "rows": figures}
    path.write_text(json.dumps(data, indent=1, allow_nan=False))


def read(path: Path) -> tuple[list[Run], list[Row]]:
    """Raises EvaluationError for a file that is none."""
    try:
        data = json.loads(path.read_text())
        if data["format"] != FORMAT:
            raise EvaluationError(f"{path}: format {data['format']!r}; this version reads {FORMAT}: run it again with --json")
        return [Run(**run) for run in data["runs"]], [_row(row) for row in data["rows"] if not row["part"]]
    except OSError as error:
        raise EvaluationError(f"{path}: {error.strerror}; give a file that `flashrt eval --json` wrote") from error
    except (ValueError, KeyError, TypeError) as error:
        raise EvaluationError(f"{path}: not results of `flashrt eval --json` ({type(error).__name__}: {error})") from error


def merge(files: Sequence[tuple[Path, list[Run], list[Row]]]) -> tuple[list[Run], list[Row]]:
    """The rows of several files. Episodes of one row come together if no two differ; rows of one kind must have the same
    seeds in the end, for they are compared scene by scene. Raises EvaluationError."""
    runs: list[Run] = []
    merged: dict[tuple[Setting, str], tuple[Path, Row]] = {}
    for path, its_runs, rows in files:
        for row in rows:
            row = replace(row, runs=tuple(len(runs) + run for run in row.runs))
            key = row.setting, row.kind
            merged[key] = (path, _joined(*merged[key], row, path) if key in merged else row)
        runs += its_runs
    for kind in {row.kind for _, row in merged.values()}:
        (path, first), *others = (entry for entry in merged.values() if entry[1].kind == kind)
        for other_path, other in others:
            if not set(other.seeds) & set(first.seeds):
                raise EvaluationError(
                    f"{other_path}: row {named(other)} has {_span(other)}, but {named(first)} of {path} has {_span(first)}: rows "
                    "are compared scene by scene, and these share none; run them with the same --seed")
    return runs, [row for _, row in merged.values()]


def named(row: Row) -> str:
    """A row's identity in words."""
    setting = row.setting
    latency = f"{setting.latency:g} ms" if isinstance(setting.latency, float) else setting.latency
    values = [f"{key}={value}" for key, value in setting.overrides]
    player = f"latency {latency}", f"strategy {setting.strategy}"
    return f"({', '.join([setting.contract, *values, setting.condition, row.task, *player, setting.device])})"


def _joined(path: Path, ours: Row, theirs: Row, their_path: Path) -> Row:
    episodes = {e.seed: e for e in ours.episodes}
    clash = next((e.seed for e in theirs.episodes if episodes.get(e.seed, e) != e), None)
    if ours.digest != theirs.digest or clash is not None:
        why = f"seed {clash} ended differently" if ours.digest == theirs.digest else "their contracts or weights differ (digest)"
        raise EvaluationError(f"{their_path}: row {named(theirs)} is also in {path}, with other results: {why}; leave one of the "
                              "files out, or give one of the contracts another file name")
    episodes |= {e.seed: e for e in theirs.episodes}
    return replace(ours, episodes=tuple(episodes[seed] for seed in sorted(episodes)), runs=ours.runs + theirs.runs)


def _span(row: Row) -> str:
    return f"{len(row.seeds)} seeds from {row.seeds[0]} to {row.seeds[-1]}"


def _plain(line: Line) -> dict:
    row, baseline = line.row, line.baseline
    return {
        **asdict(row.setting), "overrides": dict(row.setting.overrides), "task": row.kind, "part": row.part, "digest": row.digest,
        "runs": list(row.runs), "success": line.successes, "n": line.n, "wilson_95": line.interval,
        "baseline": baseline and named(baseline), "paired": line.paired if baseline else None, "difference_points": line.difference,
        "difference_95_points": line.difference_interval, "median_s": line.median_s,
        "decision_ms": {"median": line.decision_ms, "p95": line.decision_p95_ms}, "refused": line.refused,
        "jerk_rad_s3": line.jerk_rad_s3, "mean_jump_rad": line.mean_jump_rad,
        "causes": dict(line.causes), "episodes": [] if row.part else [asdict(e) for e in row.episodes],
    }


def _row(data: dict) -> Row:
    if not data["episodes"]:
        raise ValueError("a row without episodes")
    latency = data["latency"]
    setting = Setting(data["contract"], tuple(data["overrides"].items()), data["condition"],
                      latency if isinstance(latency, str) else float(latency), data["device"],
                      data.get("strategy", "latest"))  # files of versions that knew no other
    episodes = tuple(Result(**episode) for episode in data["episodes"])
    return Row(setting, data["task"], data["digest"], episodes, runs=tuple(data["runs"]))


def _machine(device: str) -> str:
    name = cpu()
    if device.startswith("cuda"):
        import torch

        name += f", {torch.cuda.get_device_name(device)}"
    return name
