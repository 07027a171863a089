"""The picture of `flashrt bench ablation`: how far decisions drift from the original after an incomplete restore."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

from flashrt_ros.bench.loop_plot import COLOURS  # noqa: E402

FLOOR_RAD = 1e-8  # where a logarithmic axis shows 0


def draw(found: Mapping[str, np.ndarray], machine: Mapping[str, str], path: Path) -> None:
    """PNG. found: what was restored -> difference per decision, rad."""
    figure, axes = plt.subplots(figsize=(9, 4.8), constrained_layout=True)
    for colour, marker, (what, far) in zip(COLOURS, "osD^v", found.items()):
        axes.plot(np.arange(1, len(far) + 1), np.maximum(far, FLOOR_RAD), color=colour, marker=marker, markersize=5, linewidth=1.6, label=what)
    axes.axhline(FLOOR_RAD, color="#999999", linewidth=0.8, linestyle=":")
    axes.annotate("equal bit for bit", (1, FLOOR_RAD), xytext=(0, 5), textcoords="offset points", fontsize=9, color="#555555")
    axes.set(yscale="log", xlabel="decision after the restore", ylabel="largest difference to the original chunk (rad)", ylim=(FLOOR_RAD / 3, None))
    axes.set_xticks(np.arange(1, max(map(len, found.values())) + 1))
    axes.grid(color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=9, frameon=False, loc="lower center", bbox_to_anchor=(0.4, 0.1))
    axes.set_title(f"the same observations again, after a restore that leaves something out\n{machine['cpu']}, {machine['date']}",
                   fontsize=11, loc="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
