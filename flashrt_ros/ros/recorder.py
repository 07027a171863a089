"""An independent observer of the graph: keeps what the demo's table and pictures are made of, and measures latencies.

All latencies are between arrivals at this one process, on its monotonic clock: no two clocks are ever compared.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Callable

import numpy as np
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String

from flashrt_ros.contract.schema import Contract
from flashrt_ros.contract.schema import Image as ImageSpec
from flashrt_ros.decode.images import decode
from flashrt_ros.msg import ActionChunk, ExecutionState, PipelineStatus
from flashrt_ros.ros.convert import to_ns
from flashrt_ros.ros.qos import LATCHED, RELIABLE

FRAME_NS = 100_000_000  # keep a picture every 100 ms of simulated time
JOINT_NS = 20_000_000


@dataclass
class Trace:
    """One episode, all stamps in ns of simulated time: frames (stamp, {camera: uint8 [H, W, 3]}), measured joints
    (stamp, [N]), chunks as they came, and the execution states."""

    task: str
    start_ns: int
    end_ns: int = 0
    wall_s: float = 0.0  # of real time that the episode took
    score: dict = field(default_factory=dict)
    frames: list[tuple[int, dict[str, np.ndarray]]] = field(default_factory=list)
    joints: list[tuple[int, np.ndarray]] = field(default_factory=list)
    chunks: list[ActionChunk] = field(default_factory=list)
    states: list[tuple[int, str]] = field(default_factory=list)


class Recorder(Node):
    """wait(predicate, ...) sleeps until a message makes predicate() true."""

    def __init__(self, contract: Contract) -> None:
        super().__init__("demo_recorder")
        self.changed = threading.Condition()
        self.status: PipelineStatus | None = None
        self.state: ExecutionState | None = None
        self.score: dict = {}
        self.joints_ns = 0
        self.joint_velocity = np.zeros(1)
        self.trace: Trace | None = None
        self.sensor_to_chunk_ms: list[float] = []
        self.chunk_to_motion_ms: list[float] = []
        self.joint_names: list[str] = []
        self._arrivals: dict[str, dict[int, float]] = {}
        self._cameras = [i for i in contract.inputs if i.image is not None]
        self._waiting: list[tuple[tuple[int, int], float]] = []  # ((session, seq), arrival) of chunks not yet seen played
        for camera in self._cameras:
            self._arrivals[camera.name] = {}
            self.create_subscription(Image, camera.channel.topic, lambda m, name=camera.name: self._on_image(name, m),
                                     qos_profile_sensor_data)
        joints = next(i for i in contract.inputs if i.select)
        self.create_subscription(JointState, joints.channel.topic, self._on_joints, qos_profile_sensor_data)
        self.create_subscription(ActionChunk, "action_chunk", self._on_chunk, RELIABLE)
        self.create_subscription(ExecutionState, "execution_state", self._on_state, qos_profile_sensor_data)
        self.create_subscription(PipelineStatus, "policy/status", self._on_status, LATCHED)
        self.create_subscription(String, "sim/score", self._on_score, LATCHED)

    def wait(self, predicate: Callable[[], bool], timeout_s: float, check: Callable[[], None]) -> bool:
        """True as soon as predicate() holds; False after timeout_s. check() is called now and then and may raise."""
        deadline = time.monotonic() + timeout_s
        with self.changed:
            while not predicate():
                if time.monotonic() > deadline:
                    return False
                self.changed.wait(0.2)
                check()
        return True

    def newest_image_ns(self) -> int:
        """Stamp of the newest image of the camera that lags most; 0 until each has sent one."""
        return min(max(arrivals, default=0) for arrivals in self._arrivals.values())

    def begin(self, task: str, start_ns: int) -> None:
        with self.changed:
            self.trace, self._began = Trace(task, start_ns), time.monotonic()
            self._waiting.clear()

    def end(self) -> Trace:
        with self.changed:
            trace, self.trace = self.trace, None
            trace.end_ns, trace.score, trace.wall_s = self.joints_ns, self.score, time.monotonic() - self._began
            return trace

    def _on_image(self, name: str, message: Image) -> None:
        stamp = to_ns(message.header.stamp)
        arrivals = self._arrivals[name]
        with self.changed:
            arrivals[stamp] = time.monotonic()
            while len(arrivals) > 200:
                del arrivals[next(iter(arrivals))]
            self.changed.notify_all()
            trace = self.trace
            if trace is None or stamp < trace.start_ns or (trace.frames and stamp - trace.frames[-1][0] < FRAME_NS
                                                           and stamp != trace.frames[-1][0]):
                return
            if not trace.frames or trace.frames[-1][0] != stamp:
                trace.frames.append((stamp, {}))
            trace.frames[-1][1][name] = decode(message, ImageSpec((message.height, message.width), "exact"), name).copy()

    def _on_joints(self, message: JointState) -> None:
        with self.changed:
            self.joints_ns = to_ns(message.header.stamp)
            self.joint_names, self.joint_velocity = list(message.name), np.array(message.velocity)
            trace = self.trace
            if trace is not None and (not trace.joints or self.joints_ns - trace.joints[-1][0] >= JOINT_NS):
                trace.joints.append((self.joints_ns, np.array(message.position)))
            self.changed.notify_all()

    def _on_chunk(self, message: ActionChunk) -> None:
        arrival = time.monotonic()
        for name, stamp in zip(message.input_names, message.input_stamps):
            seen = self._arrivals.get(name, {}).get(to_ns(stamp))
            if seen is not None:
                self.sensor_to_chunk_ms.append((arrival - seen) * 1e3)
        with self.changed:
            self._waiting.append(((message.session, message.seq), arrival))
            if self.trace is not None:
                self.trace.chunks.append(message)
            self.changed.notify_all()

    def _on_state(self, message: ExecutionState) -> None:
        arrival = time.monotonic()
        with self.changed:
            self.state = message
            self.changed.notify_all()
            if message.state == ExecutionState.PLAYING:
                reached = (message.session, message.seq)
                played = [a for order, a in self._waiting if order == reached]
                self.chunk_to_motion_ms += [(arrival - a) * 1e3 for a in played]
                self._waiting = [w for w in self._waiting if w[0][0] == reached[0] and w[0][1] > reached[1]]
            if self.trace is not None:
                self.trace.states.append((message.state, message.reason))

    def _on_status(self, message: PipelineStatus) -> None:
        with self.changed:
            self.status = message
            self.changed.notify_all()

    def _on_score(self, message: String) -> None:
        with self.changed:
            self.score = json.loads(message.data)
            self.changed.notify_all()
