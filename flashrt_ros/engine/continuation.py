"""What the player is going to do while and after a decision is made, as inputs of a policy that continues it.

The plan is the last chunk that was handed out, read from where the player is in it, and carried to where the arm really is:
limits and the fading of differences keep an arm from being where a chunk says, and a plan that ignored this would run away
from the arm, decision by decision. Knows no ROS; time is an argument.
"""

from __future__ import annotations

import numpy as np

from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.chunk.sample import sample
from flashrt_ros.chunk.splice import soft_mask
from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.engine.observation import InputValue, Observation


FADE_S = 0.2  # in which the player takes the arm from where it is to where the chunk says; see player.blend


class Continuation:
    """sure_ns: from a decision's `now` to the first moment at which its chunk can change the motion: what is planned until
    then will have been executed. frozen_prefix: steps of the chunk of the last observation that are to equal the plan; 0
    if there was none. For a policy that does not continue, everything here does nothing."""

    def __init__(self, pipeline: Pipeline, sure_ns: int) -> None:
        self._names = pipeline.spec.plan
        output = pipeline.contract.outputs[0]
        self._step_ns, self._offset_ns = output.step_ns, output.offset_ns
        self._shape = pipeline.buffers[pipeline.spec.chunk].shape
        self._sure_steps = max(0, -(-(sure_ns - self._offset_ns) // self._step_ns))
        self.frozen_prefix = 0
        self._joints = _measured(pipeline) if self._names else None
        self._last: Chunk | None = None

    def handed_out(self, chunk: Chunk) -> None:
        self._last = chunk

    def add(self, observation: Observation, cursor: Cursor) -> Observation:
        """The observation with the plan as of its `now`; cursor: where the player is then. No plan is all zeros."""
        if self._names is None:
            return observation
        rows, firmness = self._plan(observation, cursor)
        self.frozen_prefix = int((firmness == 1).sum())
        ident = observation.decision + 1  # new at every decision
        inputs = {**observation.inputs, self._names[0]: InputValue(rows, ident, None),
                  self._names[1]: InputValue(firmness, ident, None)}
        return Observation(observation.decision, observation.now_ns, inputs)

    def _plan(self, observation: Observation, cursor: Cursor) -> tuple[np.ndarray, np.ndarray]:
        last = self._last
        if last is None or cursor.session != last.session or cursor.epoch != last.epoch:
            return np.zeros(self._shape, np.float32), np.zeros(self._shape[0], np.float32)
        # The player is in this chunk; or still in the one before, and then it will enter this one where time says.
        played_ns = round(cursor.step * last.step_ns) + cursor.lag_ns if cursor.seq == last.seq else observation.now_ns - last.start_ns
        since_ns = self._offset_ns + np.arange(self._shape[0], dtype=np.int64) * self._step_ns  # since the decision
        said = sample(last, last.start_ns + played_ns + since_ns)
        rows = said.position
        if self._joints is not None:
            name, columns = self._joints
            away = observation.inputs[name].value[columns] - sample(last, last.start_ns + played_ns).position
            u = np.minimum(since_ns * 1e-9 / FADE_S, 1.0)[:, None]
            rows = rows + (1 - u) ** 2 * (1 + 2 * u) * away
        overlap = int((~said.past_end).sum())
        firmness = soft_mask(self._shape[0], min(self._sure_steps, overlap), overlap)
        return rows.astype(np.float32), firmness.astype(np.float32)


def _measured(pipeline: Pipeline) -> tuple[str, list[int]] | None:
    """The input that holds the measured positions of the chunk's joints, and their columns in it; None if none does."""
    wanted = [f"position.{joint}" for joint in pipeline.spec.joints]
    for given in pipeline.contract.inputs:
        if set(wanted) <= set(given.select):
            return given.name, [given.select.index(name) for name in wanted]
    return None
