"""The contract's inputs as subscriptions: each callback stores the newest message; decoding is the worker's.

Messages arrive deserialised: raw subscriptions cost more here, because rmw_fastrtps copies a raw payload once more and
the worker would deserialise it again (docs/performance.md has the measurement).
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from rclpy.lifecycle import LifecycleNode
from rclpy.qos_overriding_options import QoSOverridingOptions
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import String

from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.contract.schema import Input
from flashrt_ros.decode.decoder import Decoder
from flashrt_ros.engine.intake import Intake
from flashrt_ros.ros.convert import to_ns
from flashrt_ros.ros.qos import BY_NAME

TYPES = {"sensor_msgs/msg/Image": Image, "sensor_msgs/msg/CompressedImage": CompressedImage,
         "sensor_msgs/msg/JointState": JointState, "std_msgs/msg/String": String}


class Inputs:
    """Subscribes for every input of the pipeline; `on_text(name, text)` is called for instructions instead of storing
    them. `decode` is the Intake's decode function."""

    def __init__(self, node: LifecycleNode, pipeline: Pipeline, intake: Intake, encode_text: Callable[[str], np.ndarray],
                 on_text: Callable[[str, str], None]) -> None:
        self._node, self._intake, self._declared = node, intake, pipeline.input
        self.decode = Decoder(pipeline, encode_text)
        self.newest: dict[str, Any] = {}  # per input but instructions: the last message
        options = QoSOverridingOptions.with_default_policies()
        self._subscriptions = []
        for declared in pipeline.contract.inputs:
            is_text = declared.channel.type == "std_msgs/msg/String"
            callback = (lambda message, name=declared.name: on_text(name, message.data)) if is_text else self._store(declared)
            self._subscriptions.append(node.create_subscription(
                TYPES[declared.channel.type], declared.channel.topic, callback, BY_NAME[declared.channel.qos],
                qos_overriding_options=options))

    def topic(self, name: str) -> str:
        """The resolved topic of an input."""
        index = list(self._declared).index(name)
        return self._subscriptions[index].topic_name

    def close(self) -> None:
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._subscriptions = []

    def _store(self, declared: Input) -> Callable[[bytes], None]:
        name, clock = declared.name, self._node.get_clock()

        def store(message: Any) -> None:
            self.newest[name] = message
            self._intake.offer(name, message, to_ns(message.header.stamp) or None, clock.now().nanoseconds)

        return store
