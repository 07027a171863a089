"""The host tier's memory: page-locked room, made once, into which boundaries are fetched from the device without waiting.

Owns the sets and who uses them. What becomes of a fetched boundary is stored.py's and black_box.py's.
"""

from __future__ import annotations

from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Callable, Mapping

import torch

from flashrt_ros.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class HostCopy:
    """tensors: the slab's, by name. outputs: what stages had written when it was fetched, by buffer. Both on the CPU, valid after wait() (which
    any thread may call) and until release()."""

    tensors: Mapping[str, torch.Tensor]
    outputs: Mapping[str, torch.Tensor]
    wait: Callable[[], None]
    release: Callable[[], None]


class HostTier:
    """Room for `count` boundaries that are in use at once. outputs: whether what stages have written is fetched, too."""

    def __init__(self, engine: Engine, count: int = 2, outputs: bool = True) -> None:
        self._engine = engine
        self._free: SimpleQueue[tuple[torch.Tensor, dict[str, torch.Tensor]]] = SimpleQueue()
        for _ in range(count):
            self._free.put((engine.memory(host=True), engine.outputs_like() if outputs else {}))

    def fetch(self, source: torch.Tensor) -> HostCopy | None:
        """Begin to copy a saved boundary (uint8 [nbytes], see Engine.memory). None: all room is in use."""
        try:
            memory, outputs = self._free.get_nowait()
        except Empty:
            return None
        engine = self._engine
        tensors = engine.buffers.tensors
        wait = engine.fetch(((memory, source), *((to, tensors[name]) for name, to in outputs.items())))
        return HostCopy(engine.slab.views(memory), outputs, wait,
                        lambda: self._free.put((memory, outputs)))
