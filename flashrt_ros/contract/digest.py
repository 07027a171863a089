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
            **_said(contract, {"fork": None}),
            "policy": _said(contract.policy, {"continues": ""}),
            "limits": _said(contract.limits, {"tracking_error": {}}),
            "outputs": [_said(o, {"gripper": None}) for o in contract.outputs],
            "inputs": {i.name: _plain(i) for i in contract.inputs},
            "refresh": {r.stage: {**_plain(r), "on_change": sorted(r.on_change)} for r in contract.refresh},
        },
        "spec": _said(spec, {"ages": [], "plan": None}),
        "weights": weights_digest,
    }
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _said(value: object, later: Mapping[str, object]) -> dict[str, object]:
    """The record without those of its fields that came later and say nothing: it keeps the digest that it had before."""
    return {k: v for k, v in _plain(value).items() if k not in later or v != later[k]}


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.compare}
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value
