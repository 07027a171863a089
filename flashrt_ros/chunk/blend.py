"""How the difference between the present motion and a new chunk fades. Owns the shape and the duration. numpy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

MIN_S = 0.15  # a difference fades no faster than this, unless a player is told otherwise

# The share of a joint's velocity and acceleration limits that fading a position may use; the chunk's own motion needs the
# rest. Fading a velocity may use all of the acceleration: a fade that outlasts the time to the next chunk is never
# finished, and the arm goes on in its old direction instead of doing what it is told.
FADING_SHARE = 0.5


class MotionLimits(Protocol):
    """Positive, finite, [N]: per s and per s^2."""

    velocity: np.ndarray
    acceleration: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Blend:
    """An offset that starts as `position`, `velocity` [N] and is zero, with zero velocity, after duration_s: a cubic
    Hermite, so that chunk + offset begins at the present motion and joins the chunk without a step in velocity."""

    position: np.ndarray
    velocity: np.ndarray
    duration_s: float

    @classmethod
    def within(cls, limits: MotionLimits, position: np.ndarray, velocity: np.ndarray, duration_s: float = MIN_S) -> Blend:
        """The blend of at least duration_s (> 0) whose position part keeps to FADING_SHARE of the limits, and whose velocity
        part to the acceleration limit, however far the chunk is. Their extremes are 3/2 |p| / T in speed, 6 |p| / T^2
        and 4 |v| / T in acceleration."""
        speed, acceleration = FADING_SHARE * limits.velocity, FADING_SHARE * limits.acceleration
        p, v = np.abs(position), np.abs(velocity)
        needed = np.concatenate([1.5 * p / speed, np.sqrt(6 * p / acceleration), 4 * v / limits.acceleration])
        return cls(position, velocity, max(duration_s, float(needed.max())))

    def at(self, elapsed_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Offsets in position and velocity, [M, N] each, at M times since the start."""
        u = np.minimum(elapsed_s / self.duration_s, 1.0)[:, None]
        p, v = self.position, self.velocity * self.duration_s
        offset = (1 - u) ** 2 * ((1 + 2 * u) * p + u * v)
        rate = (1 - u) * (-6 * u * p + (1 - 3 * u) * v) / self.duration_s
        return offset, rate
