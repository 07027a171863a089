"""`flashrt train tabletop_vla`: from nothing to weights, in legs that can move between machines.

A leg is a number of rounds. In each, all worlds go on by one decision while the GPU makes a fixed number of gradient
steps on what has been seen so far: nothing depends on how fast either is, and a leg repeats as far as the hardware does.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections import Counter, deque
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import asdict, replace
from math import cos, pi

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from flashrt_ros.errors import FlashRTError
from flashrt_ros.policies.instruction import KINDS
from flashrt_ros.policies.tabletop_vla_net import TabletopVLA
from flashrt_ros.train.checkpoint import Progress, load_leg, save_leg
from flashrt_ros.train.losses import Heads, losses
from flashrt_ros.train.recipe import Recipe, recipe_of
from flashrt_ros.train.ring import Ring
from flashrt_ros.train.rollout import Rollout
from flashrt_ros.train.worlds import Drive, Worlds

STALE_EVERY = (1, 1, 2, 4, 8)  # refresh ratios of policy-driven episodes, when trained on stale vision
FRESH_SHARE = 0.4
HEADS = "heads."  # prefix of the training heads' names in a leg's files
SCALE_FLOOR = 2e-3  # rad or m


class TrainError(FlashRTError):
    """The training was asked for something that cannot be."""


def train(options: argparse.Namespace) -> int:
    """Runs what the command line asks for."""
    recipe = recipe_of(options)
    if recipe.expert_rounds < recipe.first_rounds or recipe.rounds <= recipe.first_rounds:
        raise TrainError(f"rounds {recipe.rounds}, expert_rounds {recipe.expert_rounds}: both must exceed the {recipe.first_rounds} rounds "
                         "that are gathered before the first gradient step")
    leg = Leg(recipe, options)
    try:
        leg.run()
    finally:
        leg.close()
    return 0


class Leg:
    """One run of the loop, from a resumed leg's files or from nothing."""

    def __init__(self, recipe: Recipe, options: argparse.Namespace) -> None:
        self._recipe, self._out, self._limit_s = recipe, options.out, options.minutes * 60
        self._console = Console()
        device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.set_num_threads(1 if device.type == "cuda" else options.threads)
        self._progress = Progress(options.seed, recipe.staleness)
        torch.manual_seed(options.seed)
        self._net, self._heads = TabletopVLA(), Heads()
        average = second = None
        if options.resume is not None:
            self._progress, parameters, average, second = load_leg(options.resume)
            if (self._progress.seed, self._progress.staleness) != (options.seed, recipe.staleness):
                raise TrainError(f"--resume {options.resume} is of seed {self._progress.seed} and staleness {self._progress.staleness}; "
                                 f"this leg asks for {options.seed} and {recipe.staleness}: give the same")
            self._load(parameters)
        self._net.to(device, memory_format=torch.channels_last), self._heads.to(device)
        self._average = deepcopy(self._net).requires_grad_(False)
        if average is not None:
            self._average.load_state_dict({n: t.float().to(device) for n, t in average.items()})
        self._optimiser = torch.optim.AdamW(self._parameters().values(), recipe.rate, betas=(0.9, 0.98),
                                            weight_decay=recipe.weight_decay, fused=device.type == "cuda")
        if second is not None:
            self._restore(second)
        self._device = device
        self._precision = torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()
        leg_seed = options.seed * 1000 + self._progress.leg
        self._generator = torch.Generator(device).manual_seed(leg_seed)
        self._worlds = Worlds(options.processes, options.worlds, Drive(leg_seed, STALE_EVERY if recipe.staleness else (1,)))
        self._ring = Ring(self._worlds.n, recipe.rounds - self._progress.rounds, device)
        self._rollout = Rollout(self._worlds.n, device, leg_seed)
        self._ended: dict[tuple[bool, str], deque] = {(drove, kind): deque(maxlen=100) for drove in (False, True) for kind in KINDS}
        self._losses: Counter[str] = Counter()
        self._log: list[dict] = []
        self._waited_s = 0.0  # for worlds, since the leg began

    def run(self) -> None:
        recipe, began, start = self._recipe, time.monotonic(), self._progress
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Bar(*columns, console=self._console, disable=not self._console.is_terminal) as bar:
            task = bar.add_task("rounds", total=recipe.rounds, completed=start.rounds)
            while self._progress.rounds < recipe.rounds and time.monotonic() - began < self._limit_s:
                self._round(self._progress.rounds - start.rounds)
                self._progress = replace(self._progress, rounds=self._progress.rounds + 1)
                bar.update(task, completed=self._progress.rounds)
                if self._progress.rounds % 50 == 0:
                    self._report(time.monotonic() - began)
        self._progress = replace(self._progress, leg=start.leg + 1, seconds=start.seconds + time.monotonic() - began)
        self._save()

    def close(self) -> None:
        self._worlds.close()

    def _round(self, local: int) -> None:
        """local: rounds done in this leg."""
        recipe, progress = self._recipe, self._progress
        records = self._worlds.records
        seen = self._ring.add(records)
        for ended, drove in zip(records["ended"], records["policy_drove"]):
            if ended:
                self._ended[bool(drove), KINDS[abs(ended) - 1]].append(ended > 0)
        records["ended"] = 0
        share = recipe.policy_share * min(1.0, max(0.0, (progress.rounds - recipe.expert_rounds) / recipe.ramp))
        if progress.rounds >= recipe.expert_rounds - 50:
            with self._precision:
                self._worlds.chunks[:] = self._rollout.chunks(self._average, seen, records)
        if local + 1 == recipe.first_rounds and progress.step == 0:
            self._set_scale(self._ring.labels())
        self._worlds.start(share)
        if local + 1 >= recipe.first_rounds:
            for _ in range(recipe.steps):
                self._step()
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        stepped = time.monotonic()
        self._worlds.wait()
        self._waited_s += time.monotonic() - stepped

    def _step(self) -> None:
        recipe, step = self._recipe, self._progress.step
        total = (recipe.rounds - recipe.first_rounds) * recipe.steps
        rate = recipe.rate * min(1.0, (step + 1) / recipe.warm_up) * (0.02 + 0.98 * (1 + cos(pi * min(1.0, step / total))) / 2)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        batch = self._ring.draw(recipe.batch, recipe.staleness, FRESH_SHARE, self._generator)
        with self._precision:
            parts = losses(self._net, self._heads, batch, recipe.draws, self._generator)
        self._optimiser.zero_grad(set_to_none=True)
        sum(parts.values()).backward()
        torch.nn.utils.clip_grad_norm_(self._parameters().values(), 1.0)
        self._optimiser.step()
        kept = min(recipe.average, (1 + step) / (10 + step))
        with torch.no_grad():
            torch._foreach_lerp_(list(self._average.parameters()), list(self._net.parameters()), 1 - kept)
        self._recent = parts
        self._progress = replace(self._progress, step=step + 1)

    def _set_scale(self, labels: torch.Tensor) -> None:
        """labels: joint targets minus joints, [records, 32, 7]."""
        scale = labels.float().square().mean(0).sqrt().clamp_min(SCALE_FLOOR)
        for net in (self._net, self._average):
            net.action_scale.copy_(scale)

    def _report(self, seconds: float) -> None:
        success = {f"{'policy' if drove else 'expert'} {kind}": f"{sum(e)}/{len(e)}" for (drove, kind), e in self._ended.items() if e}
        parts = {name: round(float(value.detach()), 4) for name, value in getattr(self, "_recent", {}).items()}
        line = {"round": self._progress.rounds, "step": self._progress.step, "seconds": round(seconds, 1), "waited": round(self._waited_s, 1), **parts, **success}
        self._log.append(line)
        self._console.print(" ".join(f"{k} {v}" for k, v in line.items()), soft_wrap=True, highlight=False)

    def _parameters(self) -> dict[str, torch.nn.Parameter]:
        return dict(self._net.named_parameters()) | {HEADS + n: p for n, p in self._heads.named_parameters()}

    def _load(self, parameters: dict[str, torch.Tensor]) -> None:
        self._heads.load_state_dict({n.removeprefix(HEADS): t for n, t in parameters.items() if n.startswith(HEADS)})
        self._net.load_state_dict({n: t for n, t in parameters.items() if not n.startswith(HEADS)})

    def _restore(self, second: dict[str, torch.Tensor]) -> None:
        for name, parameter in self._parameters().items():
            self._optimiser.state[parameter] = {
                "step": torch.tensor(float(self._progress.step), device=parameter.device if parameter.is_cuda else "cpu"),
                "exp_avg": torch.zeros_like(parameter), "exp_avg_sq": second[name].to(parameter.device, torch.float32),
            }

    def _save(self) -> None:
        state = self._optimiser.state
        parameters = dict(self._net.state_dict()) | {HEADS + n: t for n, t in self._heads.state_dict().items()}
        second = {n: state[p]["exp_avg_sq"] for n, p in self._parameters().items() if p in state}
        save_leg(self._out, self._progress, parameters, dict(self._average.state_dict()), second, {
            "policy": "tabletop_vla", "trained_stale": str(self._recipe.staleness > 0).lower(), "seed": str(self._progress.seed),
            "steps": str(self._progress.step), "rounds": str(self._progress.rounds), "recipe": json.dumps(asdict(self._recipe)),
        })
        device = torch.cuda.get_device_name() if self._device.type == "cuda" else platform.processor()
        log = {"device": device, "worlds": self._worlds.n, "progress": asdict(self._progress), "lines": self._log}
        (self._out / "log.json").write_text(json.dumps(log, indent=1))
        self._console.print(f"{self._out}: step {self._progress.step}, {len(self._ring)} records in {self._progress.seconds:.0f} s")
