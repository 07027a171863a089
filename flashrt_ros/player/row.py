"""One tick of a motion. numpy only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    """position, velocity, acceleration: float64 [N], rad or m, per s, per s^2. acceleration None: constant until the next
    row, and not told."""

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray | None = None
