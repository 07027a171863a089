"""A stored message as the array of its input buffer: what live nodes and replays have in common between message and engine.

Owns which converter belongs to which input. Must not import rclpy: any object with the message's fields serves.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.decode import images
from flashrt_ros.decode.joints import JointSelector


class Decoder:
    """encode_text: the policy's. encodings: camera -> the encoding of its last image, as the message names it."""

    def __init__(self, pipeline: Pipeline, encode_text: Callable[[str], np.ndarray]) -> None:
        self._declared, self._encode_text = pipeline.input, encode_text
        self._selectors = {i.name: JointSelector(i.select, i.apply, i.name) for i in pipeline.contract.inputs if i.select}
        self.encodings: dict[str, str] = {}

    def __call__(self, name: str, message: Any) -> np.ndarray:
        """The message of the input `name`, or its text, as the buffer's array. Raises FlashRTError (ImageError, JointError, TaskError)."""
        if isinstance(message, str):
            return self._encode_text(message)
        image = self._declared[name].image
        if image is None:
            return self._selectors[name](message)
        self.encodings[name] = getattr(message, "encoding", "") or getattr(message, "format", "")
        return images.decode(message, image, name)
