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
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from flashrt_ros.errors import FlashRTError

PART_BYTES = 16 * 2**20
VERSION = 1
WEIGHTS = "tabletop_vla.safetensors"  # the policy's file
PARAMETERS = ("parameters_0.safetensors", "parameters_1.safetensors")
SECOND = "second.safetensors"
PROGRESS = "progress.json"


class CheckpointError(FlashRTError):
    """A leg's files are missing, foreign, of another training, or cannot be written."""


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
    """Write a leg's files, facts as the weights' metadata. An earlier leg in the folder stays whole until all of this one is
    on the disk; progress.json goes first and comes last: without it there is no leg. Raises CheckpointError."""
    names = sorted(parameters, key=lambda name: parameters[name].numel())
    parts = {name: {n: parameters[n].float() for n in half} for name, half in zip(PARAMETERS, (names[::2], names[1::2]))}
    parts[SECOND] = {n: t.bfloat16() for n, t in second.items()}
    parts[WEIGHTS] = {n: t.half() for n, t in average.items()}
    files = {name: _encode(part, facts) for name, part in parts.items()}
    for name, content in files.items():
        if len(content) > PART_BYTES:
            raise CheckpointError(f"{folder / name} would have {len(content)} bytes, of at most {PART_BYTES}: give it another part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / f"{name}.new").write_bytes(content)
        (folder / PROGRESS).unlink(missing_ok=True)
        for name in files:
            (folder / f"{name}.new").replace(folder / name)
        (folder / PROGRESS).write_text(json.dumps({"version": VERSION, **asdict(progress)}))
    except OSError as error:
        raise CheckpointError(f"{folder}: the leg cannot be written ({error})") from error


def _encode(tensors: dict[str, torch.Tensor], facts: dict[str, str]) -> bytes:
    """A safetensors file, whose bytes are the same every time: the library would write the facts in random order."""
    content = save({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}, facts)
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:end]), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return content[:8] + header.ljust(end - 8) + content[end:]


def load_leg(folder: Path) -> tuple[Progress, dict[str, torch.Tensor], dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """(progress, parameters, average, second) of a finished leg. Raises CheckpointError."""
    try:
        facts = json.loads((folder / PROGRESS).read_text())
    except OSError as error:
        raise CheckpointError(f"--resume {folder}: no finished leg is there ({error.strerror}: {PROGRESS})") from error
    except ValueError as error:
        raise CheckpointError(f"--resume {folder}: {PROGRESS} is damaged ({error}); copy the leg's folder again") from error
    if not isinstance(facts, dict) or facts.pop("version", None) != VERSION:
        raise CheckpointError(f"--resume {folder}: {PROGRESS} is not of version {VERSION}; train anew")
    try:
        first, rest, average, second = (load_file(folder / name) for name in (*PARAMETERS, WEIGHTS, SECOND))
        return Progress(**facts), first | rest, average, second
    except (OSError, SafetensorError, TypeError) as error:
        raise CheckpointError(f"--resume {folder}: the leg is not whole ({error}); copy its folder again") from error
