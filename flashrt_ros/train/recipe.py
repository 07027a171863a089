"""What a training is: its recipe, and the command line that names it. Imports nothing of the package."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True)
class Recipe:
    """rounds: of the whole training (the learning rate falls over all of them). steps: gradient steps per round. draws: of
    noise per encoded prefix. first_rounds: gathered before the first step. expert_rounds: all episodes are the expert's
    until then; ramp: rounds over which the policy's share then rises to policy_share. staleness: decisions by which
    vision may lag in training; 0 is the ablation. average: of the parameters, per step."""

    rounds: int = 1500
    steps: int = 5
    batch: int = 512
    draws: int = 4
    first_rounds: int = 40
    expert_rounds: int = 250
    ramp: int = 200
    policy_share: float = 0.8
    staleness: int = 8
    rate: float = 6e-4
    warm_up: int = 300
    weight_decay: float = 0.01
    average: float = 0.999


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `flashrt train`."""
    parser.add_argument("policy", choices=["tabletop_vla"])
    parser.add_argument("--out", type=Path, default=Path("out/train"), help="the leg's files go here: the policy is tabletop_vla.safetensors")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="the --out of the leg before, wherever it ran")
    parser.add_argument("--seed", type=int, default=1, help="of everything (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=8.9, help="end the leg after so long, whatever is left (default: %(default)s)")
    parser.add_argument("--device", help="cuda or cpu (default: cuda where there is one)")
    parser.add_argument("--threads", type=int, default=1, help="PyTorch threads, without a GPU (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=13, help="that run worlds (default: %(default)s)")
    parser.add_argument("--worlds", type=int, default=10, help="per process (default: %(default)s)")
    recipe = parser.add_argument_group("the recipe")
    for field in fields(Recipe):
        recipe.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default, metavar="X",
                            help="default: %(default)s")


def recipe_of(options: argparse.Namespace) -> Recipe:
    return Recipe(**{field.name: getattr(options, field.name) for field in fields(Recipe)})
