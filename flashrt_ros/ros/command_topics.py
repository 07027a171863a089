"""The topics on which the player commands controllers, and how a command looks on each. Owns the publishers; must not know what
is commanded, or when."""

from __future__ import annotations

import array
from typing import Sequence

import numpy as np
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode
from rclpy.qos_overriding_options import QoSOverridingOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from flashrt_ros.contract.schema import Output
from flashrt_ros.player.command import Point, thinned
from flashrt_ros.ros.convert import to_time, trajectory_message
from flashrt_ros.ros.qos import RELIABLE

WINDOWED, FORWARD = "trajectory_msgs/msg/JointTrajectory", "std_msgs/msg/Float64MultiArray"
KINDS = {WINDOWED: JointTrajectory, FORWARD: Float64MultiArray, "sensor_msgs/msg/JointState": JointState}
ACKNOWLEDGED_S = 0.2  # a controller has taken the last command within this, or is not there


class CommandTopics:
    """For positions [N] of `joints`. dry: on ~/dry_run/<topic> instead."""

    def __init__(self, node: LifecycleNode, outputs: Sequence[Output], joints: Sequence[str], dry: bool) -> None:
        self.outputs = tuple(outputs)
        self._publishers = []
        for output in outputs:
            topic = f"~/dry_run/{output.channel.topic.lstrip('~/')}" if dry else output.channel.topic
            columns = np.array([joints.index(joint) for joint in output.select])
            publisher = node.create_publisher(KINDS[output.channel.type], topic, RELIABLE,
                                              qos_overriding_options=QoSOverridingOptions.with_default_policies())
            self._publishers.append((output, columns, publisher))
        self.topics = tuple(publisher.topic_name for _, _, publisher in self._publishers)
        self._node = node

    @property
    def streams(self) -> bool:
        """Whether some controller gets a command at every tick, and is not led through a window."""
        return any(output.channel.type != WINDOWED for output in self.outputs)

    def send_window(self, points: Sequence[Point]) -> None:
        """To the controllers that take windows. Stamped at the first point, which is already due: joint_trajectory_controller then
        enters the window where it is, instead of bridging to it from the measured state, which would throw the command back
        by the tracking error."""
        for output, columns, publisher in self._publishers:
            if output.channel.type == WINDOWED:
                publisher.publish(trajectory_message(output.select, thinned([point.of(columns) for point in points])))

    def stream(self, position: np.ndarray) -> None:
        """One command to each controller that takes positions tick by tick."""
        for output, columns, publisher in self._publishers:
            if output.channel.type == WINDOWED:
                continue
            data = array.array("d", position[columns].tobytes())
            if output.channel.type == FORWARD:
                publisher.publish(Float64MultiArray(data=data))
            else:
                message = JointState(name=list(output.select), position=data)
                message.header.stamp = to_time(self._node.get_clock().now().nanoseconds)
                publisher.publish(message)

    def wait_until_delivered(self) -> None:
        """A process that ends takes what was not yet delivered with it."""
        for _, _, publisher in self._publishers:
            publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGED_S))

    def destroy(self) -> None:
        for _, _, publisher in self._publishers:
            self._node.destroy_publisher(publisher)
