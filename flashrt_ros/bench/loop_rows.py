"""What `flashrt bench loop` measured under one condition, how it is read, and the table of it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from flashrt_ros.ros.wake_ups import LATE_MS, late_share, percentile


@dataclass(frozen=True)
class Row:
    """One condition. bins: upper edge in microseconds -> points of the grid; empty: it was not measured, `note` says why. played:
    share of the points at which the player had a chunk to play; None for a reference. load: the load average before."""

    name: str
    bins: dict[int, int]
    max_ms: float = 0.0
    played: float | None = None
    load: float = 0.0
    note: str = ""

    def at(self, share: float) -> float:
        """ms that this share of the errors does not exceed."""
        return percentile(self.bins, share) * 1e-3

    @property
    def ticks(self) -> int:
        return sum(self.bins.values())

    @property
    def late(self) -> float:
        """Share of the errors over LATE_MS."""
        return late_share(self.bins)

    @property
    def met(self) -> bool:
        return bool(self.bins) and self.at(0.99) <= LATE_MS


def parse_wake_ups(record: dict) -> dict:
    return {"bins": {int(edge): count for edge, count in record["histogram_us"].items()}, "max_ms": record["max_ms"]}


def parse_bare(text: str) -> dict:
    record = json.loads(text)
    work = record["work"]
    return parse_wake_ups(record["wake_ups"]) | {
        "note": f"its arithmetic: p50 {work['p50_ms']:.2f}, p99 {work['p99_ms']:.2f}, max {work['max_ms']:.1f} ms"}


def parse_cyclictest(text: str) -> dict:
    """Of `cyclictest --histogram`, whose lines are microseconds and counts."""
    lines = (line.split() for line in text.splitlines() if line[:1].isdigit())
    bins = {int(edge) + 1: int(count) for edge, count in lines if int(count)}
    longest = next(int(line.split()[-1]) for line in text.splitlines() if line.startswith("# Max Latencies"))
    return {"bins": bins, "max_ms": longest * 1e-3}


def table(rows: list[Row]) -> str:
    """One line per condition; times in ms."""
    width = max(len(row.name) for row in rows)
    lines = [f"{'condition':<{width}}   ticks  played    p50    p99  p99.9    max  over {LATE_MS:g} ms  load  bar"]
    for r in rows:
        if not r.bins:
            lines.append(f"{r.name:<{width}}   {r.note}")
            continue
        played = "-" if r.played is None else f"{r.played:.0%}"
        times = "  ".join(f"{r.at(share):5.2f}" for share in (0.5, 0.99, 0.999))
        lines.append(f"{r.name:<{width}}  {r.ticks:6d}  {played:>6}  {times}  {r.max_ms:5.1f}  {r.late:9.2%}  {r.load:4.1f}  "
                     f"{'met' if r.met else 'missed'}{r.note and f'; {r.note}'}")
    return "\n".join(lines)
