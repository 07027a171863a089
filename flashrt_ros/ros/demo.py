"""`flashrt demo`: simulator, policy and player as three processes over real DDS; tasks by topic; a table and pictures.

The recorder runs in this process. Ctrl-C at any time ends every process.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from flashrt_ros.contract.load import load
from flashrt_ros.ros.processes import NodeProcesses, robot, where

EPISODE_S = 20.0  # of simulated time
PATIENCE_S = 10.0  # of real time, for the robot to do what it should


def demo(episodes: int, seed: int, contract: Path | None, out: Path) -> int:
    """Returns 0 if at least half of the episodes succeeded, else 1 (something is wrong with this machine or build)."""
    console = Console()
    with robot(contract, out) as (nodes, path):
        traces, recorder, wall_s = _run(nodes, path, episodes, seed, console)
    from flashrt_ros.ros.demo_picture import draw_gif, draw_timeline
    from flashrt_ros.ros.demo_table import figures, table

    shown = next((t for t in traces if t.score["success"] and " in the " in t.task), traces[0])
    numbers = figures(traces, recorder, wall_s)
    (out / "figures.json").write_text(json.dumps(where(path) | numbers, indent=1))
    console.print(table(numbers, traces))
    draw_timeline(shown, recorder.joint_names, out / "episode.png")
    draw_gif(shown, out / "episode.gif")
    console.print(f"pictures: {out / 'episode.png'}, {out / 'episode.gif'}; figures: {out / 'figures.json'}")
    return 0 if 2 * numbers["successes"] >= len(traces) else 1


def _run(nodes: NodeProcesses, contract: Path, episodes: int, seed: int, console: Console):
    from flashrt_ros.msg import ExecutionState  # only now: the middleware reads the environment when it is loaded
    from flashrt_ros.ros.recorder import Recorder
    from flashrt_ros.ros.stage import KINDS, Stage, managed

    parameters = {"sim": {}, "policy": managed(contract), "player": managed(contract)}
    traces = []
    with Stage(nodes, parameters, lambda: Recorder(load(contract)), PATIENCE_S) as stage:
        recorder = stage.recorder

        def at_rest() -> bool:
            return recorder.state is not None and recorder.state.state in (ExecutionState.HOLDING, ExecutionState.IDLE)

        with console.status("starting three nodes ..."):
            stage.ready()
        began = time.monotonic()
        columns = (TextColumn("{task.description:<44}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[won]} done right"),
                   TimeElapsedColumn())
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("", total=episodes, won=0)

            def begin(task: str, start_ns: int) -> None:
                progress.update(bar, description=task)
                recorder.begin(task, start_ns)

            for index in range(episodes):
                task, start_ns = stage.new_scene(seed + index, KINDS[index % len(KINDS)], at_rest, begin)

                def over() -> bool:
                    current = recorder.score.get("time_ns", 0) > start_ns and recorder.score["task"] == task
                    return (current and recorder.score["success"]) or recorder.joints_ns - start_ns > EPISODE_S * 1e9

                stage.expect(over, 10 * EPISODE_S, "the episode to end")
                traces.append(recorder.end())
                progress.update(bar, advance=1, won=sum(t.score["success"] for t in traces))
        return traces, recorder, time.monotonic() - began
