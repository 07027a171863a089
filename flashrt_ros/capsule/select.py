"""Which of several candidates of one decision is taken. Pure functions over positions; numpy only.

Owns what nearness between chunks is: the mean over rows and joints of the squared difference, each joint in units of what its
velocity limit allows in a step, so that a gripper in metres counts as an arm's joint does.
"""

from __future__ import annotations

import numpy as np

from flashrt_ros.chunk.chunk import Cursor
from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.contract.schema import CLOSEST
from flashrt_ros.engine.last_chunk import LastChunk


class Select:
    """By the contract's decision.fork.select; without a fork, the only candidate there is."""

    def __init__(self, pipeline: Pipeline, last: LastChunk) -> None:
        fork, limits = pipeline.contract.fork, pipeline.contract.limits
        self._by = None if fork is None else fork.select
        self._last = last
        self._unit = np.array([limits.velocity[joint] for joint in pipeline.spec.joints]) * last.step_ns * 1e-9

    def of(self, candidates: np.ndarray, cursor: Cursor, now_ns: int, epoch: int) -> int:
        """The index of the chosen of candidates [n, H, N], rad or m. cursor: of the player at now_ns. The first of equals; one that is not
        finite only if all are so."""
        if len(candidates) == 1:
            return 0
        scaled = candidates / self._unit
        if self._by == CLOSEST:
            planned = self._planned(candidates.shape[1], cursor, now_ns, epoch)
            return closest_to_previous(scaled, planned / self._unit)
        return medoid(scaled)

    def _planned(self, horizon: int, cursor: Cursor, now_ns: int, epoch: int) -> np.ndarray:
        """What the last chunk says for the moments of a new one, [H, N]; NaN where it says nothing."""
        last = self._last.chunk
        if last is None or last.epoch != epoch:
            return np.full((horizon, len(self._unit)), np.nan)
        said = self._last.says(horizon, cursor, now_ns)
        return np.where((said.past_end | said.before_start)[:, None], np.nan, said.position)


def closest_to_previous(candidates: np.ndarray, planned: np.ndarray) -> int:
    """The candidate of [n, H, N] that is nearest to what was planned, [H, N]; rows of NaN are not compared, and if all are so, it is the
    first. Backward coherence of bidirectional decoding (Liu et al., 2024, arXiv 2408.17355), without its decay over the horizon."""
    known = ~np.isnan(planned).any(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        apart = ((candidates[:, known] - planned[known]) ** 2).sum(axis=(1, 2))  # of no row: 0 for each
    return _least(apart, candidates)


def medoid(candidates: np.ndarray) -> int:
    """The candidate of [n, H, N] with the least sum of distances to the others (Kaufman and Rousseeuw, "Clustering by means of medoids",
    1987): the most ordinary one, whatever a single outlier says."""
    finite = np.isfinite(candidates).all(axis=(1, 2))
    with np.errstate(over="ignore", invalid="ignore"):
        apart = ((candidates[:, None] - candidates[None]) ** 2).mean(axis=(2, 3)) ** 0.5
    return _least(np.where(finite[None], apart, 0.0).sum(axis=1), candidates)


def _least(costs: np.ndarray, candidates: np.ndarray) -> int:
    """The first of the least costs [n]; of a candidate that is not finite, in whichever row, only if all are so."""
    bounded = np.nan_to_num(costs, nan=np.finfo(costs.dtype).max)
    return int(np.argmin(np.where(np.isfinite(candidates).all(axis=(1, 2)), bounded, np.inf)))
