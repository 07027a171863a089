"""`flashrt drill --faults`: the same scenes with and without faults in the policy's decisions, judged from outside.

The policy's process plants faults and says so; this process, which is none of the robot's, records what is commanded, matches
faults with trips, and makes every decision in the black box again. Ctrl-C at any time ends every process.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import yaml
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from flashrt_ros.capsule.file import SUFFIX
from flashrt_ros.capsule.file import load as load_file
from flashrt_ros.contract.load import load
from flashrt_ros.replay.decision import SAME, engine_of, repeat
from flashrt_ros.resources import DEFAULT_CONTRACT, find
from flashrt_ros.ros.drill_trial import DrillError
from flashrt_ros.ros.fault_plan import match
from flashrt_ros.ros.fault_trial import BlackBoxes, Report, table
from flashrt_ros.ros.processes import NodeProcesses, robot, where

# A trip that no fault caused would be one of a busy machine. So a healthy run has room: fewer decisions, each with all the time
# until the next; simulated time that passes more slowly than real time, in which a deadline is meant; and inputs may be older
# than otherwise before they are refused.
RATE_HZ = 5
SPEED = 0.6
MAX_AGE_MS = {"image": 250, "select": 150}
BOXES = "black_box"  # folder in `out`


def drill(episodes: int, seed: int, contract: Path | None, out: Path, figures: Path | None, speed: float = SPEED) -> int:
    """Returns 0 if every bar of Report holds, else 1. episodes: pairs, at least 1. seed: scene of the first, and of the plan. out:
    directory for contract, logs and black boxes, of which there must be none yet. figures: a JSON file, or None. Raises DrillError, and
    StageError when the robot does not run."""
    if episodes < 1:
        raise DrillError(f"episodes is {episodes}; it must be at least 1")
    boxes = (out / BOXES).resolve()
    if any(boxes.glob(f"*{SUFFIX}")):
        raise DrillError(f"{boxes} holds black boxes of another run, which would be counted; remove it, or give another --out")
    console = Console()
    original = (contract or find(DEFAULT_CONTRACT)).resolve()
    with robot(roomy(original, boxes, out), out) as (nodes, path):
        report = _conduct(nodes, path, episodes, seed, speed, console)
    with console.status("making every stopped decision again ..."):
        report = Report(*report, replayed(boxes))
    console.print(table(report))
    if figures is not None:
        figures.parent.mkdir(parents=True, exist_ok=True)
        facts = where(original) | {"seed": seed, "rate_hz": RATE_HZ, "speed": speed, "max_age_ms": MAX_AGE_MS}
        figures.write_text(json.dumps(facts | report.figures(), indent=1))
        console.print(f"figures: {figures}")
    return 0 if all(report.bars.values()) else 1


def roomy(contract: Path, boxes: Path, out: Path) -> Path:
    """The contract with as much time as a busy machine needs and this folder of black boxes, as a file in `out`. Stages run as often
    as before where they can. Raises ContractError."""
    rate_hz = load(contract).rate_hz
    tree = yaml.safe_load(contract.read_text())
    tree["decision"] = {"rate_hz": RATE_HZ, "deadline_ms": 1000 / RATE_HZ}
    for stage in tree["stages"].values():
        if stage and "every" in stage:
            stage["every"] = max(1, round(stage["every"] * RATE_HZ / rate_hz))
    for declared in tree["inputs"].values():
        for kind, max_age_ms in MAX_AGE_MS.items():
            if kind in declared:
                declared["max_age_ms"] = max_age_ms
    tree.setdefault("rollback", {})["black_box"] = str(boxes)
    out.mkdir(parents=True, exist_ok=True)
    path = out / contract.name
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return path


def replayed(boxes: Path) -> BlackBoxes:
    """Every decision in a folder of black boxes, made again here."""
    written, same, differ = Counter(), Counter(), []
    engine = setup = None
    for path in sorted(boxes.glob(f"*{SUFFIX}")):
        stored, evidence = load_file(path)
        if evidence.setup != setup:  # one for all, but for a policy node that was started again
            if engine is not None:
                engine.close()
            setup, (engine, here) = evidence.setup, engine_of(stored, evidence)
        verdict = repeat(stored, evidence, engine, here)
        written[evidence.guard] += 1
        same[evidence.guard] += verdict.code == SAME
        if verdict.code != SAME:
            differ.append(f"{path.name}: {verdict.text}")
    if engine is not None:
        engine.close()
    return BlackBoxes(written, same, tuple(differ))


def _conduct(nodes: NodeProcesses, contract: Path, episodes: int, seed: int, speed: float, console: Console) -> tuple:
    """(episodes, matching, counted trips)."""
    from flashrt_ros.ros.fault_stage import FaultStage  # only now: the middleware reads the environment when it is loaded

    columns = (TextColumn("{task.description:<44}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[found]} trips"),
               TimeElapsedColumn())
    done = []
    with FaultStage(nodes, contract, seed, speed) as stage:
        with console.status("starting three nodes ..."):
            stage.ready()
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("", total=2 * episodes, found=0)
            for index in range(episodes):
                for faults in (False, True):
                    done.append(stage.episode(seed + index, index, faults))
                    progress.update(bar, advance=1, description=done[-1].task, found=len(stage.recorder.found))
        counted = stage.counted()
        return tuple(done), match(stage.recorder.planted, stage.recorder.found), counted
