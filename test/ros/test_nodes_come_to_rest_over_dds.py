"""On the way out the arm is brought to rest: a real player process in full motion is deactivated, interrupted or terminated,
and an independent observer looks at the commands that its controllers got."""

import os
import signal
import time

import numpy as np
import pytest
import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from puppet import FORWARD, SPEED, contract
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.msg import ActionChunk, ExecutionState
from flashrt_ros.policies.tabletop_arm import HOME, JOINTS
from flashrt_ros.ros.convert import chunk_message, to_ns, to_time
from flashrt_ros.ros.processes import NodeProcesses
from flashrt_ros.ros.qos import RELIABLE

PATIENCE_S = 60.0
TICK_S = 0.02
ACCELERATION = 2.0 / 0.2  # the contract gives none: full speed within 0.2 s


class Observer(Node):
    """A perfect arm, a policy that moves its first joint, and a recorder of what the first controller is told."""

    def __init__(self):
        super().__init__("observer")
        self.state, self.commands, self.seq, self.joints = None, [], 0, HOME
        keep_all = QoSProfile(depth=1000)
        self.create_subscription(JointTrajectory, "arm_controller/joint_trajectory", self.commands.append, keep_all)
        self.create_subscription(Float64MultiArray, "arm_controller/commands", self.commands.append, keep_all)
        self.create_subscription(ExecutionState, "execution_state", self.on_state, qos_profile_sensor_data)
        self.joint_topic = self.create_publisher(JointState, "joint_states", 10)
        self.chunk_topic = self.create_publisher(ActionChunk, "action_chunk", RELIABLE)
        self.create_timer(TICK_S, self.on_timer)

    def on_state(self, message):
        self.state = message
        if len(message.position):
            self.joints = np.array(message.position)

    def on_timer(self):
        now_ns = self.get_clock().now().nanoseconds
        message = JointState(name=list(JOINTS), position=self.joints.tolist())
        message.header.stamp = to_time(now_ns)
        self.joint_topic.publish(message)
        self.seq += 1
        state = self.state
        if state is not None and state.player and self.seq % 5 == 0:
            base = Cursor(state.player, state.tick, state.session, state.epoch, state.seq, state.step,
                          now_ns - to_ns(state.header.stamp))
            positions = self.joints + TICK_S * np.arange(40)[:, None] * SPEED
            self.chunk_topic.publish(chunk_message(Chunk(
                tuple(JOINTS), positions, now_ns, round(TICK_S * 1e9), session=3, epoch=1, seq=self.seq, base=base)))


@pytest.fixture
def observer():
    rclpy.init()
    node, executor = Observer(), SingleThreadedExecutor()
    executor.add_node(node)

    def until(predicate, what):
        deadline = time.monotonic() + PATIENCE_S
        while not predicate():
            assert time.monotonic() < deadline, f"waited {PATIENCE_S:.0f} s for {what}; the player says {node.state}"
            executor.spin_once(timeout_sec=0.05)

    node.until = until
    yield node
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown()


def deactivate(observer, process):
    client = observer.create_client(ChangeState, "player/change_state")
    observer.until(client.service_is_ready, "change_state")
    future = client.call_async(ChangeState.Request(transition=Transition(id=Transition.TRANSITION_DEACTIVATE)))
    observer.until(future.done, "the transition")
    assert future.result().success


ENDS = {"deactivate": deactivate, "SIGINT": lambda _, process: process.send_signal(signal.SIGINT),
        "SIGTERM": lambda _, process: process.send_signal(signal.SIGTERM)}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", ["windows", "forward"])
def test_an_arm_in_full_motion_is_brought_to_rest_within_its_limits(observer, tmp_path, kind, end):
    path = contract(tmp_path / "arm.contract.yaml", FORWARD if kind == "forward" else {})
    with NodeProcesses(dict(os.environ) | {"ROS_LOG_DIR": str(tmp_path)}, tmp_path) as nodes:
        process = nodes.start("player", {"contract": path, "autostart": True})
        observer.until(lambda: observer.state is not None and observer.state.state == ExecutionState.PLAYING
                       and observer.state.velocity[0] > 0.6, "motion")
        before = len(observer.commands)
        ENDS[end](observer, process)
        if end != "deactivate":
            observer.until(lambda: process.poll() is not None, "the process to end")
            assert process.returncode == 0
        else:
            observer.until(lambda: observer.state.state == ExecutionState.IDLE, "the idle state")
        observer.until(lambda: len(observer.commands) > before, "the last commands")
        # What was sent before the end has been delivered when what was published since by ourselves has come back.
        heard = []
        observer.create_subscription(JointState, "joint_states", heard.append, 10)
        observer.until(lambda: len(heard) >= 10, "everything that was under way")
    (assert_windows_stop if kind == "windows" else assert_commands_stop)(observer.commands)


def assert_commands_stop(commands):
    """They end in rest, and lead there from full speed tick by tick, within the acceleration limit: a controller of single
    commands stays where the last one was. (Before the stop, a tick of a busy machine may be repeated or left out.)"""
    path = np.array([message.data for message in commands])[:, 0]
    speed = np.diff(path) / TICK_S
    assert abs(speed[-1]) <= ACCELERATION * TICK_S / 2 + 1e-6  # the last tick of braking covers half of its speed
    braking = np.diff(speed[::-1])  # from rest backward
    within = (braking >= -1e-6) & (braking <= ACCELERATION * TICK_S + 1e-6)
    ticks = int(np.argmin(within)) if not within.all() else len(within)
    assert speed[-1 - ticks] > 0.5, speed


def moves_s(window):
    """From a window's beginning until it rests."""
    ends = [i for i, point in enumerate(window.points) if np.any(point.velocities)]
    return to_ns(window.points[ends[-1] + 1].time_from_start) * 1e-9 if ends else 0.0


def assert_windows_stop(windows):
    """The last window stops at once, where those before follow the chunk for 300 ms; and it continues the one before."""
    moving = [moves_s(window) for window in windows]
    assert not np.any(windows[-1].points[-1].velocities)
    assert max(moving) > 0.3 and moving[-1] <= 0.2 + 2 * TICK_S  # braking from 2 rad/s takes 0.2 s
    said = {}
    for window in windows[-2:]:
        start_ns = to_ns(window.header.stamp)
        for point in window.points[:3]:
            at_ns = start_ns + to_ns(point.time_from_start)
            assert np.allclose(said.setdefault(at_ns, point.positions), point.positions, atol=1e-9)
