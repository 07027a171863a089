"""The drill's picture: per victim what was commanded around its death and its return, against the limits."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

from flashrt_ros.ros.drill_trial import Trial  # noqa: E402

COLOURS = ("#4477aa", "#ee6677", "#228833")  # of the fastest joints, fastest first
MARKS = {"kill": ("kill_ns", "#000000", "-"), "rest": ("rest_ns", "#aa3377", "--"), "restart": ("restart_ns", "#999999", "-"),
         "motion": ("motion_ns", "#ccbb44", "--")}
STEP_NS = 2_000_000
BEFORE_NS, AFTER_NS = 1_000_000_000, 2_000_000_000  # shown before the kill and after the arm moves again
SPARE = 1.15  # beyond the limits, so that a command outside would be seen


def draw(trials: Sequence[Trial], where: str, path: Path) -> None:
    """PNG: a column per trial; position, velocity and acceleration as shares of their limits, beyond which it is grey."""
    size = (1.2 + 4.6 * len(trials), 7.6)
    figure, grid = plt.subplots(3, len(trials), figsize=size, sharex="col", sharey="row", squeeze=False, constrained_layout=True)
    for column, trial in enumerate(trials):
        _column(grid[:, column], trial)
    for axes, label in zip(grid[:, 0], ("position within its limits", "velocity / limit", "acceleration / limit")):
        axes.set_ylabel(label, fontsize=9)
    figure.suptitle("kill -9 while the arm moves: what the windows on the command topics say (lines), and where the joints are "
                    f"(bands)\n{where}", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _column(panels: Sequence[Axes], trial: Trial) -> None:
    last_ns = (trial.motion_ns or trial.restart_ns) + AFTER_NS
    times = np.arange(trial.kill_ns - BEFORE_NS, last_ns, STEP_NS)
    limits, seconds = trial.limits, (times - trial.kill_ns) * 1e-9
    position, velocity, acceleration = trial.commanded(times)
    share = np.abs(velocity) / limits.velocity
    fastest = np.argsort(-np.nanmax(share[times <= (trial.rest_ns or last_ns)], axis=0))[:len(COLOURS)]
    middle, half = (limits.upper + limits.lower) / 2, (limits.upper - limits.lower) / 2
    at, measured = zip(*((at_ns, joints) for at_ns, joints, _ in trial.joints if times[0] <= at_ns <= last_ns))
    for joint, colour in zip(fastest, COLOURS):
        style = dict(color=colour, linewidth=1.3)
        panels[0].plot(seconds, ((position - middle) / half)[:, joint], label=limits.names[joint], **style)
        panels[0].plot((np.array(at) - trial.kill_ns) * 1e-9, ((np.array(measured) - middle) / half)[:, joint], color=colour,
                       linewidth=3, alpha=0.25)
        panels[1].plot(seconds, (velocity / limits.velocity)[:, joint], **style)
        panels[2].plot(seconds, (acceleration / limits.acceleration)[:, joint], **style)
    for axes in panels:
        axes.axhspan(1, SPARE, color="#dddddd"), axes.axhspan(-SPARE, -1, color="#dddddd")
        axes.axhline(1, color="#777777", linewidth=0.8), axes.axhline(-1, color="#777777", linewidth=0.8)
        axes.set_ylim(-SPARE, SPARE), axes.set_xlim(seconds[0], seconds[-1])
        axes.spines[["top", "right"]].set_visible(False)
        for label, (field, colour, dash) in MARKS.items():
            if (at_ns := getattr(trial, field)) is not None:
                axes.axvline((at_ns - trial.kill_ns) * 1e-9, color=colour, linestyle=dash, linewidth=1.2,
                             label=label if axes is panels[1] else None)
    panels[0].set_title(f"{trial.victim}: “{trial.task}”", fontsize=10)
    panels[0].legend(fontsize=8, frameon=False, loc="lower right", ncol=3)
    panels[1].legend(fontsize=8, frameon=False, loc="lower right", ncol=4)
    panels[2].set_xlabel("s of simulated time since the kill", fontsize=9)
