"""What a chunk says for a given time: cubic Hermite between its steps. Pure functions, numpy only.

Owns interpolation and the velocities of a chunk that came without any. Must not know players, clocks or limits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flashrt_ros.chunk.chunk import Chunk


@dataclass(frozen=True, slots=True)
class Sample:
    """position, velocity: float64 [N] for one time, [M, N] for M times; rad or m, and per second.
    before_start, past_end: bool, or bool [M]. There the nearest end is held: its position, with zero velocity."""

    position: np.ndarray
    velocity: np.ndarray
    before_start: bool | np.ndarray
    past_end: bool | np.ndarray


def knot_velocities(positions: np.ndarray, step_ns: int) -> np.ndarray:
    """Velocities [H, N] for positions [H, N] spaced step_ns apart: central differences, kept shape-preserving.

    A velocity is zero where the slope changes sign and at most three times the smaller neighbouring slope elsewhere,
    which is enough for the interpolant to be monotone between knots (Fritsch and Carlson, SIAM J. Numer. Anal. 17,
    1980): no step is overshot, so a hover height is never undercut. The ends take their one slope; H = 1 gives zeros.
    """
    velocities = np.zeros(positions.shape)
    if len(positions) > 1:
        with np.errstate(invalid="ignore"):  # non-finite chunks are for the guards to judge
            slope = np.diff(positions, axis=0) / (step_ns * 1e-9)
            left, right = slope[:-1], slope[1:]
            bound = np.where(left * right > 0, 3 * np.minimum(np.abs(left), np.abs(right)), 0.0)
            velocities[1:-1] = np.clip((left + right) / 2, -bound, bound)
        velocities[0], velocities[-1] = slope[0], slope[-1]
    return velocities


def sample(chunk: Chunk, t_ns: int | np.ndarray) -> Sample:
    """The chunk at time t_ns, or at each of int64 [M] times.

    start_ns is not before the start and end_ns is not past the end. A chunk of one step is that step at start_ns; at
    any other time it is held, and flagged.
    """
    times = np.asarray(t_ns, dtype=np.int64)
    velocities = knot_velocities(chunk.positions, chunk.step_ns) if chunk.velocities is None else chunk.velocities
    before, past = times < chunk.start_ns, times > chunk.end_ns
    since = np.clip(times, chunk.start_ns, chunk.end_ns) - chunk.start_ns
    low = np.minimum(since // chunk.step_ns, max(chunk.horizon - 2, 0))
    high = np.minimum(low + 1, chunk.horizon - 1)
    step = chunk.step_ns * 1e-9
    u = ((since - low * chunk.step_ns) / chunk.step_ns)[..., None]
    p0, p1 = chunk.positions[low], chunk.positions[high]
    m0, m1 = velocities[low] * step, velocities[high] * step
    rise = p1 - p0
    # Hermite in Horner form about p0, so that u = 0 and u = 1 give the knots without cancellation.
    a, b = m0 + m1 - 2 * rise, 3 * rise - 2 * m0 - m1
    position = p0 + u * (m0 + u * (b + u * a))
    velocity = (m0 + u * (2 * b + 3 * u * a)) / step
    velocity = np.where((before | past)[..., None], 0.0, velocity)
    if times.ndim == 0:
        before, past = bool(before), bool(past)
    return Sample(position, velocity, before, past)
