"""Image messages for tests: plain objects with the fields of sensor_msgs, since the codec promises to need no more."""

from array import array
from types import SimpleNamespace

import numpy as np

# How the bytes of a uint8[] field arrive: from rclpy, from rosbags, from a serialised message.
CONTAINERS = {"array": lambda b: array("B", b), "numpy": lambda b: np.frombuffer(b, np.uint8), "bytes": bytes}

# From an RGB picture [h, w, 3] (grey for mono8) and alpha [h, w, 1] to the pixels of an encoding.
ENCODE = {
    "rgb8": lambda rgb, alpha: rgb,
    "bgr8": lambda rgb, alpha: rgb[..., ::-1],
    "rgba8": lambda rgb, alpha: np.concatenate([rgb, alpha], axis=2),
    "bgra8": lambda rgb, alpha: np.concatenate([rgb[..., ::-1], alpha], axis=2),
    "mono8": lambda rgb, alpha: rgb[..., :1],
}


def raw(pixels, encoding, padding=0, big=0, container="array"):
    """pixels: uint8 [h, w] or [h, w, c]; each row is followed by `padding` bytes that are no pixels."""
    height, width = pixels.shape[:2]
    rows = pixels.reshape(height, -1)
    data = np.concatenate([rows, np.full((height, padding), 0xA5, np.uint8)], axis=1).tobytes()
    return SimpleNamespace(
        header=header(), height=height, width=width, encoding=encoding, is_bigendian=big, step=rows.shape[1] + padding,
        data=CONTAINERS[container](data))


def compressed(data, format, container="array"):
    return SimpleNamespace(header=header(), format=format, data=CONTAINERS[container](bytes(data)))


def header():
    return SimpleNamespace(frame_id="", stamp=None)


def picture(seed, height, width, grey=False):
    """Noise: uint8 [height, width, 3]; with `grey`, the same in all channels."""
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 1 if grey else 3), np.uint8)
    return np.repeat(noise, 3, axis=2) if grey else noise
