"""A capsule away from its engine: tensors in ordinary host memory with their digests, and the way back.

Owns content digests and the two phases of a restore: everything is checked, then everything is copied. How a file holds it is file.py's.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Mapping

import torch

from flashrt_ros.capsule.checks import CONTENT, CapsuleRefused, check_engine, check_layout, check_owner, check_task
from flashrt_ros.capsule.record import Digests, Record
from flashrt_ros.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Stored:
    """tensors: by the slab's names, on the CPU. contents: content_digest of each."""

    record: Record
    tensors: Mapping[str, torch.Tensor]
    contents: Mapping[str, str]

    @property
    def root(self) -> str:
        """SHA-256 (hex) over record and contents."""
        return root_of({"record": self.record.to_json(), "contents": dict(self.contents)})

    def verify(self) -> None:
        """Raises CapsuleRefused, naming the buffer, unless every tensor is what it was when the capsule was sealed."""
        for name, tensor in self.tensors.items():
            if content_digest(tensor) != self.contents.get(name):
                raise CapsuleRefused(CONTENT, f"capsule {self.record.id[:12]}: the content of buffer '{name}' is not what was put in: the "
                                              "capsule is damaged; take another")


def seal(record: Record, tensors: Mapping[str, torch.Tensor]) -> Stored:
    """Copies of the tensors with their digests. For 20 MB that takes tens of ms: not on the way of a decision."""
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    return Stored(record, kept, {name: content_digest(tensor) for name, tensor in kept.items()})


def check(stored: Stored, engine: Engine, here: Digests, *, live: bool, task: str = "", other_engine: bool = False) -> None:
    """Whether restore() would take it. Raises CapsuleRefused."""
    check_owner(stored.record, here)
    if live:
        check_task(stored.record, task)
    elif not other_engine:
        check_engine(stored.record, here)
    found = {name: (tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")) for name, tensor in stored.tensors.items()}
    check_layout(stored.record, found, engine.slab.regions)
    stored.verify()


def restore(stored: Stored, engine: Engine, here: Digests, *, live: bool, task: str = "", other_engine: bool = False) -> None:
    """Put the engine exactly where the capsule was taken (an engine of equal digest then gives the same bits; other_engine: any will do);
    or live, give it the capsule's belief, if the task is the same. Raises CapsuleRefused, and then nothing has changed."""
    check(stored, engine, here, live=live, task=task, other_engine=other_engine)
    memory = engine.memory(host=True)
    for name, tensor in engine.slab.views(memory).items():
        tensor.copy_(stored.tensors[name])
    (engine.rewind if live else engine.load)(memory, stored.record.boundary)


def content_digest(tensor: torch.Tensor) -> str:
    """SHA-256 (hex) of `<dtype> <shape>` and the tensor's bytes, row-major: the same bytes of another type are another content."""
    said = hashlib.sha256(f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}".encode())
    said.update(tensor.contiguous().view(-1).view(torch.uint8).numpy())
    return said.hexdigest()


def root_of(plain: Mapping[str, Any]) -> str:
    """SHA-256 (hex) over canonical JSON."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()
