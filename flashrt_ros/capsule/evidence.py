"""What is needed, beside the capsule before it, to make a decision again that a guard stopped, and to see whether it comes out the same."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Mapping

import numpy as np
import torch

from flashrt_ros.engine.observation import InputValue, Observation

OBSERVATION, OUTPUT, CANDIDATES = "observation/", "output/", "candidates"  # names of tensors in a file


@dataclass(frozen=True, slots=True)
class Setup:
    """Of the engine. contract, overrides: its text, and the values that stood there instead (see contract/load.py)."""

    contract: str
    overrides: Mapping[str, str]
    device: str
    threads: int
    forks: int
    versions: Mapping[str, str]  # of python, torch and this package


@dataclass(frozen=True, slots=True)
class Evidence:
    """guard, detail: of the trip. fresh, withheld: see Engine.decide. candidates: float32 [n, H, N] as the policy gave them; None: there were
    none, and `without` says why: a refusal, or the stage's error. outputs: what each stage had written afterwards."""

    setup: Setup
    guard: str
    detail: str
    attempt: int
    observation: Observation
    fresh: bool
    withheld: tuple[str, ...]
    candidates: np.ndarray | None
    without: str
    outputs: Mapping[str, torch.Tensor]
    date: str

    def with_outputs(self, outputs: Mapping[str, torch.Tensor]) -> Evidence:
        return replace(self, outputs=outputs)

    def to_json(self) -> dict[str, Any]:
        """All but the arrays."""
        seen = self.observation
        return {
            "setup": {field.name: _plain(getattr(self.setup, field.name)) for field in fields(Setup)},
            "guard": self.guard, "detail": self.detail, "attempt": self.attempt, "fresh": self.fresh,
            "withheld": list(self.withheld), "without": self.without, "date": self.date,
            "observation": {"decision": seen.decision, "now_ns": seen.now_ns,
                            "inputs": {name: [given.ident, given.stamp_ns, given.crc] for name, given in seen.inputs.items()}},
        }

    def arrays(self) -> dict[str, torch.Tensor]:
        """By their names in a file."""
        # Copies, for no two tensors of a file may share memory, and decoded messages may be read-only.
        found = {OBSERVATION + name: torch.tensor(given.value) for name, given in self.observation.inputs.items()}
        found |= {OUTPUT + name: tensor for name, tensor in self.outputs.items()}
        if self.candidates is not None:
            found[CANDIDATES] = torch.from_numpy(self.candidates)
        return found

    @staticmethod
    def from_json(plain: Mapping[str, Any], arrays: Mapping[str, torch.Tensor]) -> Evidence:
        """Raises KeyError or TypeError for what to_json never writes."""
        seen = plain["observation"]
        inputs = {name: InputValue(arrays[OBSERVATION + name].numpy(), ident, stamp_ns, crc)
                  for name, (ident, stamp_ns, crc) in seen["inputs"].items()}
        return Evidence(
            setup=Setup(**plain["setup"]), guard=plain["guard"], detail=plain["detail"], attempt=plain["attempt"], fresh=plain["fresh"],
            withheld=tuple(plain["withheld"]), without=plain["without"], date=plain["date"],
            observation=Observation(seen["decision"], seen["now_ns"], inputs),
            candidates=arrays[CANDIDATES].numpy() if CANDIDATES in arrays else None,
            outputs={name.removeprefix(OUTPUT): tensor for name, tensor in arrays.items() if name.startswith(OUTPUT)},
        )


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value
