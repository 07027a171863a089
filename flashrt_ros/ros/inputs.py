"""The contract's inputs as subscriptions: each callback stores the newest message; decoding is the worker's.

Images and joint states are subscribed to raw: a message that no decision takes is never deserialised
(docs/performance.md has the measurement).
"""

from __future__ import annotations

import struct
from typing import Any, Callable

import numpy as np
from rclpy.lifecycle import LifecycleNode
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import String

from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.contract.schema import Input
from flashrt_ros.engine.intake import Intake
from flashrt_ros.errors import FlashRTError
from flashrt_ros.ros import images
from flashrt_ros.ros.joints import JointSelector
from flashrt_ros.ros.qos import BY_NAME

TYPES = {"sensor_msgs/msg/Image": Image, "sensor_msgs/msg/CompressedImage": CompressedImage,
         "sensor_msgs/msg/JointState": JointState, "std_msgs/msg/String": String}


class InputDataError(FlashRTError):
    """A message's bytes are not a message of its type."""


def header_stamp_ns(raw: bytes) -> int | None:
    """The header stamp of a serialised message that begins with std_msgs/Header; None: zero, or no whole header.

    CDR: a 4-byte encapsulation whose second byte's lowest bit says little-endian, then sec (int32) and nanosec (uint32).
    """
    if len(raw) < 12:
        return None
    sec, nanosec = struct.unpack_from("<iI" if raw[1] & 1 else ">iI", raw, 4)
    return sec * 1_000_000_000 + nanosec or None


class Inputs:
    """Subscribes for every input of the pipeline; `on_text(name, text)` is called for instructions instead of storing
    them. `decode` is the Intake's decode function; `encodings` holds each camera's last encoding."""

    def __init__(self, node: LifecycleNode, pipeline: Pipeline, intake: Intake, encode_text: Callable[[str], np.ndarray],
                 on_text: Callable[[str, str], None]) -> None:
        self._node, self._intake, self._encode_text = node, intake, encode_text
        self._declared = pipeline.input
        self._selectors = {i.name: JointSelector(i.select, i.apply, i.name) for i in pipeline.contract.inputs if i.select}
        self.encodings: dict[str, str] = {}
        self.newest: dict[str, bytes] = {}  # per input but instructions: the last message, serialised
        options = QoSOverridingOptions.with_default_policies()
        self._subscriptions = []
        for declared in pipeline.contract.inputs:
            is_text = declared.channel.type == "std_msgs/msg/String"
            callback = (lambda message, name=declared.name: on_text(name, message.data)) if is_text else self._store(declared)
            self._subscriptions.append(node.create_subscription(
                TYPES[declared.channel.type], declared.channel.topic, callback, BY_NAME[declared.channel.qos], raw=not is_text,
                qos_overriding_options=options))

    def topic(self, name: str) -> str:
        """The resolved topic of an input."""
        index = list(self._declared).index(name)
        return self._subscriptions[index].topic_name

    def decode(self, name: str, raw: Any) -> np.ndarray:
        """A stored message as the input buffer's array. Raises FlashRTError (ImageError, JointError, TaskError, ...)."""
        if isinstance(raw, str):
            return self._encode_text(raw)
        declared = self._declared[name]
        try:
            message = deserialize_message(raw, TYPES[declared.channel.type])
        except Exception as error:  # rclpy raises what its typesupport raises
            raise InputDataError(f"input '{name}': {len(raw)} bytes on {self.topic(name)} are no "
                                 f"{declared.channel.type} ({error}); another type is published there") from error
        if declared.image is None:
            return self._selectors[name](message)
        self.encodings[name] = getattr(message, "encoding", "") or getattr(message, "format", "")
        return images.decode(message, declared.image, f"input '{name}'")

    def close(self) -> None:
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._subscriptions = []

    def _store(self, declared: Input) -> Callable[[bytes], None]:
        name, clock = declared.name, self._node.get_clock()

        def store(raw: bytes) -> None:
            self.newest[name] = raw
            self._intake.offer(name, raw, header_stamp_ns(raw), clock.now().nanoseconds)

        return store
