"""The control loop: a tick at every point of a monotonic grid, and the node's other callbacks in between, on one thread.

One thread, because a second one would wait for the interpreter, and for locks, that a thread of lower priority holds. An
executor's timer fires on such a grid, too, but each message that arrives costs the executor most of a millisecond of looking at
all its entities, whenever it comes; here that happens after the tick.
"""

from __future__ import annotations

import time
from typing import Callable

from rclpy.executors import Executor, TimeoutException

from flashrt_ros.ros.wake_ups import Grid

PATIENCE_NS = 20_000_000  # callbacks wait no longer than this (and one tick) for ticks that are late


class ControlLoop:
    """The grid begins now, with steps of period_ns."""

    def __init__(self, period_ns: int, tick: Callable[[], None]) -> None:
        self._grid, self._tick = Grid(period_ns), tick
        self.wake_ups = self._grid.wake_ups
        self._served_ns = 0

    def step(self, executor: Executor) -> None:
        """Sleep until the next point of the grid, tick once however many points have passed, and run what callbacks are ready."""
        self._grid.sleep()
        self._tick()
        # What begins just before a point of the grid makes its tick late.
        now_ns = time.monotonic_ns()
        if self._grid.next_ns - now_ns > self._grid.period_ns // 2 or now_ns - self._served_ns > PATIENCE_NS:
            self._served_ns = now_ns
            run_ready(executor)


def run_ready(executor: Executor) -> None:
    """Run the callbacks that are ready now, without waiting for others."""
    try:
        while True:
            handler, _, _ = executor.wait_for_ready_callbacks(timeout_sec=0)
            handler()
            handler.result()  # raises what the callback has raised
    except TimeoutException:
        pass
