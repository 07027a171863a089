"""What a decision remembers of the one before: the chunk that was handed out. Knows no ROS; numpy only."""

from __future__ import annotations

from flashrt_ros.chunk.chunk import Chunk
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
