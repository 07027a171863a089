"""Loop: how late the player's control loop wakes, beside simulator, policy and one busy process per core.

Owns the measurement only. Simulator, policy and player are the real nodes over real DDS, on the system's clock; the player
records the error of every point of its monotonic grid itself (flashrt_ros/ros/wake_ups.py). References in the player's place,
which tell what Python costs and what the machine: a loop in Python that only does some arithmetic, and `cyclictest` (Debian:
rt-tests).

    flashrt bench loop --seconds 60 --rate 200 --fifo --plot out/loop.png
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Callable, Iterator

from flashrt_ros.bench.loop_rows import Row, parse_bare, parse_cyclictest, parse_wake_ups, table
from flashrt_ros.bench.machine import machine
from flashrt_ros.errors import FlashRTError
from flashrt_ros.resources import find
from flashrt_ros.ros import dds, realtime
from flashrt_ros.ros.processes import NodeProcesses
from flashrt_ros.ros.wake_ups import Grid, WakeUps

PRIORITY = 50
WINDOW_NS = 40_000_000  # between two windows, as with the player's defaults
START_S, ANSWER_S = 60.0, 20.0
CONTRACT = "config/color_servo.contract.yaml"
TASK = "pick up the red cube"
WORK = range(25_000)  # summed up by the reference at every wake-up: about half a millisecond
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(10**6): pass"


class LoopError(FlashRTError):
    """The measurement could not be made."""


@dataclass(frozen=True)
class Condition:
    """What the player runs under. priority: of SCHED_FIFO, 0: none. udp: its process does without shared memory."""

    name: str
    stress: bool = False
    priority: int = 0
    udp: bool = False


CONDITIONS = (Condition("player"), Condition("player, stress", stress=True))
WITH_FIFO = (Condition("player, stress, SCHED_FIFO", stress=True, priority=PRIORITY),
             Condition("player, stress, SCHED_FIFO, UDP", stress=True, priority=PRIORITY, udp=True))


def measure(condition: Condition, seconds: float, rate_hz: float, contract: Path, logs: Path) -> Row:
    """One condition, in a ROS domain of its own. Raises LoopError, or ProcessError, if the nodes do not come to play."""
    load = os.getloadavg()[0]
    parameters = {"contract": contract, "autostart": True, "rate_hz": float(rate_hz), "realtime_priority": condition.priority,
                  "window_ticks": max(1, round(WINDOW_NS * 1e-9 * rate_hz))}
    with _robot(contract, logs) as nodes, NodeProcesses(os.environ | _transport(condition.udp), logs) as own:
        player = own.start("player", parameters)

        def check() -> None:
            nodes.check()
            own.check()

        with _observer() as observer:
            observer.wait_for_motion(check)
            if condition.priority and not os.sched_getscheduler(player.pid) & os.SCHED_FIFO:
                return Row(condition.name, {}, load=load,
                           note=f"not measured: SCHED_FIFO was refused, {logs / 'player.log'} says why")
            with _stress(condition.stress):
                observer.wake_ups()  # begins anew
                before, began = observer.state().tick, time.monotonic()
                time.sleep(seconds)
                check()
                played = (observer.state().tick - before) / ((time.monotonic() - began) * rate_hz)
                record = observer.wake_ups()
    return Row(condition.name, played=min(1.0, played), load=load, **parse_wake_ups(record))


def reference(name: str, command: list[str], parse: Callable[[str], dict], contract: Path, logs: Path) -> Row:
    """Another loop in the player's place. parse(its output): the fields of a Row."""
    load = os.getloadavg()[0]
    with _robot(contract, logs) as nodes, _stress(True):
        result = subprocess.run(command, capture_output=True, text=True)
        nodes.check()
    if result.returncode:
        return Row(name, {}, load=load, note=f"not measured: {(result.stderr.strip().splitlines() or ['it failed'])[-1]}")
    return Row(name, load=load, **parse(result.stdout))


def bare(seconds: float, rate_hz: float) -> None:
    """The child process of a reference: print its wake-up errors and how long its work took."""
    if refused := realtime.begin(PRIORITY):
        sys.exit(refused)
    grid, work = Grid(round(1e9 / rate_hz)), WakeUps()
    end_ns = grid.next_ns + seconds * 1e9
    while grid.next_ns < end_ns:
        woke_ns = grid.sleep()
        sum(WORK)
        work.add(time.monotonic_ns() - woke_ns)
    print(json.dumps({"wake_ups": json.loads(grid.wake_ups.to_json()), "work": work.summary()}))


@contextmanager
def _robot(contract: Path, logs: Path) -> Iterator[NodeProcesses]:
    """Simulator and policy, and this process's environment for their domain."""
    with dds.own_domain(logs), NodeProcesses(dict(os.environ), logs) as nodes:
        nodes.start("sim", {"system_time": True})
        nodes.start("policy", {"contract": contract, "autostart": True})
        yield nodes


def _transport(udp: bool) -> dict[str, str]:
    """Further variables of the player's process."""
    if not udp:
        return {}
    return dds.environment(find("config/fastdds_udp.xml")) | {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SYSTEM_DEFAULT"}


@contextmanager
def _stress(wanted: bool) -> Iterator[None]:
    cores = len(os.sched_getaffinity(0)) if wanted else 0
    busy = [subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) for _ in range(cores)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@contextmanager
def _observer() -> Iterator[Observer]:
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    try:
        yield Observer()
    finally:
        rclpy.try_shutdown()


class Observer:
    """Gives the task and asks the player. It hears nothing during the measurement: a reader of 200 messages a second would be one
    more process to run beside."""

    def __init__(self) -> None:
        import rclpy
        from std_msgs.msg import String
        from std_srvs.srv import Trigger

        from flashrt_ros.ros.qos import LATCHED

        self._node = rclpy.create_node("bench_loop")
        self._client = self._node.create_client(Trigger, "player/wake_ups")
        self._task = self._node.create_publisher(String, "task", LATCHED)
        self._task.publish(String(data=TASK))

    def wait_for_motion(self, check) -> None:
        from flashrt_ros.msg import ExecutionState

        end = time.monotonic() + START_S
        while (state := self.state()).state != ExecutionState.PLAYING:
            check()
            if time.monotonic() > end:
                raise LoopError(f"waited {START_S:.0f} s for the player to play; it says: {state.reason or 'nothing'}")
        if not self._client.wait_for_service(ANSWER_S):
            raise LoopError(f"waited {ANSWER_S:.0f} s for the player's service {self._client.srv_name}")

    def state(self):
        """The next ExecutionState that arrives."""
        import rclpy
        from rclpy.qos import qos_profile_sensor_data
        from rclpy.task import Future

        from flashrt_ros.msg import ExecutionState

        heard = Future()
        subscription = self._node.create_subscription(
            ExecutionState, "execution_state", lambda m: heard.done() or heard.set_result(m), qos_profile_sensor_data)
        rclpy.spin_until_future_complete(self._node, heard, timeout_sec=START_S)
        self._node.destroy_subscription(subscription)
        if not heard.done():
            raise LoopError(f"waited {START_S:.0f} s for the player's execution_state")
        return heard.result()

    def wake_ups(self) -> dict:
        """What the player recorded since it was last asked."""
        import rclpy
        from std_srvs.srv import Trigger

        future = self._client.call_async(Trigger.Request())
        rclpy.spin_until_future_complete(self._node, future, timeout_sec=ANSWER_S)
        answer = future.result() if future.done() else None
        if answer is None or not answer.success:
            raise LoopError(f"the player did not tell its wake-up errors: {'no answer' if answer is None else answer.message}")
        return json.loads(answer.message)


def main(argv: list[str] | None = None) -> int:
    """0 if every condition that was measured met the bar (p99 at most LATE_MS), else 1."""
    parser = argparse.ArgumentParser(prog="flashrt bench loop", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="per condition (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=200.0, metavar="HZ", help="of the player (default: %(default)s)")
    parser.add_argument("--fifo", action="store_true", help="also with SCHED_FIFO, and references")
    parser.add_argument("--contract", type=Path, default=None, help="contract file (default: the built-in servo's)")
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--logs", type=Path, default=Path("out/loop"), help="of the nodes (default: %(default)s)")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.bare:
        return bare(options.seconds, options.rate) or 0
    contract = (options.contract or find(CONTRACT)).resolve()
    rows = []
    for condition in CONDITIONS + (WITH_FIFO if options.fifo else ()):
        rows.append(measure(condition, options.seconds, options.rate, contract, options.logs))
        print(table(rows[-1:]), flush=True)
    if options.fifo:
        own = [sys.executable, "-m", "flashrt_ros.bench.loop", "--bare", f"--seconds={options.seconds}", f"--rate={options.rate}"]
        rows.append(reference("Python, half a ms of arithmetic, stress, SCHED_FIFO", own, parse_bare, contract, options.logs))
        if program := shutil.which("cyclictest"):
            count, period_us = round(options.seconds * options.rate), round(1e6 / options.rate)
            c = [program, "-q", "-m", "-p", str(PRIORITY), "-i", str(period_us), "-l", str(count), "-h", "100000"]
            rows.append(reference("C (cyclictest), stress, SCHED_FIFO", c, parse_cyclictest, contract, options.logs))
    print(*(f"{k}: {v}" for k, v in machine().items()), sep="\n")
    print(table(rows))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        records = [asdict(row) | {"p99_ms": row.at(0.99), "late": row.late, "met": row.met} for row in rows]
        figures = {"machine": machine(), "rate_hz": options.rate, "seconds": options.seconds, "rows": records}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    if options.plot:
        from flashrt_ros.bench.loop_plot import draw

        draw(rows, options.rate, machine(), options.plot)
    return 0 if all(row.met for row in rows if row.bins and row.played is not None) else 1


if __name__ == "__main__":
    sys.exit(main())
