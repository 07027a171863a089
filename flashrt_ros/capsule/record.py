"""Everything of a capsule but its tensors: where the pipeline stood, whose it is, and what was outside then.

Owns the capsule's identity and its form as JSON. Imports no torch and no ROS.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Mapping, NamedTuple

import numpy as np

from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.contract.refresh import Launch, Ledger
from flashrt_ros.engine.boundary import Boundary


class Place(NamedTuple):
    """Which decision of whom. Order among chunks is (session, epoch, seq, attempt). seed, fork: of its noise, whose counter is
    (epoch, decision, attempt, fork); forks: the candidates of which `fork` was taken."""

    session: int
    epoch: int
    seq: int
    attempt: int
    seed: int
    forks: int = 1
    fork: int = 0


@dataclass(frozen=True, slots=True)
class Outside:
    """External facts at the time, kept as a record: restoring a live pipeline never sets them. inputs: name -> (stamp in ns or
    None, CRC-32 of the payload)."""

    task: str = ""
    cursor: Cursor = field(default_factory=Cursor)
    inputs: Mapping[str, tuple[int | None, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Digests:
    """SHA-256 (hex): of contract with policy declaration and weights together; of the weights alone; of all that bits depend on
    besides (versions, device, threads)."""

    contract: str
    weights: str
    engine: str


@dataclass(frozen=True)
class Record:
    """parent: id of the capsule before it; empty: none. chunk: the last chunk that was handed out, which the next decision
    continues; None: none. stage_ms: what stages take in the foreground, which decides what runs there when over age."""

    parent: str
    digests: Digests
    place: Place
    boundary: Boundary
    outside: Outside = field(default_factory=Outside)
    chunk: Chunk | None = None
    stage_ms: Mapping[str, float] | None = None

    @cached_property
    def id(self) -> str:
        """SHA-256 (hex) over what tells this boundary from any other; known before any tensor has been read."""
        boundary = self.boundary
        told = (self.digests.contract, self.parent, tuple(self.place), boundary.decision, boundary.now_ns, boundary.versions,
                boundary.stamps, self.outside.inputs)
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """In JSON types. The chunk's arrays are not in it: they are among the capsule's tensors."""
        boundary, chunk = self.boundary, self.chunk
        return {
            "id": self.id, "parent": self.parent, "digests": asdict(self.digests), "place": self.place._asdict(),
            "boundary": {
                "decision": boundary.decision, "now_ns": boundary.now_ns, "versions": dict(boundary.versions),
                "stamps": dict(boundary.stamps), "idents": dict(boundary.idents), "ledger": _ledger_json(boundary.ledger),
            },
            "outside": {"task": self.outside.task, "cursor": asdict(self.outside.cursor),
                        "inputs": {name: list(said) for name, said in self.outside.inputs.items()}},
            "chunk": None if chunk is None else chunk_json(chunk),
            "stage_ms": None if self.stage_ms is None else dict(self.stage_ms),
        }

    @staticmethod
    def from_json(plain: Mapping[str, Any], chunk: np.ndarray | None) -> Record:
        """chunk: the positions, float64 [H, N], of the last chunk. Raises KeyError or TypeError for what to_json never writes."""
        boundary, outside = plain["boundary"], plain["outside"]
        return Record(
            parent=plain["parent"],
            digests=Digests(**plain["digests"]),
            place=Place(**plain["place"]),
            boundary=Boundary(boundary["decision"], boundary["now_ns"], boundary["versions"], boundary["stamps"],
                              boundary["idents"], _ledger(boundary["ledger"])),
            outside=Outside(outside["task"], Cursor(**outside["cursor"]),
                            {name: (stamp, crc) for name, (stamp, crc) in outside["inputs"].items()}),
            chunk=None if plain["chunk"] is None else chunk_from(plain["chunk"], chunk),
            stage_ms=plain["stage_ms"],
        )


def chunk_json(chunk: Chunk) -> dict[str, Any]:
    """A chunk without its arrays."""
    bare = {name: getattr(chunk, name) for name in ("start_ns", "step_ns", "session", "epoch", "seq", "attempt", "offset_ns",
                                                    "frozen_prefix")}
    return {**bare, "names": list(chunk.names), "base": asdict(chunk.base)}


def chunk_from(plain: Mapping[str, Any], positions: np.ndarray) -> Chunk:
    return Chunk(**{**plain, "names": tuple(plain["names"]), "base": Cursor(**plain["base"]), "positions": positions})


def _ledger_json(ledger: Ledger) -> dict[str, Any]:
    return {
        "last_run": dict(ledger.last_run),
        "consumed": {stage: dict(versions) for stage, versions in ledger.consumed.items()},
        "in_flight": {stage: {"decision": launch.decision, "versions": dict(launch.versions), "stamps": dict(launch.stamps)}
                      for stage, launch in ledger.in_flight.items()},
    }


def _ledger(plain: Mapping[str, Any]) -> Ledger:
    return Ledger(dict(plain["last_run"]), dict(plain["consumed"]),
                  {stage: Launch(**launch) for stage, launch in plain["in_flight"].items()})
