"""How smooth the motion was that an episode's commands asked for. numpy only."""

from __future__ import annotations

from typing import Sequence

import numpy as np


def rms_jerk(positions: Sequence[np.ndarray], dt: float) -> float:
    """Root mean square of the third difference over commands [K, N], dt s apart, over all ticks and joints, per s^3. 0 for
    fewer than four commands."""
    if len(positions) < 4:
        return 0.0
    return float(np.sqrt(np.mean(np.square(np.diff(positions, n=3, axis=0) / dt**3))))


def mean_jump(jumps: Sequence[np.ndarray]) -> float:
    """How far a new chunk is from what had been planned for the moment at which it takes over, of the joint that is farthest:
    the mean over the jumps [N] of an episode's chunks. 0 without chunks."""
    return float(np.mean(np.max(np.abs(jumps), axis=1))) if len(jumps) else 0.0
