"""Pins the camera's way on real parts: encoded, sent by a process of its own over real Fast DDS with the profile, and
decoded again bit for bit."""

import multiprocessing
from array import array

import numpy as np
import pytest
from image_messages import picture

from flashrt_ros.contract.schema import Image as ImageSpec
from flashrt_ros.decode import images
from flashrt_ros.ros import dds

rclpy = pytest.importorskip("rclpy")

SPINS = 300  # of at most 0.1 s: a bound for discovery on a busy machine, not a pace


def send(pipe):
    """The camera: latched, so that it need not know when its receiver is there."""
    from builtin_interfaces.msg import Time
    from sensor_msgs.msg import Image

    from flashrt_ros.ros.qos import LATCHED

    rclpy.init()
    publisher = rclpy.create_node("camera").create_publisher(Image, "image_raw", LATCHED)
    publisher.publish(images.encode(picture(7, 480, 640), Image(), "camera_optical", Time(sec=12, nanosec=34)))
    maps = open("/proc/self/maps").read().splitlines()
    ranges = [line.split()[0].split("-") for line in maps if "/dev/shm/fast" in line]
    pipe.send(max(int(end, 16) - int(start, 16) for start, end in ranges))
    pipe.recv()


def test_an_image_arrives_bit_for_bit_over_dds(monkeypatch):
    from sensor_msgs.msg import Image

    from flashrt_ros.ros.qos import LATCHED

    with dds.claim_domain() as domain:
        for name, value in {**dds.environment(), "ROS_DOMAIN_ID": str(domain)}.items():
            monkeypatch.setenv(name, value)
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        camera = multiprocessing.get_context("spawn").Process(target=send, args=(theirs,), daemon=True)
        camera.start()
        context = rclpy.Context()
        rclpy.init(context=context, domain_id=domain)
        try:
            received = []
            node = rclpy.create_node("receiver", context=context)
            subscription = node.create_subscription(Image, "image_raw", received.append, LATCHED)
            executor = rclpy.executors.SingleThreadedExecutor(context=context)
            executor.add_node(node)
            for _ in range(SPINS):
                executor.spin_once(timeout_sec=0.1)
                if received:
                    break
            assert received, f"nothing arrived on {subscription.topic_name}"
            assert ours.recv() >= 32 * 2**20  # the camera's segment: the profile was taken
        finally:
            ours.send("stop")
            camera.join(10)
            camera.kill()
            camera.join()
            rclpy.shutdown(context=context)
    message = received[0]
    assert message.data == array("B", picture(7, 480, 640).tobytes())
    stamp = message.header.stamp
    assert (message.header.frame_id, stamp.sec, stamp.nanosec) == ("camera_optical", 12, 34)
    decoded = images.decode(message, ImageSpec(size=(480, 640), resize="exact"), "scene")
    np.testing.assert_array_equal(decoded, picture(7, 480, 640))
