"""The tables that `flashrt eval` prints."""

from __future__ import annotations

from typing import Sequence

from rich import box
from rich.table import Table

from flashrt_ros.bench.jobs import Setting
from flashrt_ros.bench.rows import Line

NOTE = ("difference: in success, to the first row of the task in the same scenes, with a 95 % bootstrap interval; "
        "held-out pairs: to the other pairs of the same policy")


def varying(lines: Sequence[Line]) -> list[str]:
    """The overridden keys that are not the same in all rows."""
    overrides = [dict(line.row.setting.overrides) for line in lines]
    keys = dict.fromkeys(key for values in overrides for key in values)
    return [key for key in keys if len({values.get(key) for values in overrides}) > 1]


def label(setting: Setting, keys: Sequence[str]) -> str:
    """Those keys' values in a setting."""
    values = dict(setting.overrides)
    return ", ".join(f"{short(key)}={values[key]}" for key in keys if key in values)


def short(key: str) -> str:
    return key.removeprefix("stages.")


def success_table(lines: Sequence[Line]) -> Table:
    """One line per row; what is the same in all of them stands in the title."""
    settings = [line.row.setting for line in lines]
    keys = varying(lines)
    named = {
        "contract": [s.contract for s in settings], "condition": [s.condition for s in settings],
        "latency": [latency(s) for s in settings], "strategy": [s.strategy for s in settings],
        "device": [s.device for s in settings],
    }
    fixed = {name: values[0] for name, values in named.items() if len(set(values)) == 1}
    constant = label(settings[0], [key for key, _ in settings[0].overrides if key not in keys])
    worded = [f"{name} {fixed[name]}" for name in ("latency", "strategy") if name in fixed]
    title = ", ".join(filter(None, [fixed.get("contract"), constant, fixed.get("condition"), *worded, fixed.get("device")]))
    columns = {name: values for name, values in named.items() if name not in fixed}
    columns |= {short(key): [dict(s.overrides).get(key, "-") for s in settings] for key in keys}
    compared = any(line.baseline for line in lines)
    table = Table(title=f"success in the built-in world: {title}", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0),
                  caption=NOTE if compared else None, caption_justify="left")
    for name in ("task", *columns):  # what is read first stays whole; a swept key breaks at its dots
        table.add_column(name.replace(".", ".\n"), no_wrap=name in ("task", "condition"), overflow="fold")
    difference = ["difference\nin points"] if compared else []
    for name in ("success", "95 %\n(Wilson)", *difference, "median\ns", "decision\nms", "jerk\nrad/s³", "mean\njump rad", "refused"):
        table.add_column(name, justify="right", no_wrap=True)
    for i, line in enumerate(lines):
        low, high = line.interval
        table.add_row(
            line.row.task, *(values[i] for values in columns.values()), f"{line.successes}/{line.n}",
            f"{100 * low:.1f}–{100 * high:.1f}",
            *([_difference(line)] if compared else []), "-" if line.median_s is None else f"{line.median_s:.1f}",
            f"{line.decision_ms:.1f}", "-" if line.jerk_rad_s3 is None else f"{line.jerk_rad_s3:.1f}",
            "-" if line.mean_jump_rad is None else f"{line.mean_jump_rad:.3f}", str(line.refused),
            end_section=i + 1 < len(lines) and lines[i + 1].row.kind != line.row.kind)
    return table


def cause_table(lines: Sequence[Line]) -> Table | None:
    """Why episodes failed, per row; None if none did."""
    keys = varying(lines)
    many = len({line.row.setting.contract for line in lines}) > 1
    table = Table(title="why episodes failed", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("task", "row", "failed", "causes"):
        table.add_column(name, justify="right" if name == "failed" else "left")
    for line in lines:
        if line.causes and not line.row.part:
            setting = line.row.setting
            names = [setting.contract if many else "", label(setting, keys), setting.condition]
            table.add_row(line.row.task, ", ".join(filter(None, names)), str(line.n - line.successes),
                          ", ".join(f"{count} {cause}" for cause, count in line.causes))
    return table if table.row_count else None


def latency(setting: Setting) -> str:
    return setting.latency if isinstance(setting.latency, str) else f"{setting.latency:g} ms"


def _difference(line: Line) -> str:
    if line.difference is None:
        return "-"
    low, high = line.difference_interval
    return f"{line.difference:+.1f} [{low:+.1f}, {high:+.1f}]"
