"""The identity of a pipeline: what chunks and capsules carry so that they are never mixed up. Pure Python."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Mapping

from flashrt_ros.contract.schema import Contract
from flashrt_ros.contract.spec import PolicySpec


def digest(contract: Contract, spec: PolicySpec, weights_digest: str) -> str:
    """SHA-256 (hex) over the canonical JSON of contract, policy declaration and weights digest.

    What has no meaning does not change it: file name, comments, order of keys, the way a number is written.
    """
    # Inputs, stages and on_change are sets to the contract; records that don't compare (source, lines) are no meaning.
    canonical = {
        "contract": {
            **_plain(contract),
            "inputs": {i.name: _plain(i) for i in contract.inputs},
            "refresh": {r.stage: {**_plain(r), "on_change": sorted(r.on_change)} for r in contract.refresh},
        },
        # Without ages the declaration is digested as it was before there were any.
        "spec": {k: v for k, v in _plain(spec).items() if k != "ages" or spec.ages},
        "weights": weights_digest,
    }
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.compare}
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value
