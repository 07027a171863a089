"""From the policy's chunk to the positions that are sent: the one place where its numbers get their meaning.

Deltas become absolute against the joint state of the observation that was decided on; a gripper with two positions is told
one of them, with hysteresis from what it was told before. All that is remembered is the last chunk that was handed out.
Knows no ROS; time is an argument. numpy only.
"""

from __future__ import annotations

import numpy as np

from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.chunk.representation import hysteresis, joint_delta
from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.contract.schema import Gripper, Output
from flashrt_ros.engine.last_chunk import LastChunk
from flashrt_ros.engine.observation import Observation

WIDE_OPEN = 0.9  # of the way from closed to open: from here on a gripper that was told nothing yet counts as open


class Targets:
    """Over the steps of a chunk that are sure a gripper is told what the last chunk told it, for that is what it will have been
    told; so a chunk that is played after them neither undoes nor repeats a movement of the gripper that began while it was
    decided on."""

    def __init__(self, pipeline: Pipeline, last: LastChunk) -> None:
        self._contract = pipeline.contract
        self._columns = {joint: i for i, joint in enumerate(pipeline.spec.joints)}
        self.last = last

    def of(self, chunk: np.ndarray, observation: Observation, cursor: Cursor, epoch: int) -> np.ndarray:
        """Positions [H, N], float64, in rad or m, of the policy's own chunk [H, N]; both in the order of its joints.

        observation: what the policy decided on, whatever has come since. cursor: where the player was then. epoch: of the
        decision; what was told in another one is forgotten.
        """
        positions = chunk.astype(np.float64)
        for output in self._contract.outputs:
            columns = [self._columns[joint] for joint in output.select]
            if output.representation == "joint_delta":
                positions[:, columns] = joint_delta(positions[:, columns], self._measured(output, observation))
            if output.gripper is not None:
                before = self._opened_before(output, observation, cursor, epoch)[: len(positions) + 1]
                opened = _opened(output.gripper, positions[:, columns[0]], before)
                positions[:, columns[0]] = np.where(opened, output.gripper.open, output.gripper.closed)
        return positions

    def _measured(self, output: Output, observation: Observation) -> np.ndarray | None:
        """[n] of the output's joints in the observation; None if no input holds them."""
        found = self._contract.measured(output.select)
        return None if found is None else observation.inputs[found[0]].value[found[1]].astype(np.float64)

    def _opened_before(self, output: Output, observation: Observation, cursor: Cursor, epoch: int) -> np.ndarray:
        """Whether a gripper was told to open, bool: one step before the new chunk, and at its steps that are sure."""
        gripper, last = output.gripper, self.last.chunk
        if last is None or last.epoch != epoch:
            # What is not measured wide open may be around something, which a policy that hesitates must not let go.
            measured = self._measured(output, observation)
            way = 0.0 if measured is None else (measured[0] - gripper.closed) / (gripper.open - gripper.closed)
            return np.array([way > WIDE_OPEN])
        told = last.positions[:, last.names.index(output.select[0])]
        rows = self._rows(last, observation.now_ns, cursor)
        return np.abs(told[rows] - gripper.open) < np.abs(told[rows] - gripper.closed)

    def _rows(self, last: Chunk, now_ns: int, cursor: Cursor) -> np.ndarray:
        """The rows of the last chunk that are played one step before the new one and at its steps that are sure. Between two
        rows it is the later one: a movement that has begun is not taken back."""
        steps_ns = np.arange(-1, self.last.sure_steps, dtype=np.int64) * self.last.step_ns
        times_ns = last.played_ns(cursor, now_ns) + self.last.offset_ns + steps_ns
        return np.clip(-(-times_ns // last.step_ns), 0, last.horizon - 1)


def _opened(gripper: Gripper, values: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Whether the gripper is to be open, bool [H], for the policy's values [H]. before [1 + S]: what it was told one step
    earlier, and what it is told at the first S steps whatever the values."""
    sign = 1 if gripper.open_at > gripper.close_at else -1
    sure = len(before) - 1
    then = hysteresis(sign * values[sure:], bool(before[-1]), sign * gripper.close_at, sign * gripper.open_at)
    return np.concatenate([before[1:], then])
