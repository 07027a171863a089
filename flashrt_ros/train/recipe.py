"""What a training is: its recipe, and the command line that names it. Imports nothing of the package but errors."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from math import cos, pi
from pathlib import Path

from flashrt_ros.errors import FlashRTError

# What may be given; all else in the recipe is at least 1.
RANGES = {"staleness": (0, 100), "rate": (0, 1), "weight_decay": (0, 1), "policy_share": (0, 1), "average": (0, 1)}
LEG_RANGES = {"seed": (0, 10**9), "minutes": (1, 10**6), "threads": (1, 1000), "processes": (1, 1000), "worlds": (1, 1000)}


class TrainError(FlashRTError):
    """The training was asked for something that cannot be."""


@dataclass(frozen=True)
class Recipe:
    """rounds: of the whole training (the learning rate falls over all of them). steps: gradient steps per round. draws: of
    noise per encoded prefix. first_rounds: gathered before the first step. expert_rounds: all episodes are the expert's
    until then; ramp: rounds over which the policy's share then rises to policy_share. staleness: decisions by which
    vision may lag in training; 0 is the ablation. average: of the parameters, per step. Raises TrainError."""

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

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name), *RANGES.get(field.name, (1, 10**9)))
        if self.expert_rounds < self.first_rounds or self.rounds <= self.first_rounds:
            raise TrainError(f"--rounds {self.rounds}, --expert-rounds {self.expert_rounds}: neither may end within the "
                             f"{self.first_rounds} --first-rounds that are gathered before the first gradient step")

    def rate_at(self, step: int) -> float:
        """The learning rate: up over warm_up steps, and down along half a cosine to a fiftieth."""
        total = (self.rounds - self.first_rounds) * self.steps
        fall = 0.02 + 0.98 * (1 + cos(pi * min(1.0, step / total))) / 2
        return self.rate * min(1.0, (step + 1) / self.warm_up) * fall

    def policy_share_at(self, rounds: int) -> float:
        """The share of new episodes that the policy drives, after so many rounds."""
        return self.policy_share * min(1.0, max(0.0, (rounds - self.expert_rounds) / self.ramp))


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
    """The recipe that the command line names. Raises TrainError for a value out of its range, in the other options too."""
    for name, limits in LEG_RANGES.items():
        _check(name, getattr(options, name), *limits)
    return Recipe(**{field.name: getattr(options, field.name) for field in fields(Recipe)})


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise TrainError(f"--{name.replace('_', '-')} {value}: give a value from {low} to {high}")
