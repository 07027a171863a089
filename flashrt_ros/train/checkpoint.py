"""A training leg's files: everything that the next leg needs, on whatever machine, in parts of at most 16 MiB; and the
policy's weights in half precision, which are the parameters' running average and as such one of those parts.

parameters: float32, in two files. second: Adam's second moments, bfloat16. First moments are left out: they form again
within some tens of steps.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from flashrt_ros.errors import FlashRTError

PART_BYTES = 16 * 2**20
VERSION = 1
WEIGHTS = "tabletop_vla"  # name of the policy's file


class CheckpointError(FlashRTError):
    """A leg's files are missing, foreign, or of another training."""


@dataclass(frozen=True)
class Progress:
    """step, rounds: done so far, over all legs. seed, staleness: of the training. seconds: spent so far."""

    seed: int
    staleness: int
    step: int = 0
    rounds: int = 0
    leg: int = 0
    seconds: float = 0.0


def save_leg(folder: Path, progress: Progress, parameters: dict[str, torch.Tensor], average: dict[str, torch.Tensor],
             second: dict[str, torch.Tensor], facts: dict[str, str]) -> None:
    """Write a leg's files, facts as the weights' metadata. progress.json comes last: without it there is no leg. Raises
    CheckpointError for a part that is too large."""
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(parameters, key=lambda name: parameters[name].numel())
    halves = (names[::2], names[1::2])
    parts = {f"parameters_{i}": {n: parameters[n].float() for n in half} for i, half in enumerate(halves)}
    parts["second"] = {n: t.bfloat16() for n, t in second.items()}
    (folder / "progress.json").unlink(missing_ok=True)
    parts[WEIGHTS] = {n: t.half() for n, t in average.items()}
    for name, tensors in parts.items():
        path = folder / f"{name}.safetensors"
        save_file({n: t.detach().contiguous().cpu() for n, t in tensors.items()}, path, metadata=facts)
        if path.stat().st_size > PART_BYTES:
            raise CheckpointError(f"{path} has {path.stat().st_size} bytes, of at most {PART_BYTES}: give it another part")
    (folder / "progress.json").write_text(json.dumps({"version": VERSION, **asdict(progress)}))


def load_leg(folder: Path) -> tuple[Progress, dict[str, torch.Tensor], dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """(progress, parameters, average, second) of a finished leg. Raises CheckpointError."""
    try:
        facts = json.loads((folder / "progress.json").read_text())
    except OSError as error:
        raise CheckpointError(f"--resume {folder}: no finished leg is there ({error.strerror}: progress.json)") from error
    if facts.pop("version", None) != VERSION:
        raise CheckpointError(f"--resume {folder}: progress.json is not of version {VERSION}; train anew")
    parameters = {}
    for i in range(2):
        parameters |= load_file(folder / f"parameters_{i}.safetensors")
    return Progress(**facts), parameters, load_file(folder / f"{WEIGHTS}.safetensors"), load_file(folder / "second.safetensors")
