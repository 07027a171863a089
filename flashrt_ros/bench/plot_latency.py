"""The picture of rows that differ in latency: what it costs, per strategy of the player. Tasks are put together."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

from flashrt_ros.bench.intervals import wilson  # noqa: E402
from flashrt_ros.bench.jobs import MEASURED, POLICY
from flashrt_ros.bench.results_file import Run, machines
from flashrt_ros.bench.rows import Line, Result

# Paul Tol's "bright" colours, apart for all common kinds of colour blindness.
STYLES = {"latest": ("#4477aa", "o"), "ensemble": ("#228833", "s"), "rtc": ("#ee6677", "D")}
APART_MS = 2.5  # strategies are drawn side by side, so that no bar hides another


def latencies(lines: Sequence[Line]) -> list[float]:
    """The simulated latencies (ms) of whole rows that a policy made, rising."""
    return sorted({line.row.setting.latency for line in lines if _counts(line)})


def draw(lines: Sequence[Line], runs: Sequence[Run], path: Path) -> None:
    """PNG: success, jerk and mean jump over latency, a line per strategy. Success with its Wilson interval, the others with
    quartiles over episodes."""
    groups: dict[tuple[str, float], list[Result]] = {}
    for line in filter(_counts, lines):
        groups.setdefault((line.row.setting.strategy, line.row.setting.latency), []).extend(line.row.episodes)
    figure, (success, jerk, jump) = plt.subplots(1, 3, figsize=(12.5, 4.2), constrained_layout=True)
    strategies = [name for name in STYLES if any(name == strategy for strategy, _ in groups)]
    for i, strategy in enumerate(strategies):
        own = sorted((latency, episodes) for (name, latency), episodes in groups.items() if name == strategy)
        at = [latency + APART_MS * (i - (len(strategies) - 1) / 2) for latency, _ in own]
        colour, marker = STYLES[strategy]
        for axes, figures in ((success, [_success(e) for _, e in own]), (jerk, [_quartiles(e, "jerk_rad_s3") for _, e in own]),
                              (jump, [_quartiles(e, "mean_jump_rad") for _, e in own])):
            low, middle, high = np.array(figures).T
            axes.errorbar(at, middle, yerr=[middle - low, high - middle], color=colour, marker=marker, capsize=3, label=strategy)
    for axes, title in ((success, "success (%), 95 % Wilson"), (jerk, "RMS jerk of the commands (rad/s³), quartiles"),
                        (jump, "mean jump at a change of chunk (rad), quartiles")):
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_xlabel("from decision to player (ms)")
        axes.set_xticks(latencies(lines))
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", color="#dddddd", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    success.set_ylim(0, 103)
    success.legend(frameon=False, loc="lower left")
    counts = sorted({len(episodes) for episodes in groups.values()})
    tasks = ", ".join(dict.fromkeys(line.row.kind for line in lines))
    figure.suptitle(f"what a policy's latency costs in the built-in world: {tasks}, {' or '.join(map(str, counts))} episodes per point\n"
                    + "; ".join(machines(runs)), fontsize=10, x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _counts(line: Line) -> bool:
    setting = line.row.setting
    return not line.row.part and setting.condition == POLICY and setting.latency != MEASURED


def _success(episodes: Sequence[Result]) -> tuple[float, float, float]:
    right, n = sum(e.success for e in episodes), len(episodes)
    low, high = wilson(right, n)
    return 100 * low, 100 * right / n, 100 * high


def _quartiles(episodes: Sequence[Result], name: str) -> tuple[float, float, float]:
    known = [value for e in episodes if (value := getattr(e, name)) is not None]
    return tuple(np.percentile(known, (25, 50, 75))) if known else (np.nan,) * 3
