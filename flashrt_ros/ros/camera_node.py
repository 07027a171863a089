"""A camera driver for the built-in robot: takes the frames that the simulator leaves to it (its parameter `driven_cameras`) and
publishes them as the camera. A process of its own, so that a camera can die without the rest of the robot.
"""

from __future__ import annotations

import rclpy
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image

from flashrt_ros.ros.spin import until_interrupted


class CameraNode(Node):
    """Parameter: camera (its name)."""

    def __init__(self) -> None:
        super().__init__("camera")
        camera = self.declare_parameter("camera", "scene").value
        publisher = self.create_publisher(Image, f"{camera}_camera/image_raw", 5)
        # Serialised as they come: a driver hands its frames on, whatever they show.
        self.create_subscription(Image, f"sim/{camera}_camera/frames", publisher.publish, qos_profile_sensor_data, raw=True)


def main() -> None:
    with until_interrupted():
        rclpy.spin(CameraNode())


if __name__ == "__main__":
    main()
