"""What the engine is given at one decision: the newest value of every input, with its identity and age."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

import numpy as np


@dataclass(frozen=True, slots=True)
class InputValue:
    """value: an array of the input buffer's shape and dtype. ident: changes exactly when a new message was taken (the
    buffer's version rises by one when it differs from the last one written). stamp_ns: None for timeless inputs. crc: CRC-32 of
    the message's payload; None: it was no message."""

    value: np.ndarray
    ident: int
    stamp_ns: int | None
    crc: int | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """decision: index k on the grid. now_ns: t0 + k * period, on the node's clock."""

    decision: int
    now_ns: int
    inputs: Mapping[str, InputValue]
