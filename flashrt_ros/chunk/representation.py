"""From what a policy's numbers mean to joint targets. Pure functions, numpy only; must not know joints of a robot.

Numbers that are targets already, the contract's representation `joint`, need nothing of this.
"""

from __future__ import annotations

import numpy as np

from flashrt_ros.chunk.chunk import ChunkError


def joint_delta(deltas: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Absolute targets [H, N] of deltas [H, N] from the joint state `observed` [N], all in rad or m.

    observed: the state in the observation that the policy decided on, never a newer one: against a newer one the motion
    since the observation would be added twice. Every step's delta is from that one state (as in UMI and pi0), not from the
    step before. Raises ChunkError for shapes that do not fit.
    """
    if deltas.ndim != 2 or deltas.shape[1:] != observed.shape:
        raise ChunkError(f"joint deltas have shape {deltas.shape}, the observed joints {observed.shape}; expected [H, N] and [N]")
    return observed + deltas


def hysteresis(values: np.ndarray, previous: bool, low: float, high: float) -> np.ndarray:
    """A two-way gripper command, bool [H], from values [H] that hesitate: True from the first value of at least `high`, False
    from the first of at most `low`, in between as before; `previous` is what was commanded before the first.

    For policies whose gripper output hovers around its threshold; applied only where a contract asks for it. NaN changes
    nothing. Raises ChunkError unless low < high.
    """
    if not low < high:
        raise ChunkError(f"gripper hysteresis: low is {low}, high {high}; low must be below high")
    commands = np.empty(len(values), dtype=bool)
    for i, value in enumerate(values):
        previous = bool(value >= high or (previous and not value <= low))
        commands[i] = previous
    return commands
