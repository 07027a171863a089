"""`flashrt demo`: simulator, policy and player as three processes over real DDS; tasks by topic; a table and pictures.

The recorder runs in this process. Ctrl-C at any time ends every process.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import time
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from flashrt_ros.contract.load import load
from flashrt_ros.errors import FlashRTError
from flashrt_ros.resources import DEFAULT_CONTRACT, find
from flashrt_ros.ros import dds
from flashrt_ros.ros.processes import NodeProcesses

KINDS = ("pick", "place")
EPISODE_S = 20.0  # of simulated time
START_S = 60.0


class DemoError(FlashRTError):
    """The demo could not be carried through."""


def demo(episodes: int, seed: int, contract: Path | None, out: Path) -> int:
    """Returns 0 if at least half of the episodes succeeded, else 1 (something is wrong with this machine or build)."""
    path = (contract or find(DEFAULT_CONTRACT)).resolve()
    load(path)  # a mistake in the file is told before anything starts
    console = Console()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    out.mkdir(parents=True, exist_ok=True)
    with dds.claim_domain() as domain:
        os.environ |= dds.environment() | {"ROS_DOMAIN_ID": str(domain), "ROS_LOG_DIR": str(out.resolve() / "ros_log"),
                                           "OMP_NUM_THREADS": "1"}
        with NodeProcesses(dict(os.environ), out) as nodes:
            traces, recorder, wall_s = _run(nodes, path, episodes, seed, console)
    from flashrt_ros.ros.demo_picture import draw_gif, draw_timeline
    from flashrt_ros.ros.demo_table import figures, table

    shown = next((t for t in traces if t.score["success"] and " in the " in t.task), traces[0])
    numbers = figures(traces, recorder, wall_s)
    (out / "figures.json").write_text(json.dumps(
        {"machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores", "date": str(date.today()),
         "contract": path.name} | numbers, indent=1))
    console.print(table(numbers, traces))
    draw_timeline(shown, recorder.joint_names, out / "episode.png")
    draw_gif(shown, out / "episode.gif")
    console.print(f"pictures: {out / 'episode.png'}, {out / 'episode.gif'}; figures: {out / 'figures.json'}")
    return 0 if 2 * numbers["successes"] >= len(traces) else 1


def _run(nodes: NodeProcesses, contract: Path, episodes: int, seed: int, console: Console):
    import rclpy
    from rclpy.signals import SignalHandlerOptions
    from std_msgs.msg import String
    from std_srvs.srv import Trigger

    from flashrt_ros.msg import ExecutionState, PipelineStatus
    from flashrt_ros.ros.convert import to_ns
    from flashrt_ros.ros.qos import LATCHED
    from flashrt_ros.ros.recorder import Recorder
    from flashrt_ros.ros.spin import spinning
    from flashrt_ros.srv import ResetWorld

    managed = {"contract": contract, "autostart": True, "use_sim_time": True}
    nodes.start("sim", {})
    nodes.start("policy", managed)
    nodes.start("player", managed)
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    recorder = Recorder(load(contract))
    task_publisher = recorder.create_publisher(String, "task", LATCHED)
    reset = recorder.create_client(ResetWorld, "sim/reset")
    forget = recorder.create_client(Trigger, "policy/reset")

    def check() -> None:
        nodes.check()
        status = recorder.status
        if status is not None and status.state == PipelineStatus.INACTIVE and status.reason:
            raise DemoError(f"the policy {status.reason}")

    def expect(predicate, timeout_s: float, what: str) -> None:
        if not recorder.wait(predicate, timeout_s, check):
            status = recorder.status
            raise DemoError(f"waited {timeout_s:.0f} s for {what}; the policy says: "
                            f"{(status.reason or 'nothing') if status else 'nothing at all'}")

    def idle() -> bool:
        return recorder.status is not None and recorder.status.state == PipelineStatus.IDLE

    def at_rest() -> bool:
        return recorder.state is not None and recorder.state.state in (ExecutionState.HOLDING, ExecutionState.IDLE)

    traces = []
    with spinning(recorder):
        with console.status("starting three nodes ..."):
            expect(lambda: idle() and recorder.joints_ns > 0, START_S, "the nodes to start")
            if not reset.wait_for_service(START_S):
                raise DemoError(f"waited {START_S:.0f} s for the simulator's reset service")
        began = time.monotonic()
        columns = (TextColumn("{task.description:<44}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[won]} done right"),
                   TimeElapsedColumn())
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("", total=episodes, won=0)
            for index in range(episodes):
                task_publisher.publish(String(data=""))
                expect(lambda: idle() and at_rest(), 10.0, "the arm to come to rest")
                future = reset.call_async(ResetWorld.Request(seed=seed + index, task=KINDS[index % len(KINDS)]))
                expect(future.done, 10.0, "the simulator's reset")
                scene = future.result()
                if not scene.accepted:
                    raise DemoError(f"the simulator refused a scene: {scene.message}")
                start_ns = to_ns(scene.stamp)
                expect(lambda: recorder.newest_image_ns() > start_ns, 10.0, "images of the new scene")
                forget.call_async(Trigger.Request())
                progress.update(bar, description=scene.task)
                recorder.begin(scene.task, start_ns)
                task_publisher.publish(String(data=scene.task))

                def over() -> bool:
                    current = recorder.score.get("time_ns", 0) > start_ns and recorder.score["task"] == scene.task
                    return (current and recorder.score["success"]) or recorder.joints_ns - start_ns > EPISODE_S * 1e9

                expect(over, 10 * EPISODE_S, "the episode to end")
                traces.append(recorder.end())
                progress.update(bar, advance=1, won=sum(t.score["success"] for t in traces))
        return traces, recorder, time.monotonic() - began
