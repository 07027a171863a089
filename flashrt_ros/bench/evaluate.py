"""`flashrt eval`: success over many scenes, in many processes, with intervals and the controls that keep it honest.

jobs.py says what is run, workers.py runs it, rows.py compares, report.py, plot.py and results_file.py show.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from flashrt_ros import policies
from flashrt_ros.bench import jobs, report, results_file
from flashrt_ros.bench.jobs import EvaluationError, Job, Setting
from flashrt_ros.bench.results_file import Run
from flashrt_ros.bench.rows import Result, Row, lines
from flashrt_ros.bench.workers import episodes
from flashrt_ros.contract.load import load
from flashrt_ros.contract.verify import verify
from flashrt_ros.resources import DEFAULT_CONTRACT, find

NARROWEST = 132  # columns of the tables where there is no terminal
PICTURES = (".png", ".svg", ".pdf")


def evaluate(options: argparse.Namespace) -> int:
    """Runs what the command line asks for, or reads it from results files; prints tables, writes --json and --plot."""
    console = Console() if sys.stdout.isatty() else Console(width=max(NARROWEST, Console().width))
    _check_outputs(options)
    runs, rows = _read(options) if options.merge else _run(options, console)
    compared = lines(rows)
    if options.json is not None:
        results_file.write(options.json, runs, compared)
    console.print(report.success_table(compared))
    if (causes := report.cause_table(compared)) is not None:
        console.print(causes)
    if options.json is not None:
        console.print(f"every episode: {options.json}")
    if options.plot is not None:
        from flashrt_ros.bench import plot, plot_latency  # matplotlib takes a second

        draw = plot_latency.draw if len(plot_latency.latencies(compared)) > 1 else plot.draw
        draw(compared, runs, options.plot)
        console.print(f"picture: {options.plot}")
    if options.failures is not None and options.failures.exists():
        console.print(f"pictures of failed episodes: {options.failures}")
    return 0


def _check_outputs(options: argparse.Namespace) -> None:
    """What could not be written is told before the episodes are run, not after."""
    for flag, path, suffixes in (("--json", options.json, None), ("--plot", options.plot, PICTURES)):
        if path is None:
            continue
        if suffixes and path.suffix not in suffixes:
            raise EvaluationError(f"{flag} {path}: the file's name must end in one of {', '.join(suffixes)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            new = not path.exists()
            path.open("a").close()
            if new:  # nothing is left of a run that fails
                path.unlink()
        except OSError as error:
            raise EvaluationError(f"{flag} {path}: {error.strerror}; give a file that can be written") from error


def _read(options: argparse.Namespace) -> tuple[list[Run], list[Row]]:
    if options.contract or options.set or options.failures:
        raise EvaluationError("--from reads what earlier runs made, and runs nothing: leave contracts, --set and --failures out")
    return results_file.merge([(path, *results_file.read(path)) for path in options.merge])


def _run(options: argparse.Namespace, console: Console) -> tuple[list[Run], list[Row]]:
    work = _plan(options)
    threads = options.threads
    workers = options.workers or max(1, len(os.sched_getaffinity(0)) // threads)
    results: dict[tuple[Setting, str], list[Result]] = {(job.setting, job.kind): [] for job in work}
    digests: dict[Setting, str] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[won]} done right"),
               TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(f"episodes, {min(workers, len(work))} processes", total=len(work), won=0)
        won = 0
        for job, result, digest in episodes(work, workers, options.failures, threads):
            results[job.setting, job.kind].append(result)
            digests[job.setting] = digest
            won += result.success
            progress.update(bar, advance=1, won=won)
    rows = [Row(setting, kind, digests[setting], tuple(sorted(its, key=lambda result: result.seed)))
            for (setting, kind), its in results.items()]
    return [results_file.this_run(["flashrt", *options.arguments], options.device)], rows


def _plan(options: argparse.Namespace) -> list[Job]:
    if options.threads < 1 or options.workers < 0:
        raise EvaluationError(f"--threads {options.threads} --workers {options.workers}: at least 1 thread; workers from 0 (one "
                              "per core)")
    if options.expert and options.controls:
        raise EvaluationError("--expert --controls: the expert sees no image and reads no instruction; ask for one of the two")
    paths: Sequence[Path] = options.contract or [find(DEFAULT_CONTRACT)]
    conditions = (jobs.EXPERT,) if options.expert else jobs.CONTROLS if options.controls else (jobs.POLICY,)
    chosen = jobs.settings(paths, jobs.sweep(options.set), conditions, jobs.latency_of(options.latency), options.device,
                           jobs.strategy_of(options.strategy))
    kinds, seeds = jobs.kinds_of(options.tasks), jobs.seeds_of(options.seed, options.episodes, options.training_seeds)
    for setting, path in chosen:  # a mistake in any of them is told before anything runs
        contract = load(path, dict(setting.overrides))
        if setting.strategy == "rtc" and not contract.policy.continues:
            raise EvaluationError(f"--strategy rtc: policy.continues is not set in {path}, and a policy that plans anew continues "
                                  "nothing; add --set policy.continues=future_state")
        verify(contract, policies.spec(contract.policy))
    return jobs.plan(chosen, kinds, seeds, options.threads)
