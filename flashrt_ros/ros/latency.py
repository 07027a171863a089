"""Percentiles over the newest measurements."""

from __future__ import annotations

from collections import deque

import numpy as np


class Latencies:
    """The newest 256 durations."""

    def __init__(self) -> None:
        self._newest: deque[float] = deque(maxlen=256)

    def add(self, duration_ns: int) -> None:
        self._newest.append(duration_ns * 1e-6)

    def percentiles(self) -> tuple[float, float]:
        """(p50, p99) in ms; zeros before the first."""
        values = list(self._newest)
        return tuple(np.percentile(values, (50, 99)).tolist()) if values else (0.0, 0.0)
