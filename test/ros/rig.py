"""A robot without physics for node tests: real policy and player nodes over real DDS under a simulated clock that the
test advances. Nothing waits for wall time: every step spins until what it caused has arrived."""

import gc
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from flashrt_ros.msg import ActionChunk, ExecutionState, PipelineEpoch, PipelineEvent, PipelineStatus
from flashrt_ros.policies.tabletop_arm import HOME, JOINTS
from flashrt_ros.resources import find
from flashrt_ros.ros.convert import to_time
from flashrt_ros.decode.images import encode
from flashrt_ros.ros.player_node import PlayerNode
from flashrt_ros.ros.policy_node import PolicyNode
from flashrt_ros.ros.qos import EVENTS, LATCHED, RELIABLE

MS = 1_000_000
PATIENCE_S = 30.0
TASK = "pick up the red cube"
TOPICS = {"scene": "scene_camera/image_raw", "wrist": "wrist_camera/image_raw"}


class Rig:
    """Use as a context. `robot` publishes; what the nodes publish is kept in the lists. The arm stays where `joints` says.
    player: further parameters of the player node. folder: where the policy writes capsules; None: one that goes with the rig."""

    def __init__(self, contract=None, nodes=("policy", "player"), autostart=True, start_ns=1000 * MS, player=None, folder=None):
        sys.setswitchinterval(5e-5)  # three nodes in one interpreter, and a main thread that never rests
        rclpy.init()
        self.robot = Node("robot")
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.robot)
        self._scratch = tempfile.TemporaryDirectory()
        self.folder = folder or Path(self._scratch.name) / "capsules"
        common = {"use_sim_time": True, "autostart": autostart, "contract": str(self._contract(contract))}
        # There are no controllers here, and a player would look for them for seconds.
        self._parameters = {"policy": common, "player": common | {"check_controllers": False} | (player or {})}
        self.nodes = {}
        for name in nodes:
            self.add(name)
        self.now_ns = start_ns
        self.joints = HOME.copy()
        self.names = list(JOINTS)
        self.frozen = self.silent = False
        self._clients = {}
        self.chunks, self.states, self.statuses, self.epochs, self.events, self.trajectories = [], [], [], [], [], []
        self._random = np.random.default_rng(0)
        self._clock = self.robot.create_publisher(Clock, "/clock", 1)
        self.joint_topic = self.robot.create_publisher(JointState, "joint_states", 10)
        self._cameras = {name: self.robot.create_publisher(Image, topic, QoSProfile(depth=5)) for name, topic in TOPICS.items()}
        self.task_topic = self.robot.create_publisher(String, "task", LATCHED)
        for kind, topic, kept, qos in ((ActionChunk, "action_chunk", self.chunks, RELIABLE),
                                       (ExecutionState, "execution_state", self.states, qos_profile_sensor_data),
                                       (PipelineStatus, "policy/status", self.statuses, LATCHED),
                                       (PipelineEpoch, "pipeline_epoch", self.epochs, LATCHED),
                                       (PipelineEvent, "policy/events", self.events, EVENTS),
                                       (JointTrajectory, "arm_controller/joint_trajectory", self.trajectories, RELIABLE)):
            self.robot.create_subscription(kind, topic, lambda message, kept=kept: kept.append(message), qos)
        self.chunk_topic = self.robot.create_publisher(ActionChunk, "action_chunk", RELIABLE)

    def add(self, name):
        """Start another node, as one that joins late."""
        kind = {"policy": PolicyNode, "player": PlayerNode}[name]
        self.nodes[name] = kind(parameter_overrides=[Parameter(k, value=v) for k, v in self._parameters[name].items()])
        self.executor.add_node(self.nodes[name])

    def __enter__(self):
        try:
            self.until(lambda: self._clock.get_subscription_count() >= len(self.nodes), "the nodes' clocks")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        for node in self.nodes.values():
            node.stop()
        self.executor.shutdown()
        for node in (*self.nodes.values(), self.robot):
            node.destroy_node()
        rclpy.shutdown()
        self._scratch.cleanup()
        # Nodes are garbage in cycles, and until that is collected their participant is seen. A client waits while it sees more
        # readers of a service's requests than writers of its replies, and those of the past vanish one by one, or never.
        del self.robot, self.executor
        self.nodes.clear()
        self._clients.clear()
        gc.collect()

    @property
    def status(self):
        return self.statuses[-1]

    def until(self, predicate, what, step=None):
        """Spin (and call step() in between) until predicate(); fail after PATIENCE_S of wall time."""
        deadline = time.monotonic() + PATIENCE_S
        while not predicate():
            assert time.monotonic() < deadline, (
                f"waited {PATIENCE_S:.0f} s for {what}; policy: {self.statuses[-1:] and self.status.reason}; "
                f"player: {self.states[-1:]}")
            if step is not None:
                step()
            self.executor.spin_once(timeout_sec=0.005)

    def advance(self, ns=20 * MS):
        """One step of simulated time: clock and joints every 20 ms, images every 40 ms; returns when the nodes' clocks follow."""
        self.now_ns += ns
        stamp = to_time(self.now_ns)
        self._clock.publish(Clock(clock=stamp))
        self.send_joints()
        if self.now_ns // (20 * MS) % 2 == 0 and not self.silent:
            for name in TOPICS:
                self.send_image(name)
        nodes = self.nodes.values()
        self.until(lambda: all(n.get_clock().now().nanoseconds == self.now_ns for n in nodes), "the clock")
        self.until(self._decided, "the decision of this moment")
        self.executor.spin_once(timeout_sec=0.0)

    def _decided(self):
        """Simulated time must not run away from a policy that thinks in real time."""
        decider = self.nodes["policy"]._decider if "policy" in self.nodes else None
        if decider is None or not decider.task:
            return True
        decider.wake()
        return decider._elapsed() == decider._index and decider.decisions == decider.chunks + decider.refused

    def _contract(self, given):
        """A copy that writes into `folder`: of the given one, or of the demo's, without the deadline guard: it measures real time,
        which a loaded test machine has little of."""
        path = Path(given or find("config/color_servo.contract.yaml"))
        text = path.read_text()
        if given is None:
            assert ", deadline]" in text
            text = text.replace(", deadline]", "]")
        copy = Path(self._scratch.name) / path.name
        copy.write_text(text.replace("black_box: ~/.ros/flashrt", f"black_box: {self.folder}"))
        return copy

    def client(self, kind, service):
        """One client per service, from when it has found its server."""
        if service not in self._clients:
            self._clients[service] = self.robot.create_client(kind, service)
            self.until(self._clients[service].service_is_ready, f"the service {service}")
        return self._clients[service]

    def call(self, kind, service, request=None, step=None):
        """The answer of a service. step: what happens while it is waited for."""
        future = self.client(kind, service).call_async(kind.Request() if request is None else request)
        self.until(future.done, f"an answer of {service}", step=step)
        return future.result()

    def change(self, transition, node="policy"):
        """Whether the lifecycle transition succeeded."""
        request = ChangeState.Request(transition=Transition(id=transition))
        return self.call(ChangeState, f"{node}/change_state", request).success

    def send_joints(self, stamp_ns=None, **changes):
        message = JointState(name=self.names, position=self.joints.tolist())
        message.header.stamp = to_time(stamp_ns or self.now_ns)
        for field, value in changes.items():
            setattr(message, field, value)
        self.joint_topic.publish(message)

    def send_image(self, name, pixels=None, stamp_ns=None, **changes):
        if pixels is None:
            pixels = np.zeros((96, 96, 3), np.uint8)
            if not self.frozen:
                pixels = self._random.integers(0, 4, pixels.shape, np.uint8)
        message = encode(pixels, Image(), name, to_time(stamp_ns or self.now_ns))
        for field, value in changes.items():
            setattr(message, field, value)
        self._cameras[name].publish(message)

    def give_task(self, text=TASK):
        self.task_topic.publish(String(data=text))

    def run_until(self, predicate, what):
        """Advance simulated time until predicate()."""
        self.until(predicate, what, step=self.advance)

    def start(self, task=TASK):
        """Until the first chunk of the task is being played."""
        self.until(self.heard, "subscriptions")
        self.give_task(task)
        self.run_until(lambda: self.states and self.states[-1].state == ExecutionState.PLAYING, "the first chunk to play")

    def heard(self):
        """Whether the configured nodes have found all that the robot publishes."""
        cameras = [self.task_topic, *self._cameras.values()]
        return self.joint_topic.get_subscription_count() == len(self.nodes) and all(p.get_subscription_count() for p in cameras)
