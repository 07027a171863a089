"""The control loop on the system's clock: a monotonic grid of which no point is lost, callbacks in between, and a priority
that may be refused."""

import ctypes
import gc
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time

import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from std_msgs.msg import String

from flashrt_ros.resources import find
from flashrt_ros.ros import realtime
from flashrt_ros.ros.control_loop import ControlLoop, run_ready
from flashrt_ros.ros.player_node import PlayerNode

PATIENCE_S = 60.0
CONTRACT = str(find("config/color_servo.contract.yaml"))


@pytest.fixture
def node():
    rclpy.init()
    try:
        yield rclpy.create_node("control_loop_test")
    finally:
        rclpy.shutdown()


@pytest.fixture
def executor(node):
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    yield executor
    executor.shutdown()


def test_points_that_a_long_tick_slept_through_count_as_late(executor):
    """Else a loop that stands still for a second would have one late wake-up, and pass any bar."""
    period_ns = 2_000_000
    ticks = []

    def tick():
        ticks.append(time.monotonic_ns())
        if len(ticks) == 2:
            time.sleep(10 * period_ns * 1e-9)

    began_ns = time.monotonic_ns()
    loop = ControlLoop(period_ns, tick)
    for _ in range(3):
        loop.step(executor)
    assert len(ticks) == 3, "one tick per step: the player itself catches up"
    assert loop.wake_ups.ticks >= 12
    assert loop.wake_ups.ticks <= (ticks[-1] - began_ns) // period_ns, "no tick before its point"
    assert loop.wake_ups.summary()["max_ms"] >= 9 * period_ns * 1e-6


def test_callbacks_are_served_between_ticks(node, executor):
    """Also those of a node whose ticks are always late: e-stop and deactivation are callbacks."""
    heard = []
    node.create_subscription(String, "words", lambda m: heard.append(m.data), 10)
    publisher = node.create_publisher(String, "words", 10)
    for late_s in (0.0, 0.003):
        heard.clear()
        loop = ControlLoop(2_000_000, lambda: (publisher.publish(String(data="word")), time.sleep(late_s)))
        end = time.monotonic() + PATIENCE_S
        while len(heard) < 3:
            assert time.monotonic() < end
            loop.step(executor)


def test_an_error_in_a_callback_is_not_lost(node, executor):
    """As with spin(): a bug ends the process with its traceback, and does not go on unseen."""
    node.create_timer(0.001, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            run_ready(executor)


def test_a_priority_beyond_the_range_is_refused():
    rclpy.init()
    try:
        node = PlayerNode(parameter_overrides=[Parameter("contract", value=CONTRACT), Parameter("realtime_priority", value=100)])
        node.trigger_configure()
        assert "realtime_priority is 100; allowed: 0 (off) to 99" in node.reason
        node.destroy_node()
    finally:
        rclpy.shutdown()


def without_privilege():
    """For a child: real-time scheduling is not allowed to it, even if it is root's."""
    pr_capbset_drop, cap_sys_nice = 24, 23
    ctypes.CDLL(None).prctl(pr_capbset_drop, cap_sys_nice, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))


def test_a_refused_priority_is_a_warning_with_the_way_out():
    """The player runs all the same, on its grid, and comes down in order."""
    command = [sys.executable, "-m", "flashrt_ros.ros.player_node", "--ros-args"]
    for parameter in (f"contract:={CONTRACT}", "autostart:=true", "check_controllers:=false", "realtime_priority:=50"):
        command += ["-p", parameter]
    player = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=without_privilege)
    try:
        said = read_until(player, b"was refused")
        for word in (b"realtime_priority 50", b"allowed up to 0", b"limits.conf", b"--ulimit rtprio"):
            assert word in said
        player.send_signal(signal.SIGINT)
        said = read_until(player, b"control ticks")
        assert player.wait(PATIENCE_S) == 0
    finally:
        player.kill()
        player.wait()


def read_until(process, word):
    said, end = b"", time.monotonic() + PATIENCE_S
    while word not in said or not said.endswith(b"\n"):
        assert select.select([process.stdout], [], [], max(0, end - time.monotonic()))[0], said.decode()
        part = os.read(process.stdout.fileno(), 65536)
        assert part, f"it ended, and had said: {said.decode()}"
        said += part
    return said


def test_only_the_control_thread_is_raised_and_only_for_a_while():
    """Other threads of the process (another node's in a test, the middleware's) keep their scheduling."""
    seen = {}

    def control():
        seen["refused"] = realtime.begin(20)
        seen["during"] = os.sched_getscheduler(0), gc.get_freeze_count()
        realtime.end()
        seen["after"] = os.sched_getscheduler(0), gc.get_freeze_count()

    thread = threading.Thread(target=control)
    thread.start()
    thread.join()
    assert seen["during"][1] > 0 and seen["after"][1] == 0
    assert seen["after"][0] & ~os.SCHED_RESET_ON_FORK == os.SCHED_OTHER == os.sched_getscheduler(0)
    if seen["refused"]:
        pytest.skip(f"no privilege here: {seen['refused']}")
    assert seen["during"][0] & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO
