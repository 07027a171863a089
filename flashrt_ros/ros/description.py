"""The robot's description (URDF) as a source of joint limits: by parameter or latched topic. Owns where it comes from; what
it says, flashrt_ros.player.urdf reads."""

from __future__ import annotations

from rclpy.lifecycle import LifecycleNode
from std_msgs.msg import String

from flashrt_ros.errors import FlashRTError
from flashrt_ros.player.limits import Limits
from flashrt_ros.player.urdf import joint_ranges, tighten
from flashrt_ros.ros.lifecycle import read_only
from flashrt_ros.ros.qos import LATCHED


class Description:
    """Parameters `use_urdf`, `robot_description`. came: whether there is one. news: it has changed since `tighten` was last
    called. fault: why the limits are not known, or empty."""

    def __init__(self, node: LifecycleNode) -> None:
        self._node = node
        self.used = node.declare_parameter("use_urdf", False, read_only(
            "Keep to the joint limits of the robot's description as well; the tighter counts")).value
        self._text = node.declare_parameter("robot_description", "", read_only(
            "The description (URDF); empty: it comes on the topic robot_description")).value
        self.fault = ""
        self.news = self.came = bool(self._text)
        if self.used and not self.came:
            self._topic = node.create_subscription(String, "robot_description", self._on_description, LATCHED).topic_name

    def tighten(self, limits: Limits) -> Limits:
        """The limits that count; while there is a fault, those given. What is wider than the description is logged."""
        self.fault, self.news = "", False
        if not self.used:
            return limits
        if not self.came:
            self.fault = f"use_urdf is set, and no description has come on {self._topic}: the joint limits are not known"
            return limits
        try:
            tightened, warnings = tighten(limits, joint_ranges(self._text, limits.names))
        except FlashRTError as error:
            self.fault = str(error)
            return limits
        for warning in warnings:
            self._node.get_logger().warning(warning)
        return tightened

    def _on_description(self, message: String) -> None:
        if message.data != self._text:
            self._text = message.data
            self.news = self.came = True
