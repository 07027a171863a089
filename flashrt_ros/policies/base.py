"""What the engine asks of a policy. A policy is a set of pure functions over named tensors; it owns no clock, no
random numbers and no buffers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Mapping

import numpy as np
import torch

from flashrt_ros.contract.spec import PolicySpec
from flashrt_ros.errors import FlashRTError


class TaskError(FlashRTError):
    """The instruction is not one that this policy can follow."""


class Policy(ABC):
    """Subclasses set `spec` and implement `run`, `encode_text` and `weights_digest`.

    batches_forks: the action stage also takes noise [n, ...] and then fills chunk [n, H, N]; all else is read as it is."""

    spec: PolicySpec
    batches_forks = False

    @abstractmethod
    def run(self, stage: str, reads: Mapping[str, torch.Tensor], writes: Mapping[str, torch.Tensor]) -> None:
        """Run one stage: fill every tensor of `writes` in place from `reads`.

        Pure: the result depends on `reads` only (and on the previous value of a state buffer, which is in both).
        No allocation that outlives the call, no host synchronisation, no random numbers.
        """

    @abstractmethod
    def encode_text(self, text: str) -> np.ndarray:
        """The fixed-shape encoding of an instruction for the `task` buffer. Raises TaskError for one it can't follow."""

    @abstractmethod
    def weights_digest(self) -> str:
        """SHA-256 (hex) over everything learned or tuned that `run` depends on."""
