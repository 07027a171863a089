"""Confidence intervals for success rates and for their differences."""

from __future__ import annotations

from math import sqrt
from typing import Sequence

import numpy as np

Z95 = 1.959964
RESAMPLES = 10_000
_AT_ONCE = 1 << 22  # drawn indices that are in memory together


def wilson(successes: int, trials: int, z: float = Z95) -> tuple[float, float]:
    """Wilson score interval of a binomial proportion (E. B. Wilson, 1927); (0, 1) without trials."""
    if trials == 0:
        return 0.0, 1.0
    p = successes / trials
    centre, spread = p + z * z / (2 * trials), z * sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    # At 0 and 1 the bound is the rate itself but for rounding.
    return max(0.0, min(p, (centre - spread) / scale)), min(1.0, max(p, (centre + spread) / scale))


def paired_bootstrap(ours: Sequence[bool], theirs: Sequence[bool], resamples: int = RESAMPLES) -> tuple[float, float]:
    """95 % percentile interval (B. Efron, 1979) of the rate of `ours` less that of `theirs`, item i of both from one scene.

    Scenes are resampled, so what makes a scene easy or hard for both drops out. The draws are the same at every call.
    Where no scene differs it is (0, 0), which says too much about few scenes: read it beside the rates' own intervals.
    Raises ValueError for lists of different lengths, or empty ones.
    """
    if len(ours) != len(theirs) or not len(ours):
        raise ValueError(f"{len(ours)} and {len(theirs)} results: give one of each for at least one scene")
    difference = np.asarray(ours, dtype=np.int8) - np.asarray(theirs, dtype=np.int8)
    return _interval(_means(difference, np.random.default_rng(0), resamples))


def unpaired_bootstrap(ours: Sequence[bool], theirs: Sequence[bool], resamples: int = RESAMPLES) -> tuple[float, float]:
    """The same for results of different scenes: both lists are resampled by themselves. Raises ValueError for an empty one."""
    if not len(ours) or not len(theirs):
        raise ValueError(f"{len(ours)} and {len(theirs)} results: give at least one of each")
    rng = np.random.default_rng(0)
    first, second = (_means(np.asarray(results, dtype=np.int8), rng, resamples) for results in (ours, theirs))
    return _interval(first - second)


def _means(values: np.ndarray, rng: np.random.Generator, resamples: int) -> np.ndarray:
    """Means [resamples] of `values` [n] drawn n times with replacement."""
    n = len(values)
    batch = max(1, _AT_ONCE // n)
    return np.concatenate([values[rng.integers(n, size=(min(batch, resamples - done), n))].mean(1)
                           for done in range(0, resamples, batch)])


def _interval(means: np.ndarray) -> tuple[float, float]:
    low, high = np.percentile(means, (2.5, 97.5))
    return float(low), float(high)
