"""All that is live at a decision boundary in one piece of memory, so that saving or loading it is a single copy.

Owns where each live tensor lies: first the buffers of the contract's closure, then the inputs that may be held, then what
background runs have frozen of their reads. Nobody lists these by hand. Knows no capsules.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from flashrt_ros.contract.closure import closure
from flashrt_ros.contract.pipeline import Pipeline, Stage
from flashrt_ros.engine.buffers import TORCH_DTYPE, Arena

ALIGNMENT = 256  # bytes: what a GPU's allocator gives, and what vectorised kernels may count on


@dataclass(frozen=True, slots=True)
class Region:
    """Where one live tensor lies: bytes [offset, offset + nbytes)."""

    name: str
    offset: int
    shape: tuple[int, ...]
    dtype: str
    nbytes: int

    def view(self, memory: torch.Tensor) -> torch.Tensor:
        """The tensor, in any memory of the slab's layout (uint8 [nbytes of the slab])."""
        flat = memory[self.offset : self.offset + self.nbytes]
        return flat.view(TORCH_DTYPE[self.dtype]).reshape(self.shape)


class Slab:
    """memory: uint8 [nbytes]. regions: name -> Region, a launch's frozen read under `frozen_name`. belief_nbytes: the leading
    part that holds the closure's buffers, without inputs and launches."""

    def __init__(self, pipeline: Pipeline, arena: Arena) -> None:
        live = closure(pipeline)
        self.buffers, self.inputs = live.buffers, live.inputs
        wanted = [(name, pipeline.buffers[name]) for name in (*live.buffers, *live.inputs)]
        wanted += [(frozen_name(s.name, b), pipeline.buffers[b]) for s in pipeline.stages if s.commit_after is not None
                   for b in s.reads]
        self.regions: dict[str, Region] = {}
        self.belief_nbytes = end = 0
        for name, spec in wanted:
            self.regions[name] = Region(name, end, spec.shape, spec.dtype, spec.nbytes)
            end += -(-spec.nbytes // ALIGNMENT) * ALIGNMENT
            if name in live.buffers:
                self.belief_nbytes = end
        self.memory = arena.memory(max(end, 1))
        self.tensors = self.views(self.memory)

    def views(self, memory: torch.Tensor) -> dict[str, torch.Tensor]:
        """All live tensors, by name, in any memory of the slab's layout."""
        return {name: region.view(memory) for name, region in self.regions.items()}

    def frozen(self, stage: Stage) -> dict[str, torch.Tensor]:
        """What a background run of the stage reads: buffer -> tensor."""
        return {b: self.tensors[frozen_name(stage.name, b)] for b in stage.reads}


def frozen_name(stage: str, buffer: str) -> str:
    """The name of what a background run of `stage` has frozen of `buffer`."""
    return f"{stage} < {buffer}"
