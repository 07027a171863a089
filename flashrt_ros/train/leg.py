"""One leg of a training: a number of rounds. In each, all worlds go on by one decision while the device makes a fixed
number of gradient steps on what has been seen so far: nothing depends on how fast either is, and a leg repeats as far as
the hardware does."""

from __future__ import annotations

import json
import platform
import time
from collections import deque
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from flashrt_ros.policies.instruction import KINDS
from flashrt_ros.train.checkpoint import Progress, save_leg
from flashrt_ros.train.learner import Learner
from flashrt_ros.train.recipe import Recipe, TrainError
from flashrt_ros.train.ring import Ring
from flashrt_ros.train.rollout import Rollout
from flashrt_ros.train.worlds import Drive, Worlds

STALE_EVERY = (1, 1, 2, 4, 8)  # refresh ratios of policy-driven episodes, when trained on stale vision
FRESH_SHARE = 0.4
ROLLOUT_AHEAD = 50  # rounds by which the policy is asked before it may drive
REPORT_EVERY = 50  # rounds


class Leg:
    """n: worlds. progress: of the legs before. learner: as they left it. drive: for this leg's worlds."""

    def __init__(self, recipe: Recipe, progress: Progress, n: int, device: torch.device) -> None:
        seed = progress.seed * 1000 + progress.leg
        self._recipe, self._start, self._progress, self._n, self._device = recipe, progress, progress, n, device
        self.learner = Learner(recipe, progress.seed, device)
        self.drive = Drive(seed, STALE_EVERY if recipe.staleness else (1,))
        self._generator = torch.Generator(device).manual_seed(seed)
        self._ring = Ring(n, recipe.rounds - progress.rounds, device)
        self._rollout = Rollout(n, device, seed)
        self._ended: dict[tuple[bool, str], deque] = {(drove, kind): deque(maxlen=100) for drove in (False, True) for kind in KINDS}
        self._losses: dict[str, torch.Tensor] = {}
        self._log: list[dict] = []
        self._waited_s = 0.0  # for worlds
        self._console = Console()

    def run(self, worlds: Worlds, limit_s: float) -> None:
        """The training's remaining rounds, as far as the time allows. Raises TrainError if that was not one gradient step."""
        began, start = time.monotonic(), self._start
        self._console.print(f"{self._n} worlds, {start.rounds} of {self._recipe.rounds} rounds done, on {self._device_name()}")
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Bar(*columns, console=self._console, disable=not self._console.is_terminal) as bar:
            task = bar.add_task("rounds", total=self._recipe.rounds, completed=start.rounds)
            while self._progress.rounds < self._recipe.rounds and time.monotonic() - began < limit_s:
                self._round(worlds)
                bar.update(task, completed=self._progress.rounds)
                if self._progress.rounds % REPORT_EVERY == 0:
                    self._report(time.monotonic() - began)
        if self.learner.steps == start.step:
            raise TrainError(f"the leg was over after {self._progress.rounds - start.rounds} rounds, of which the first "
                             f"{self._recipe.first_rounds} only gather: nothing was learned or saved; give more --minutes")
        self._progress = replace(self._progress, leg=start.leg + 1, seconds=start.seconds + time.monotonic() - began)

    def save(self, out: Path) -> None:
        """Write the leg's files. Raises CheckpointError."""
        progress = self._progress
        save_leg(out, progress, *self.learner.state(), {
            "policy": "tabletop_vla", "trained_stale": str(progress.staleness > 0).lower(), "seed": str(progress.seed),
            "steps": str(progress.step), "rounds": str(progress.rounds), "recipe": json.dumps(asdict(self._recipe)),
        })
        log = {"device": self._device_name(), "worlds": self._n, "progress": asdict(progress), "lines": self._log}
        (out / "log.json").write_text(json.dumps(log, indent=1))
        self._console.print(f"{out}: step {progress.step}, {len(self._ring)} records in {progress.seconds:.0f} s")

    def _round(self, worlds: Worlds) -> None:
        recipe, rounds = self._recipe, self._progress.rounds
        gathered = rounds + 1 - self._start.rounds  # with this one, in this leg
        records = worlds.records
        seen = self._ring.add(records)
        self._count_ended(records)
        if rounds >= recipe.expert_rounds - ROLLOUT_AHEAD:
            with self.learner.precision:
                worlds.chunks[:] = self._rollout.chunks(self.learner.average, seen, records)
        if gathered == recipe.first_rounds and self.learner.steps == 0:
            self.learner.set_scale(self._ring.labels())
        worlds.start(recipe.policy_share_at(rounds))
        if gathered >= recipe.first_rounds:
            for _ in range(recipe.steps):
                batch = self._ring.draw(recipe.batch, recipe.staleness, FRESH_SHARE, self._generator)
                self._losses = self.learner.learn(batch, self._generator)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        stepped = time.monotonic()
        worlds.wait()
        self._waited_s += time.monotonic() - stepped
        self._progress = replace(self._progress, step=self.learner.steps, rounds=rounds + 1)

    def _count_ended(self, records: np.ndarray) -> None:
        for ended, drove in zip(records["ended"], records["policy_drove"]):
            if ended:
                self._ended[bool(drove), KINDS[abs(ended) - 1]].append(ended > 0)
        records["ended"] = 0  # it stands there until the world's next episode ends

    def _device_name(self) -> str:
        return torch.cuda.get_device_name(self._device) if self._device.type == "cuda" else f"CPU, {platform.machine()}"

    def _report(self, seconds: float) -> None:
        success = {f"{'policy' if drove else 'expert'} {kind}": f"{sum(e)}/{len(e)}" for (drove, kind), e in self._ended.items() if e}
        parts = {name: round(value.item(), 4) for name, value in self._losses.items()}
        line = {"round": self._progress.rounds, "step": self._progress.step, "seconds": round(seconds, 1),
                "waited": round(self._waited_s, 1), **parts, **success}
        self._log.append(line)
        self._console.print(" ".join(f"{k} {v}" for k, v in line.items()), soft_wrap=True, highlight=False)
