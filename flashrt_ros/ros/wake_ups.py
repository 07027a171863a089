"""A monotonic grid to wake up at, and how late a loop woke: a histogram of bounded size. Must not import rclpy."""

from __future__ import annotations

import json
import time

BIN_NS = 10_000
BINS = 10_000  # the last one holds whatever was later
LATE_MS = 2.0


class WakeUps:
    """Errors in ns, one per point of the loop's grid: from that point to the moment at which the loop got to it. A point that was
    slept through counts as well, with the wake-up that came after it."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._counts = [0] * BINS
        self._max_ns = 0
        self.ticks = 0

    def add(self, error_ns: int) -> None:
        self._counts[min(error_ns // BIN_NS, BINS - 1)] += 1
        self._max_ns = max(self._max_ns, error_ns)
        self.ticks += 1

    def histogram(self) -> dict[int, int]:
        """Upper edge of a bin in microseconds -> count, in order, without the empty ones; the last bin's edge is the maximum."""
        edges = [(i + 1) * BIN_NS // 1000 for i in range(BINS)]
        edges[-1] = max(edges[-1], -(-self._max_ns // 1000))
        return {edge: count for edge, count in zip(edges, self._counts) if count}

    def summary(self) -> dict[str, float]:
        """ticks, p50_ms, p99_ms, p999_ms, max_ms, late (share over LATE_MS); all 0 before the first tick. A percentile is the
        upper edge of its bin, at most BIN_NS too much."""
        bins = self.histogram()
        named = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
        return {"ticks": self.ticks, **{name: percentile(bins, share) * 1e-3 for name, share in named.items()},
                "max_ms": self._max_ns * 1e-6, "late": late_share(bins)}

    def to_json(self) -> str:
        return json.dumps(self.summary() | {"histogram_us": self.histogram()})

    def __str__(self) -> str:
        s = self.summary()
        return (f"wake-up error of {self.ticks} control ticks: p50 {s['p50_ms']:.2f}, p99 {s['p99_ms']:.2f}, "
                f"p99.9 {s['p999_ms']:.2f}, max {s['max_ms']:.2f} ms; {s['late']:.2%} over {LATE_MS:g} ms")


class Grid:
    """Points period_ns apart, from a period after now. next_ns: the first that has not passed."""

    def __init__(self, period_ns: int) -> None:
        self.period_ns, self.wake_ups = period_ns, WakeUps()
        self.next_ns = time.monotonic_ns() + period_ns

    def sleep(self) -> int:
        """Until the next point; returns the monotonic time. Every point that has passed by then counts."""
        time.sleep(max(0, self.next_ns - time.monotonic_ns()) * 1e-9)
        now_ns = time.monotonic_ns()
        while self.next_ns <= now_ns:
            self.wake_ups.add(now_ns - self.next_ns)
            self.next_ns += self.period_ns
        return now_ns


def late_share(bins: dict[int, int]) -> float:
    """The share of the counts over LATE_MS; 0 without any."""
    return sum(count for edge, count in bins.items() if edge > LATE_MS * 1e3) / max(1, sum(bins.values()))


def percentile(bins: dict[int, int], share: float) -> int:
    """The upper edge of the bin below which at least this share of all counts lies; 0 without any."""
    wanted, seen = share * sum(bins.values()), 0
    for edge, count in bins.items():
        seen += count
        if seen >= wanted:
            return edge
    return 0
