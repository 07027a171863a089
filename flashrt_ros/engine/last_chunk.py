"""What a decision remembers of the one before: the chunk that was handed out. Knows no ROS; numpy only."""

from __future__ import annotations

import numpy as np

from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.chunk.sample import Sample, sample
from flashrt_ros.contract.pipeline import Pipeline


class LastChunk:
    """chunk: the last that was handed out, None before the first; whoever hands one out sets it. sure_ns: from a decision's `now`
    to the first moment at which its chunk can change the motion, which are the first sure_steps of it: what the last chunk says
    for them will have been done. step_ns, offset_ns: of the chunks to come."""

    def __init__(self, pipeline: Pipeline, sure_ns: int) -> None:
        output = pipeline.contract.outputs[0]  # verify has made sure that all outputs share step and offset
        self.step_ns, self.offset_ns = output.step_ns, output.offset_ns
        self.sure_steps = max(0, -(-(sure_ns - self.offset_ns) // self.step_ns))
        self.chunk: Chunk | None = None

    def since_ns(self, horizon: int) -> np.ndarray:
        """When the rows of a new chunk are meant for, counted from its decision: int64 [horizon]."""
        return self.offset_ns + np.arange(horizon, dtype=np.int64) * self.step_ns

    def says(self, horizon: int, cursor: Cursor, now_ns: int) -> Sample:
        """What the last chunk says for the moments of a new one of `horizon` rows that is decided on at now_ns, when the player was at
        `cursor`. There must be one."""
        return sample(self.chunk, self.chunk.start_ns + self.chunk.played_ns(cursor, now_ns) + self.since_ns(horizon))
