"""The built-in world as a robot on the graph: publishes what a Gazebo bridge would (`/clock`, two Images, JointState)
and takes JointTrajectory messages through two emulated joint_trajectory_controllers.

Simulated time may run slower than real time on a small machine; the node prints its factor. Rendering and physics stay
on the main thread (an EGL context belongs to one thread); callbacks run on an executor thread and share one lock.
"""

from __future__ import annotations

import array
import json
import threading
import time
from dataclasses import asdict

import cv2
import numpy as np
import rclpy
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from flashrt_ros.decode.images import encode
from flashrt_ros.errors import FlashRTError
from flashrt_ros.policies.tabletop_arm import CAMERAS, HOME, JOINTS
from flashrt_ros.ros.convert import to_ns, to_time
from flashrt_ros.ros.qos import LATCHED, RELIABLE
from flashrt_ros.ros.spin import spinning, until_interrupted
from flashrt_ros.sim.controllers import GROUPS, Controllers
from flashrt_ros.sim.jtc import Rejected, Trajectory, TrajectoryPoint
from flashrt_ros.sim.world import CONTROL_NS, World
from flashrt_ros.srv import ResetWorld

FRAME_STEPS = 2  # control updates between publications of clock and joints: 125 Hz
IMAGE_STEPS = 10  # 25 Hz
SCORE_STEPS = 25
REPORT_S = 5.0


class SimNode(Node):
    """Parameters: seed (int), task (instruction or kind), speed (real-time factor aimed at), width, height (pixels),
    system_time (bool): stamps on the system's clock and no /clock, as a robot's drivers do; driven_cameras (names, by commas):
    their frames go to ~/<name>_camera/frames, for a camera_node to publish."""

    def __init__(self) -> None:
        super().__init__("sim")
        seed = self.declare_parameter("seed", 0).value
        task = self.declare_parameter("task", "pick").value
        self._speed = self.declare_parameter("speed", 1.0).value
        self._system_time = self.declare_parameter("system_time", False).value
        self._ahead_ns = 0  # by which the stamps are ahead of the world's time
        size = (self.declare_parameter("width", 96).value, self.declare_parameter("height", 96).value)
        self._lock = threading.Lock()
        self._world = World(size)
        self._instruction = self._world.reset(task, seed)
        self._controllers = Controllers()
        self._controllers.hold(HOME)
        self._clock_topic = self.create_publisher(Clock, "/clock", 1)
        self._joints = self.create_publisher(JointState, "joint_states", 10)
        driven = self.declare_parameter("driven_cameras", "").value.split(",")
        topics = {name: f"~/{name}_camera/frames" if name in driven else f"{name}_camera/image_raw" for name in CAMERAS}
        self._images = {name: (self.create_publisher(Image, topic, 5), Image()) for name, topic in topics.items()}
        # A real sensor never repeats a frame to the bit; the policy takes a camera that does for a frozen one.
        self._noise = np.random.default_rng(seed).integers(-2, 3, (7, *size[::-1], 3), np.int16)
        self._score = self.create_publisher(String, "~/score", LATCHED)
        for name in GROUPS:
            self.create_subscription(JointTrajectory, f"{name}_controller/joint_trajectory",
                                     lambda message, name=name: self._receive(name, message), RELIABLE)
        self.create_service(ResetWorld, "~/reset", self._reset)
        self._reported_rejection = {}
        # Controllers are nodes, and their clients read their parameters.
        self.controllers = [self._parameter_node(f"{name}_controller", self._controllers.parameters(name)) for name in GROUPS]

    def _parameter_node(self, name: str, parameters: dict[str, object]) -> Node:
        # The process's arguments are for the simulator: its name and its parameters are not to be these nodes', too.
        node = Node(name, namespace=self.get_namespace(), use_global_arguments=False, enable_rosout=False)
        for parameter, value in parameters.items():
            node.declare_parameter(parameter, value, ParameterDescriptor(read_only=True))
        return node

    def spin(self) -> None:
        """Run until the context is shut down, as near to the aimed speed as the machine allows."""
        start = reported = time.monotonic()
        simulated = report_from = self._world.time_ns
        while rclpy.ok():
            self._frame()
            now = time.monotonic()
            ahead = (self._world.time_ns - simulated) * 1e-9 / self._speed - (now - start)
            if ahead > 0:
                time.sleep(ahead)
            elif ahead < -0.1:  # too slow for real time: do not rush to catch up
                start, simulated = now, self._world.time_ns
            if now - reported > REPORT_S:
                factor = (self._world.time_ns - report_from) * 1e-9 / (now - reported)
                self.get_logger().info(f"real-time factor {factor:.2f}")
                reported, report_from = now, self._world.time_ns

    def _frame(self) -> None:
        with self._lock:
            for _ in range(FRAME_STEPS):
                self._world.step(self._controllers.update(self._world.time_ns, *self._world.joints()))
            time_ns = self._world.time_ns
            position, velocity = self._world.joints()
            tick = time_ns // CONTROL_NS
            images = {name: self._world.render(name) for name in CAMERAS} if tick % IMAGE_STEPS == 0 else {}
            score = self._world.score() if tick % SCORE_STEPS == 0 else None
            instruction = self._instruction
            if self._system_time:
                self._ahead_ns = time.time_ns() - time_ns
            now_ns = time_ns + self._ahead_ns
        stamp = to_time(now_ns)
        if not self._system_time:
            self._clock_topic.publish(Clock(clock=stamp))
        message = JointState(name=list(JOINTS), position=array.array("d", position.tobytes()), velocity=array.array("d", velocity.tobytes()))
        message.header.stamp = stamp
        self._joints.publish(message)
        for name, pixels in images.items():
            noisy = cv2.add(pixels, self._noise[tick // IMAGE_STEPS % len(self._noise)], dtype=cv2.CV_8U)
            publisher, message = self._images[name]
            publisher.publish(encode(noisy, message, f"{name}_camera_optical", stamp))
        if score is not None:
            state = asdict(score) | {"task": instruction.text, "time_ns": now_ns}
            self._score.publish(String(data=json.dumps(state, default=float)))

    def _receive(self, name: str, message: JointTrajectory) -> None:
        points = [TrajectoryPoint(p.positions, p.velocities, p.accelerations, to_ns(p.time_from_start)) for p in message.points]
        stamp_ns = to_ns(message.header.stamp)
        with self._lock:
            trajectory = Trajectory(message.joint_names, points, stamp_ns - self._ahead_ns if stamp_ns else 0)
            verdict = self._controllers.receive(name, trajectory, self._world.time_ns)
        if isinstance(verdict, Rejected) and self._reported_rejection.get(name) != verdict.reason:
            self._reported_rejection[name] = verdict.reason
            self.get_logger().warning(f"{name}_controller rejected a trajectory: {verdict.reason}")

    def _reset(self, request: ResetWorld.Request, response: ResetWorld.Response) -> ResetWorld.Response:
        try:
            with self._lock:
                self._instruction = self._world.reset(request.task, request.seed)
                self._controllers.hold(HOME)
                response.stamp = to_time(self._world.time_ns + self._ahead_ns)
        except FlashRTError as error:
            response.message = str(error)
            return response
        response.accepted, response.task = True, self._instruction.text
        return response


def main() -> None:
    with until_interrupted():
        node = SimNode()
        with spinning(node, *node.controllers):
            node.spin()


if __name__ == "__main__":
    main()
