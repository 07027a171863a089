"""What the player is going to do while and after a decision is made, as inputs of a policy that continues it.

The plan is the last chunk that was handed out, read from where the player is in it, and carried to what the player commands
now: at the start of a motion, and after a chunk that disagreed with the one before, that is not yet what the chunk says.
Knows no ROS; time is an argument.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flashrt_ros.chunk.blend import Blend, MotionLimits
from flashrt_ros.chunk.chunk import Cursor
from flashrt_ros.chunk.sample import sample
from flashrt_ros.chunk.splice import soft_mask
from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.engine.last_chunk import LastChunk
from flashrt_ros.engine.observation import InputValue, Observation


class Commanded(NamedTuple):
    """What a player commands, rad or m and per s: float64 [N] each, in the order of the policy's joints."""

    position: np.ndarray
    velocity: np.ndarray


class Continuation:
    """frozen_prefix: steps of the chunk of the last observation that are to equal the plan; 0 if there was none. limits: the
    player's, [N]. For a policy that does not continue, everything here does nothing."""

    def __init__(self, pipeline: Pipeline, last: LastChunk, limits: MotionLimits) -> None:
        self._limits, self._last = limits, last
        self._names = pipeline.spec.plan
        position = pipeline.contract.limits.position
        self._lower, self._upper = np.array([position.get(joint, (-np.inf, np.inf)) for joint in pipeline.spec.joints]).T
        self._shape = pipeline.buffers[pipeline.spec.chunk].shape
        self.frozen_prefix = 0

    def add(self, observation: Observation, cursor: Cursor, commanded: Commanded | None, session: int, epoch: int) -> Observation:
        """The observation with the plan as of its `now`, if there is one in this session and epoch; else all zeros. cursor,
        commanded: of the player then; None: unknown."""
        if self._names is None:
            return observation
        rows, firmness = self._plan(observation.now_ns, cursor, commanded, session, epoch)
        self.frozen_prefix = int((firmness == 1).sum())
        ident = observation.decision + 1  # new at every decision
        inputs = {**observation.inputs, self._names[0]: InputValue(rows, ident, None),
                  self._names[1]: InputValue(firmness, ident, None)}
        return Observation(observation.decision, observation.now_ns, inputs)

    def _plan(self, now_ns: int, cursor: Cursor, commanded: Commanded | None, session: int,
              epoch: int) -> tuple[np.ndarray, np.ndarray]:
        last = self._last.chunk
        none = np.zeros(self._shape, np.float32), np.zeros(self._shape[0], np.float32)
        if last is None or not (last.session, last.epoch) == (cursor.session, cursor.epoch) == (session, epoch):
            return none
        said = self._last.says(self._shape[0], cursor, now_ns)
        rows = said.position
        if commanded is not None:  # the player fades from there into the chunk, and is as far in that as limits allow
            now = sample(last, last.start_ns + last.played_ns(cursor, now_ns))
            fade = Blend.within(self._limits, commanded.position - now.position, commanded.velocity - now.velocity)
            rows = rows + fade.at(np.maximum(self._last.since_ns(self._shape[0]), 0) * 1e-9)[0]
        rows = np.clip(rows, self._lower, self._upper)  # as the player will: a fade may swing beyond
        overlap = int((~said.past_end).sum())
        firmness = soft_mask(self._shape[0], min(self._last.sure_steps, overlap), overlap)
        return rows.astype(np.float32), firmness.astype(np.float32)
