"""The picture of `flashrt bench loop`: what share of the wake-ups was later than x, one line per condition."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

from flashrt_ros.bench.loop_rows import LATE_MS, Row  # noqa: E402

# Paul Tol's "bright" colours, apart for all common kinds of colour blindness.
COLOURS = ("#4477aa", "#ee6677", "#ccbb44", "#228833", "#aa3377", "#bbbbbb")


def draw(rows: Sequence[Row], rate_hz: float, machine: dict[str, str], path: Path) -> None:
    """PNG. Rows that were not measured are named in the legend."""
    figure, axes = plt.subplots(figsize=(9, 5.4), constrained_layout=True)
    for i, row in enumerate(rows):
        style = dict(color=COLOURS[i % len(COLOURS)], linestyle="--" if row.played is None else "-", linewidth=1.8)
        if not row.bins:
            axes.plot([], [], label=f"{row.name}: not measured", **style)
            continue
        edges, counts = np.array(list(row.bins)) * 1e-3, np.array(list(row.bins.values()))
        later = 1 - np.cumsum(counts) / counts.sum()
        axes.step(edges, np.maximum(later, 0.5 / counts.sum()), where="post",
                  label=f"{row.name}: p99 {row.at(0.99):.2f} ms", **style)
    axes.axvline(LATE_MS, color="black", linewidth=0.8, linestyle=":")
    axes.axhline(0.01, color="black", linewidth=0.8, linestyle=":")
    axes.annotate(f"the bar: 1 % later than {LATE_MS:g} ms", (0.0105, 0.01), xytext=(0, -12), textcoords="offset points",
                  fontsize=9)
    axes.set(xscale="log", yscale="log", xlim=(0.01, None), ylim=(None, 1),
             xlabel="wake-up error against the monotonic grid (ms)", ylabel="share of the control ticks that woke later")
    axes.grid(color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=9, frameon=False, loc="lower left")
    axes.set_title(f"player's control loop at {rate_hz:g} Hz beside simulator and policy; stress: one busy process per core\n"
                   f"{machine['cpu']}, {machine['date']}", fontsize=11, loc="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
