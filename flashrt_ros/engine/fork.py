"""Several candidates of one decision: the action stage over one belief and n noises.

Owns what a leading dimension of n means to buffers and policy. Which candidate is taken is not decided here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Mapping

import torch

from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.contract.spec import BufferSpec
from flashrt_ros.engine.decision import EngineError
from flashrt_ros.policies.base import Policy


def fork_specs(pipeline: Pipeline, forks: int) -> dict[str, BufferSpec]:
    """The pipeline's buffers, noise and chunk with a leading dimension of `forks` where that is more than 1.

    Raises EngineError for a number below 1, a policy without noise (its candidates would be the same) and an action that
    writes more than its chunk (its candidates would each leave another belief behind).
    """
    spec = pipeline.spec
    if forks < 1:
        raise EngineError(f"forks is {forks}; it must be at least 1")
    if forks == 1:
        return pipeline.buffers
    if spec.noise is None:
        raise EngineError(f"forks is {forks}, but the policy '{spec.type}' takes no noise: its candidates would be the same; leave fork out")
    if pipeline.action.writes != (spec.chunk,):
        others = ", ".join(b for b in pipeline.action.writes if b != spec.chunk)
        raise EngineError(f"forks is {forks}, but the action stage '{spec.action}' also writes {others}, of which a decision leaves "
                          "only one behind; leave fork out")
    return {name: replace(b, shape=(forks, *b.shape)) if name in (spec.noise, spec.chunk) else b
            for name, b in pipeline.buffers.items()}


class Forked:
    """A policy whose action stage is given noise [n, ...] and fills chunk [n, H, N]: in one batch if the policy can, else one
    after another."""

    def __init__(self, policy: Policy, forks: int) -> None:
        self._policy, self._forks, self._spec = policy, forks, policy.spec

    def run(self, stage: str, reads: Mapping[str, torch.Tensor], writes: Mapping[str, torch.Tensor]) -> None:
        noise, chunk = self._spec.noise, self._spec.chunk
        if stage != self._spec.action or self._policy.batches_forks:
            return self._policy.run(stage, reads, writes)
        for i in range(self._forks):
            self._policy.run(stage, {**reads, noise: reads[noise][i]}, {**writes, chunk: writes[chunk][i]})
        return None
