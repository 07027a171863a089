"""The policy's noise as an input: a pure function of the seed and of who decides what. numpy only."""

from __future__ import annotations

import numpy as np


def decision_noise(shape: tuple[int, ...], seed: int, epoch: int, decision: int, attempt: int = 0, fork: int = 0) -> np.ndarray:
    """Standard normal float32 of `shape`. Counter-based (Philox, Salmon et al., "Parallel random numbers: as easy as
    1, 2, 3", SC 2011): equal arguments give equal bits, and no state has to be kept to make a decision again."""
    generator = np.random.Generator(np.random.Philox(key=seed, counter=[epoch, decision, attempt, fork]))
    return generator.standard_normal(shape, np.float32)
