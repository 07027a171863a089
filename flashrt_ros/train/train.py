"""`flashrt train tabletop_vla`: from nothing to weights, in legs that can move between machines."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryFile

import torch

from flashrt_ros.train.checkpoint import Progress, load_leg
from flashrt_ros.train.leg import Leg
from flashrt_ros.train.recipe import TrainError, recipe_of
from flashrt_ros.train.worlds import Worlds


def train(options: argparse.Namespace) -> int:
    """Runs what the command line asks for, see recipe.py. What can't be is refused before anything runs: TrainError, or
    CheckpointError for the leg to resume."""
    recipe = recipe_of(options)
    device = _device(options.device)
    progress, *state = Progress(options.seed, recipe.staleness), None
    if options.resume is not None:
        progress, *state = load_leg(options.resume)
        if (progress.seed, progress.staleness) != (options.seed, recipe.staleness):
            raise TrainError(f"--resume {options.resume} is of --seed {progress.seed} --staleness {progress.staleness}; this leg asks "
                             f"for {options.seed} and {recipe.staleness}: give the same")
        if recipe.rounds - progress.rounds <= recipe.first_rounds:
            raise TrainError(f"--resume {options.resume}: {progress.rounds} of {recipe.rounds} --rounds are done, and a leg gathers "
                             f"{recipe.first_rounds} before its first gradient step: the training is finished, or give more --rounds")
    _check_writable(options.out)
    torch.set_num_threads(1 if device.type == "cuda" else options.threads)
    leg = Leg(recipe, progress, options.processes * options.worlds, device)
    if options.resume is not None:
        leg.learner.restore(progress.step, *state)
    with Worlds(options.processes, options.worlds, leg.drive) as worlds:
        leg.run(worlds, options.minutes * 60)
    leg.save(options.out)
    return 0


def _device(name: str | None) -> torch.device:
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise TrainError(f"--device {name}: give cuda or cpu") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise TrainError(f"--device {name}: torch finds no CUDA device here; give cpu")
    if device.type not in ("cuda", "cpu"):
        raise TrainError(f"--device {name}: give cuda or cpu")
    return device


def _check_writable(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise TrainError(f"--out {out}: nothing can be written there ({error.strerror}); give another folder") from error
