"""From a chunk as a policy sent it to one that this arm can be asked to follow. Owns the checks of a chunk's contents;
must not know sessions, clocks or motion. numpy only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flashrt_ros.chunk.chunk import Chunk
from flashrt_ros.chunk.sample import knot_velocities
from flashrt_ros.player.limits import Limits
from flashrt_ros.player.verdict import Reason, Refused


def conform(chunk: Chunk, limits: Limits, tolerance: float) -> tuple[Chunk, int] | Refused:
    """The chunk with its columns in the limits' joint order, positions and velocities within limits and velocities
    given; and the number of targets that were beyond a position limit by more than `tolerance` (rad or m).

    Refused if a joint is missing or unknown, or a value is not finite.
    """
    if missing := [name for name in limits.names if name not in chunk.names]:
        return Refused(Reason.MISSING_JOINTS, f"chunk {chunk.order}: no column for {', '.join(missing)}; "
                                              f"it has {', '.join(chunk.names)}")
    if unknown := [name for name in chunk.names if name not in limits.names]:
        return Refused(Reason.UNKNOWN_JOINTS, f"chunk {chunk.order}: a column for {', '.join(unknown)}; "
                                              f"the joints are {', '.join(limits.names)}")
    for label, values in (("position", chunk.positions), ("velocity", chunk.velocities)):
        if values is not None and not np.isfinite(values).all():
            step, joint = np.argwhere(~np.isfinite(values))[0]
            return Refused(Reason.NON_FINITE, f"chunk {chunk.order}: {label} of {chunk.names[joint]} at step {step} "
                                              f"is {values[step, joint]}; all values must be finite")
    columns = [chunk.names.index(name) for name in limits.names]
    asked = chunk.positions[:, columns].astype(np.float64)
    positions = np.clip(asked, limits.lower, limits.upper)
    if chunk.velocities is None:
        velocities = knot_velocities(positions, chunk.step_ns)
    else:
        velocities = np.where(positions == asked, chunk.velocities[:, columns], 0.0)  # held at a limit: at rest there
    velocities = np.clip(velocities, -limits.velocity, limits.velocity)
    clamped = int(np.sum(np.abs(asked - positions) > tolerance))
    return replace(chunk, names=limits.names, positions=positions, velocities=velocities), clamped
