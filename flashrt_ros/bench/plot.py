"""The picture of a sweep: success against the swept value, with intervals."""

from __future__ import annotations

from math import log2
from pathlib import Path
from typing import Sequence

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

from flashrt_ros.bench.jobs import EXPERT, POLICY
from flashrt_ros.bench.report import label, latency, varying
from flashrt_ros.bench.results_file import Run, machines
from flashrt_ros.bench.rows import Line

# Paul Tol's "bright" colours, apart for all common kinds of colour blindness. Colour: task; marker and dash: what else differs.
COLOURS = {"pick": "#4477aa", "place": "#ee6677", "belt": "#228833"}
MARKERS, DASHES = "osD^vP", ("-", "--", ":", "-.")
LEGEND_WIDTH = 110  # characters
APART = 0.05  # of the distance of two values: lines are drawn side by side, so that no bar hides another


def draw(lines: Sequence[Line], runs: Sequence[Run], path: Path) -> None:
    """PNG. Of a sweep: a line per task, contract and value of the other keys, over the first key that varies; rows without that key
    are drawn across. Without a sweep: a point per row, the controls too."""
    keys = varying(lines)
    figure, axes = plt.subplots(figsize=(9, 5.4), constrained_layout=True)
    whole = [line for line in lines if not line.row.part]
    if keys:
        _sweep(axes, [line for line in whole if line.row.setting.condition in (POLICY, EXPERT)], keys[0], keys[1:])
    else:
        _points(axes, whole)
    axes.set_ylim(-3, 103)
    axes.set_ylabel("success (%), with 95 % Wilson intervals")
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    longest = max(len(text) for text in axes.get_legend_handles_labels()[1])
    axes.legend(fontsize=9, frameon=False, ncol=max(1, min(3, LEGEND_WIDTH // longest)), loc="upper center",
                bbox_to_anchor=(0.5, -0.13))
    counts = sorted({line.n for line in whole})
    axes.set_title(f"success in the built-in world, {' or '.join(map(str, counts))} seeds per point\n" + "\n".join(machines(runs)),
                   fontsize=11, loc="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _sweep(axes: Axes, lines: Sequence[Line], key: str, others: Sequence[str]) -> None:
    values = list(dict.fromkeys(dict(line.row.setting.overrides).get(key) for line in lines))
    position = _positions([value for value in values if value is not None], axes)
    groups: dict[tuple[str, str], dict[str | None, Line]] = {}  # (kind, all else) -> swept value -> line
    for line in lines:
        at = groups.setdefault((line.row.kind, _name(line, lines, others)), {})
        at[dict(line.row.setting.overrides).get(key)] = line
    names = list(dict.fromkeys(name for _, name in groups))
    side_by_side = [group for group, at in groups.items() if at.keys() - {None}]
    for (kind, name), at in groups.items():
        style = dict(color=COLOURS[kind], linestyle=DASHES[names.index(name) % len(DASHES)])
        title = ", ".join(filter(None, (kind, name)))
        if None in at:
            axes.axhline(_percent(at[None]), linewidth=1.2, label=f"{title}, as it is", **style)
        if swept := sorted((value for value in at if value is not None), key=position.get):
            beside = APART * (side_by_side.index((kind, name)) - (len(side_by_side) - 1) / 2)
            own = [at[value] for value in swept]
            axes.errorbar([position[value] + beside for value in swept], [_percent(line) for line in own], yerr=_bars(own),
                          marker=MARKERS[names.index(name) % len(MARKERS)], capsize=3, linewidth=1.6, markersize=6, label=title,
                          **style)
    axes.set_xlabel(key + (" (log2 scale)" if _powers_of_two(list(position)) else ""))


def _points(axes: Axes, lines: Sequence[Line]) -> None:
    names = [_name(line, lines, (), conditions=True).replace(", ", "\n") for line in lines]
    places = {name: i for i, name in enumerate(dict.fromkeys(names))}
    kinds = list(dict.fromkeys(line.row.kind for line in lines))
    for i, kind in enumerate(kinds):
        beside = 0.12 * (i - (len(kinds) - 1) / 2)
        own = [(places[name] + beside, line) for name, line in zip(names, lines) if line.row.kind == kind]
        axes.errorbar([x for x, _ in own], [_percent(line) for _, line in own], yerr=_bars([line for _, line in own]),
                      linestyle="none", marker=MARKERS[i], capsize=3, markersize=7, color=COLOURS[kind], label=kind)
    axes.set_xticks(range(len(places)), list(places), fontsize=9)
    axes.set_xlim(-0.5, len(places) - 0.5)


def _positions(values: Sequence[str], axes: Axes) -> dict[str, float]:
    """Where each value stands on the axis; the ticks bear the values as they were written."""
    if _powers_of_two(values):
        position = {value: log2(float(value)) for value in values}
    elif _numbers(values):
        position = {value: float(value) for value in values}
        span = max(position.values()) - min(position.values())
        position = {value: x / span * (len(values) - 1) if span else 0.0 for value, x in position.items()}
    else:
        position = {value: float(i) for i, value in enumerate(values)}
    axes.set_xticks(list(position.values()), list(position))
    return position


def _numbers(values: Sequence[str]) -> bool:
    try:
        return all(float(value) == float(value) for value in values)
    except ValueError:
        return False


def _powers_of_two(values: Sequence[str]) -> bool:
    return _numbers(values) and all(float(v) > 0 and log2(float(v)) % 1 == 0 for v in values)


def _name(line: Line, lines: Sequence[Line], keys: Sequence[str], conditions: bool = False) -> str:
    """What tells a row from the others, but for its kind and the keys that are not in `keys`."""
    setting, settings = line.row.setting, [other.row.setting for other in lines]
    traits = [(lambda s: s.contract), (lambda s: label(s, keys)), (lambda s: s.condition), latency, (lambda s: s.strategy),
              (lambda s: s.device)]
    telling = [trait(setting) for trait in traits if len({trait(s) for s in settings}) > 1]
    return ", ".join(filter(None, telling)) or (setting.condition if conditions else "")


def _percent(line: Line) -> float:
    return 100 * line.successes / line.n


def _bars(lines: Sequence[Line]) -> list[list[float]]:
    """Below and above the points."""
    return [[_percent(line) - 100 * line.interval[0] for line in lines],
            [100 * line.interval[1] - _percent(line) for line in lines]]
