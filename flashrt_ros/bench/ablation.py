"""What a capsule must hold: from the middle of an episode, the same decisions again after a restore that leaves something out.

The observations are those of the original run, so all that can differ is what the pipeline remembers. Writes a table, a plot and JSON:

    flashrt bench ablation --seed 10003 --at 12 --decisions 20 --plot out/ablation.png
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from flashrt_ros.bench.closed_loop import ClosedLoop
from flashrt_ros.bench.machine import machine
from flashrt_ros.capsule.maker import Asked, ChunkMaker, Made, NotMade
from flashrt_ros.capsule.ring import Capsule
from flashrt_ros.contract.load import load
from flashrt_ros.engine.noise import with_noise
from flashrt_ros.engine.observation import Observation
from flashrt_ros.errors import FlashRTError
from flashrt_ros.resources import DEFAULT_CONTRACT, find

FULL, CACHE, NOISE, RING, LAUNCHES = PARTS = (
    "the full capsule", "without tokens, keys and values", "without the noise counter", "without the last chunk", "without launch records",
)  # fmt: skip
# Every part of a capsule is then in use: at the boundary a run is in flight, and the next decision still acts on the old result.
SETTINGS = {"stages.vision.every": "4", "stages.vision.overlap.commit_after": "2", "policy.continues": "future_state"}
LONGEST = 120  # decisions of an episode that runs out of time


class AblationError(FlashRTError):
    """The episode is too short for the decisions that were asked for."""


class Listening(ChunkMaker):
    """Keeps what every decision was asked and what it made."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.heard: list[tuple[Asked, Made]] = []

    def make(self, asked: Asked, *arguments: object) -> Made | NotMade:
        made = super().make(asked, *arguments)
        if isinstance(made, Made):
            self.heard.append((asked, made))
        return made


class Tape:
    """Takes the place of the intake: hands out again what was observed."""

    def __init__(self, heard: Sequence[tuple[Asked, Made]]) -> None:
        self._seen = {asked.index: made.observation for asked, made in heard}

    def take(self, decision: int, now_ns: int, decode: object) -> Observation:
        return self._seen[decision]


def ablate(seed: int, at: int, decisions: int, task: str = "place") -> dict[str, np.ndarray]:
    """What is left out -> how far each of the decisions after the at-th is from the original, float64 [decisions]: the largest
    difference over chunk and joints, rad (m for the gripper). Raises AblationError for an episode that is too short."""
    depth = {"rollback.depth": str(LONGEST + len(PARTS) * decisions)}  # nothing that is made again pushes the capsule out
    loop = ClosedLoop(load(find(DEFAULT_CONTRACT), SETTINGS | depth), maker=Listening)
    try:
        loop.run(task, seed)
        maker = loop.maker
        if len(maker.heard) < at + decisions + 1:
            raise AblationError(f"the episode of seed {seed} has {len(maker.heard)} decisions; asked for are {decisions} after decision "
                                f"{at}: take another seed, or begin earlier")
        heard, capsule = maker.heard[: at + decisions + 1], maker.ring.capsules[at - len(maker.heard)]
        return {what: _again(maker, capsule, what, heard, at) for what in PARTS}
    finally:
        loop.close()


def _again(maker: Listening, capsule: Capsule, without: str, heard: Sequence[tuple[Asked, Made]], at: int) -> np.ndarray:
    """The decisions after the at-th, from the capsule without that part of it: what is not restored stays as the run left it."""
    engine, last = maker.engine, maker.last
    left = {name: engine.buffers.tensors[name].clone() for name in engine.slab.buffers}
    newest = last.chunk
    maker.load(capsule)
    if without == CACHE:
        for name, tensor in left.items():
            engine.buffers.tensors[name].copy_(tensor)
    elif without == RING:
        last.chunk = newest
    elif without == LAUNCHES:
        engine.ledger.in_flight.clear()
    maker.intake, maker.corrupt = Tape(heard), (lambda seen, _: _counted_from(seen, maker, heard[0][0], at)) if without == NOISE else None
    seqs = iter([made.chunk.seq for _, made in heard[at + 1:]])
    differences = []
    for asked, made in heard[at + 1:]:
        again = maker.make(asked, None, lambda: next(seqs))
        differences.append(np.abs(again.chunk.positions - made.chunk.positions).max() if isinstance(again, Made) else np.nan)
    return np.array(differences)


def _counted_from(seen: Observation, maker: Listening, first: Asked, at: int) -> Observation:
    """With the noise of a counter that begins anew after the capsule."""
    counter = Observation(seen.decision - at - 1, seen.now_ns, seen.inputs)
    noise = maker.pipeline.spec.noise
    again = with_noise(counter, maker.pipeline, first.seed, first.epoch)
    return replace(seen, inputs={**seen.inputs, noise: replace(again.inputs[noise], ident=seen.inputs[noise].ident)})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="flashrt bench ablation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=10_003, metavar="S", help="scene (default: %(default)s)")
    parser.add_argument("--at", type=int, default=12, metavar="K", help="decision after which is gone back to (default: %(default)s)")
    parser.add_argument("--decisions", type=int, default=20, metavar="N", help="made again (default: %(default)s)")
    parser.add_argument("--plot", type=Path, default=None, metavar="FILE.png")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE")
    options = parser.parse_args(arguments)
    found = ablate(options.seed, options.at, options.decisions)
    table = Table(title=f"the {options.decisions} decisions after decision {options.at}, made again: difference of their chunks, rad")
    for column in ("restored", "first decision", "largest", "last decision", "equal bit for bit"):
        table.add_column(column, justify="left" if column == "restored" else "right")
    for what, far in found.items():
        table.add_row(what, f"{far[0]:.2g}", f"{far.max():.2g}", f"{far[-1]:.2g}", f"{int((far == 0).sum())}/{len(far)}")
    Console().print(table)
    if options.plot is not None:
        from flashrt_ros.bench.ablation_plot import draw

        draw(found, machine(), options.plot)
        print(f"picture: {options.plot}")
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"machine": machine(), "difference_rad": {k: v.tolist() for k, v in found.items()}}, indent=1))
        print(f"figures: {options.json}")
    return 0 if not found[FULL].any() else 1
