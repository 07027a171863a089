"""What running a stage means in tensors. A plan is the tuple of Due that refresh.due returns; a stage in it is always
the same Call, whatever else the plan holds, so that a plan can be recorded once and replayed.

Owns the wiring of stages to buffers: nothing here runs anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Mapping

import torch

from flashrt_ros.contract.pipeline import Stage
from flashrt_ros.contract.refresh import own_state
from flashrt_ros.engine.buffers import Arena, Buffers

Copies = tuple[tuple[torch.Tensor, torch.Tensor], ...]  # (to, from) pairs


@dataclass(frozen=True, slots=True)
class Call:
    """First the copies, then the stage over `reads` and `writes`. The two never share memory: a state buffer is read
    from a copy of its previous value, so a stage that fails half-way has not lost it."""

    stage: str
    copies: Copies
    reads: Mapping[str, torch.Tensor]
    writes: Mapping[str, torch.Tensor]

    @property
    def undo(self) -> Copies:
        """The copies the other way round."""
        return tuple((source, to) for to, source in self.copies)

    @property
    def again(self) -> Call:
        """The same stage over what has been copied already."""
        return replace(self, copies=())


def foreground_call(stage: Stage, buffers: Buffers, arena: Arena) -> Call:
    """The stage in place: it writes the pipeline's own buffers."""
    tensors = buffers.tensors
    previous = {b: arena.tensor(buffers.specs[b]) for b in stage.writes if b in own_state(stage)}
    return Call(
        stage=stage.name,
        copies=tuple((previous[b], tensors[b]) for b in previous),
        reads={b: previous.get(b, tensors[b]) for b in stage.reads},
        writes={b: tensors[b] for b in stage.writes},
    )


def background_call(stage: Stage, buffers: Buffers, frozen: Mapping[str, torch.Tensor], arena: Arena) -> tuple[Call, Copies]:
    """The stage on a shadow of all that it reads (frozen: buffer -> tensor) and writes, and the copies that commit its
    results."""
    tensors = buffers.tensors
    results = {b: arena.tensor(buffers.specs[b]) for b in stage.writes}
    call = Call(stage.name, tuple((frozen[b], tensors[b]) for b in frozen), frozen, results)
    return call, tuple((tensors[b], results[b]) for b in results)
