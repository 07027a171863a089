"""Where an engine stands between two decisions, but for the content of its buffers (see slab.py). Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

from flashrt_ros.contract.refresh import Ledger


@dataclass(frozen=True, slots=True)
class Boundary:
    """decision, now_ns: of the last decision; None before the first. versions, stamps: per buffer (ns; None: timeless or never
    written). idents: per input, of the value last written; None: of none. ledger: a copy; what ran when on which versions, and
    what was in flight."""

    decision: int | None
    now_ns: int | None
    versions: Mapping[str, int]
    stamps: Mapping[str, int | None]
    idents: Mapping[str, int | None]
    ledger: Ledger
