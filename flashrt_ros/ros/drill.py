"""`flashrt drill`: kill -9 the policy, a camera and the player while the arm moves, and look from outside what the arm does.

The processes are the demo's, with a camera driver of its own beside the simulator. What was commanded is recorded and judged in
this process, which is none of theirs. Ctrl-C at any time ends every process.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Sequence

from rich.console import Console

from flashrt_ros.ros.drill_trial import VICTIMS, DrillError, Trial, table
from flashrt_ros.ros.processes import NodeProcesses, robot, where


def drill(victims: Sequence[str], rounds: int, seed: int, contract: Path | None, out: Path, figures: Path | None) -> int:
    """Returns 0 if after each kill the arm came to rest and moved again after the restart, and no command broke a limit; else 1.

    victims: of VICTIMS, in turn; all of them `rounds` times. out: directory for the picture and logs. figures: a JSON file, or
    None. Raises DrillError on a victim or number that is none, and StageError when the arm cannot be made to move in the first place.
    """
    if unknown := [victim for victim in victims if victim not in VICTIMS]:
        raise DrillError(f"victim '{unknown[0]}'; allowed: {', '.join(VICTIMS)}")
    if rounds < 1:
        raise DrillError(f"rounds is {rounds}; it must be at least 1")
    console = Console()
    with robot(contract, out) as (nodes, path):
        trials = _conduct(nodes, path, list(victims) * rounds, seed, console)
    from flashrt_ros.ros.drill_picture import draw

    facts = where(path) | {"seed": seed}
    console.print(table(trials))
    picture = out / "kill_drill.png"
    draw(trials[:len(victims)], f"{facts['machine']}, {facts['date']}", picture)
    console.print(f"picture: {picture}")
    if figures is not None:
        figures.parent.mkdir(parents=True, exist_ok=True)
        figures.write_text(json.dumps(facts | {"trials": [trial.figures() for trial in trials]}, indent=1))
        console.print(f"figures: {figures}")
    return 0 if all(trial.passed for trial in trials) else 1


def _conduct(nodes: NodeProcesses, contract: Path, victims: Sequence[str], seed: int, console: Console) -> list[Trial]:
    from flashrt_ros.ros.drill_stage import DrillStage  # only now: the middleware reads the environment when it is loaded

    trials = []
    with DrillStage(nodes, contract) as stage:
        with console.status("starting four nodes ..."):
            stage.ready()
        for i, victim in enumerate(victims):
            with console.status(f"{i + 1} of {len(victims)}: {victim}"):
                trials.append(stage.kill(victim, seed + i))
    return trials
