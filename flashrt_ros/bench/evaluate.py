"""`flashrt eval`: success over many scenes, in many processes, with intervals and the controls that keep it honest."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
from collections import Counter
from dataclasses import asdict
from datetime import date
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from flashrt_ros.bench.closed_loop import ClosedLoop, Episode
from flashrt_ros.bench.intervals import wilson
from flashrt_ros.errors import FlashRTError
from flashrt_ros.policies.instruction import KINDS, Instruction
from flashrt_ros.policies.tabletop_cell import COLOURS
from flashrt_ros.resources import find
from flashrt_ros.sim.layout import draw_instruction

CONDITIONS = ("policy", "black images", "wrong instruction")

_loops: dict[str, ClosedLoop] = {}  # of a worker process, by condition


class EvaluationError(FlashRTError):
    """The evaluation was asked for something that does not exist."""


def evaluate(options: argparse.Namespace) -> int:
    """Runs what the command line asks for; prints a table; writes every episode to --json."""
    kinds = options.tasks.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise EvaluationError(f"--tasks {options.tasks}: {', '.join(unknown)} is not a kind of task; allowed: {', '.join(KINDS)}")
    if options.episodes < 1:
        raise EvaluationError(f"--episodes {options.episodes}: give at least 1")
    contract = options.contract or find("config/color_servo.contract.yaml")
    conditions = ("expert",) if options.expert else CONDITIONS if options.controls else CONDITIONS[:1]
    jobs = [(str(contract), kind, options.seed + i, condition) for condition in conditions for kind in kinds
            for i in range(options.episodes)]
    console = Console()
    workers = min(options.workers or os.cpu_count(), len(jobs))
    results: dict[tuple[str, str], list[Episode]] = {(c, k): [] for c in conditions for k in kinds}
    # spawn: a forked process would inherit PyTorch's threads and the EGL context.
    with multiprocessing.get_context("spawn").Pool(workers) as pool, Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console) as progress:
        bar = progress.add_task("episodes", total=len(jobs))
        for (_, kind, _, condition), episode in pool.imap(_run, jobs, chunksize=4):
            results[condition, kind].append(episode)
            progress.advance(bar)
    console.print(_table(results))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({
            "machine": f"{platform.machine()}, {os.cpu_count()} cores", "date": str(date.today()), "contract": str(contract),
            "results": [{"condition": c, "task": k, "success": sum(e.success for e in episodes), "n": len(episodes),
                         "wilson_95": wilson(sum(e.success for e in episodes), len(episodes)),
                         "episodes": [asdict(e) for e in episodes]} for (c, k), episodes in results.items()]}, indent=1))
        console.print(f"episodes: {options.json}")
    return 0


def told_wrongly(instruction: Instruction, seed: int) -> str:
    """The same instruction with another cube's colour, drawn from the seed."""
    others = [colour for colour in COLOURS if colour != instruction.colour]
    return Instruction(instruction.kind, others[seed % len(others)], instruction.bin).text


def _run(job: tuple[str, str, int, str]) -> tuple[tuple, Episode]:
    contract, kind, seed, condition = job
    if condition not in _loops:
        _loops[condition] = ClosedLoop(Path(contract), see=np.zeros_like if condition == "black images" else None)
    told = told_wrongly(draw_instruction(kind, seed), seed) if condition == "wrong instruction" else None
    return job, _loops[condition].run(kind, seed, told, use_expert=condition == "expert")


def _table(results: dict[tuple[str, str], list[Episode]]) -> Table:
    table = Table(title="success in the built-in world", title_justify="left")
    for column in ("condition", "task", "success", "95 % interval (Wilson)", "median s", "most frequent failure"):
        table.add_column(column)
    for (condition, kind), episodes in results.items():
        done = [e for e in episodes if e.success]
        low, high = wilson(len(done), len(episodes))
        failures = Counter(e.reason for e in episodes if not e.success).most_common(1)
        table.add_row(condition, kind, f"{len(done)}/{len(episodes)}", f"{low:.1%} to {high:.1%}",
                      f"{np.median([e.seconds for e in done]):.1f}" if done else "-",
                      f"{failures[0][1]} x {failures[0][0]}" if failures else "-")
    return table
