"""The image codec: sensor_msgs Image and CompressedImage to RGB arrays of the contract's size, and back.

Owns encodings, row steps, bounds and resizing. Numpy and OpenCV only: it must not import rclpy or a message package, so
that it serves any object with the message's fields, such as those that `rosbags` reads without ROS.
cv_bridge is not used: for these encodings it gives nothing more, and it neither bounds nor resizes nor spares the copy.

An encoding is converted or refused, never guessed. `is_bigendian` orders the bytes of wider samples; all encodings that
are accepted here have 8-bit samples, so either value gives the same picture.
Names of encodings and of the `format` field: sensor_msgs/image_encodings.hpp and sensor_msgs/msg/CompressedImage.msg.
"""

from __future__ import annotations

from array import array as Array
from typing import Any, NamedTuple, NoReturn

import cv2
import numpy as np

from flashrt_ros.contract.schema import Image
from flashrt_ros.errors import FlashRTError

MAX_SIDE = 16384  # pixels, and
MAX_BYTES = 64 * 2**20  # of one decoded picture: far above a robot's cameras, and all that a corrupt header can cost
JPEG, PNG = "jpeg", "png"


class ImageError(FlashRTError):
    """A camera message cannot be turned into the picture that the contract asks for."""


class _Encoding(NamedTuple):
    channels: int  # bytes per pixel
    to_rgb: int | None  # OpenCV's conversion code
    mosaic: bool = False  # a pixel is not a colour by itself, so it is converted before any resizing


ENCODINGS = {
    "rgb8": _Encoding(3, None),
    "bgr8": _Encoding(3, cv2.COLOR_BGR2RGB),
    "rgba8": _Encoding(4, cv2.COLOR_RGBA2RGB),
    "bgra8": _Encoding(4, cv2.COLOR_BGRA2RGB),
    "mono8": _Encoding(1, cv2.COLOR_GRAY2RGB),
    # BT.601, limited range, as UVC cameras send it and as cv_bridge and image_proc read it.
    "uyvy": _Encoding(2, cv2.COLOR_YUV2RGB_UYVY, mosaic=True),
    "yuv422": _Encoding(2, cv2.COLOR_YUV2RGB_UYVY, mosaic=True),
    "yuyv": _Encoding(2, cv2.COLOR_YUV2RGB_YUY2, mosaic=True),
    "yuv422_yuy2": _Encoding(2, cv2.COLOR_YUV2RGB_YUY2, mosaic=True),
    "bayer_rggb8": _Encoding(1, cv2.COLOR_BayerRGGB2RGB, mosaic=True),
    "bayer_bggr8": _Encoding(1, cv2.COLOR_BayerBGGR2RGB, mosaic=True),
    "bayer_gbrg8": _Encoding(1, cv2.COLOR_BayerGBRG2RGB, mosaic=True),
    "bayer_grbg8": _Encoding(1, cv2.COLOR_BayerGRBG2RGB, mosaic=True),
}


def decode(message: Any, image: Image, name: str) -> np.ndarray:
    """The message's picture as uint8 [H, W, 3], RGB, exactly `image.size`.

    message: sensor_msgs/Image or sensor_msgs/CompressedImage, or any object with its fields.
    name: the contract's input, for errors. The result may be a view of the message's memory (rgb8 of the right size).
    Raises ImageError for an encoding that is not a colour picture, wrong sizes, truncated or corrupt data.
    """
    compressed = hasattr(message, "format")
    pixels, to_rgb = _decompress(message, name) if compressed else _view(message, name)
    fitted = _fit(pixels, image, name)
    # After the resize, because it is the smaller picture; per channel the two commute.
    return fitted if to_rgb is None else cv2.cvtColor(fitted, to_rgb)


def encode(rgb: np.ndarray, message: Any, frame_id: str, stamp: Any) -> Any:
    """Write uint8 [H, W, 3] into a sensor_msgs/Image as rgb8 and return that message.

    stamp: builtin_interfaces/Time. Publishing copies the message, so keep one per camera: its buffer is then reused.
    The data field is an array.array that is filled through the buffer protocol: 0.05 ms for 640x480, where assigning
    bytes takes 0.4 ms and the message's constructor 1.9 ms (ros2/rclpy#763, ros2/rosidl_python#129).
    Raises ImageError for another shape or dtype.
    """
    if rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.dtype != np.uint8 or not rgb.size:
        raise ImageError(
            f"frame '{frame_id}': cannot publish {rgb.dtype} {list(rgb.shape)}; allowed: uint8 [H, W, 3], not empty. "
            "Convert it first: scale to 0..255, take 3 channels"
        )
    message.header.frame_id = frame_id
    message.header.stamp = stamp
    message.height, message.width = rgb.shape[:2]
    message.encoding, message.is_bigendian, message.step = "rgb8", 0, 3 * rgb.shape[1]
    pixels = np.ascontiguousarray(rgb).reshape(-1).data
    if isinstance(message.data, Array) and len(message.data) == len(pixels):
        memoryview(message.data)[:] = pixels
    else:
        data = Array("B")
        data.frombytes(pixels)
        message.data = data
    return message


def _view(message: Any, name: str) -> tuple[np.ndarray, int | None]:
    """A raw image's pixels without a copy, [h, w, channels] or [h, w], and the conversion that is still to do."""
    encoding = ENCODINGS.get(message.encoding) or _refuse_encoding(message.encoding, name)
    height, width, step = message.height, message.width, message.step
    _bound(height, width, height * max(step, width * 3), name)
    row = width * encoding.channels
    if step < row:
        raise ImageError(
            f"input '{name}': step {step} is shorter than a row of {width} {message.encoding} pixels; "
            f"allowed: at least {row} bytes. Correct `step` or `width` in the camera driver"
        )
    size = len(message.data)
    if size != height * step:
        raise ImageError(
            f"input '{name}': data holds {size} bytes; allowed: height {height} * step {step} = {height * step}. "
            "The message was truncated, or the camera driver fills in a wrong height or step"
        )
    shape, strides = (height, width, encoding.channels), (step, encoding.channels, 1)
    if encoding.channels == 1:
        shape, strides = shape[:2], strides[:2]
    pixels = np.ndarray(shape, np.uint8, buffer=message.data, strides=strides)
    if not encoding.mosaic:
        return pixels, encoding.to_rgb
    if encoding.channels == 1 and min(height, width) < 3:
        raise ImageError(f"input '{name}': a {width}x{height} mosaic is too small to interpolate; allowed: from 3x3 up")
    if encoding.channels == 2 and width % 2:
        raise ImageError(
            f"input '{name}': width {width} of {message.encoding} is odd, but two pixels share their colour; "
            "allowed: even widths. Set an even width in the camera driver"
        )
    return cv2.cvtColor(pixels, encoding.to_rgb), None


def _decompress(message: Any, name: str) -> tuple[np.ndarray, int | None]:
    """A compressed image's pixels [h, w, 3], and the conversion that is still to do."""
    codec, swapped = _parse_format(message.format, name)
    data = memoryview(message.data)
    found = JPEG if data[:2] == b"\xff\xd8" else PNG if data[:8] == b"\x89PNG\r\n\x1a\n" else None
    if found != codec:
        raise ImageError(
            f"input '{name}': format {message.format!r} announces {codec}, but the data starts as {found or 'neither'};"
            f" allowed: {JPEG} or {PNG} data under its own name. Correct the publisher's format"
        )
    header = _jpeg_header(data) if codec == JPEG else _png_header(data)
    if header is None:
        raise ImageError(
            f"input '{name}': {len(data)} bytes of {codec} without a frame header; allowed: a complete file. "
            "Check the transport (best effort drops fragments of large messages)"
        )
    height, width, bits = header
    _bound(height, width, height * width * 3, name)
    if bits != 8:
        raise ImageError(
            f"input '{name}': the {codec} has {bits} bits per sample, as depth images do; allowed: 8. "
            "Subscribe to the camera's colour topic"
        )
    pixels = None
    # OpenCV 4 completes a jpeg that breaks off with grey rows. Cameras pad frames with zeros after the end marker.
    if codec == PNG or bytes(data).rstrip(b"\0").endswith(b"\xff\xd9"):
        try:
            # Without the flag, a camera's EXIF tag would turn the picture.
            pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
        except cv2.error:
            pass
    if pixels is None:
        raise ImageError(
            f"input '{name}': {len(data)} bytes of corrupt or truncated {codec} ({width}x{height} by its header); "
            "allowed: a complete file. Check the transport (best effort drops fragments of large messages)"
        )
    return pixels, None if swapped else cv2.COLOR_BGR2RGB


def _parse_format(text: str, name: str) -> tuple[str, bool]:
    """The `format` field to (codec, whether the stored red and blue are swapped).

    `CODEC` alone is an ordinary file, and so is an empty field (then it is jpeg). image_transport writes
    `ORIGINAL; CODEC compressed STORED`; STORED `rgb8` says that red was stored where the file format has blue.
    """
    original, semicolon, rest = (part.strip() for part in text.partition(";"))
    codec, *words = (rest if semicolon else original or JPEG).lower().replace("jpg", JPEG).split() or [""]
    if codec == "compresseddepth":
        _refuse_encoding(original, name)
    if codec not in (JPEG, PNG):
        raise ImageError(
            f"input '{name}': compressed format {text!r}; allowed: jpeg or png, alone or as "
            "`ENCODING; jpeg compressed bgr8`. Set the publisher's compression format to jpeg or png"
        )
    if not semicolon:
        return codec, False
    if original not in ENCODINGS:
        _refuse_encoding(original, name)
    stored = words[1] if len(words) == 2 and words[0] == "compressed" else None
    if stored in ("bgr8", "rgb8") or original == "mono8":
        return codec, stored == "rgb8"
    raise ImageError(
        f"input '{name}': compressed format {text!r} does not say in which order the colours are stored; allowed: "
        f"`{original}; {codec} compressed bgr8` or `... rgb8`, or `{codec}` alone for an ordinary file. "
        "Correct the publisher's format"
    )


def _jpeg_header(data: memoryview) -> tuple[int, int, int] | None:
    """(height, width, bits per sample), from the first frame header (ITU-T T.81, annex B)."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = int.from_bytes(data[at + 5 : at + 7], "big"), int.from_bytes(data[at + 7 : at + 9], "big")
            return height, width, data[at + 4]
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _png_header(data: memoryview) -> tuple[int, int, int] | None:
    """(height, width, bits per sample), from the IHDR chunk. Below 8 bits counts as 8, as OpenCV expands it."""
    if len(data) < 33 or data[12:16] != b"IHDR":
        return None
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    return height, width, max(8, data[24])


def _bound(height: int, width: int, size: int, name: str) -> None:
    if height < 1 or width < 1:
        raise ImageError(
            f"input '{name}': the picture is {width}x{height} pixels; allowed: at least 1x1. "
            "The camera sends empty pictures: check that it streams"
        )
    if max(height, width) > MAX_SIDE or size > MAX_BYTES:
        raise ImageError(
            f"input '{name}': the picture is {width}x{height} pixels, {size} bytes; allowed: at most {MAX_SIDE} pixels "
            f"a side and {MAX_BYTES} bytes. Publish a smaller picture: the policy sees a small one anyway"
        )


def _refuse_encoding(encoding: str, name: str) -> NoReturn:
    if encoding in ("16UC1", "32FC1", "mono16"):
        reason = "holds depth or 16-bit intensity, but the input is colour"
        way_out = "subscribe to the camera's colour topic"
    elif encoding[:1].isdigit():
        reason, way_out = "names no colour order", "set the encoding that the pixels really have in the camera driver"
    else:
        reason, way_out = "is not supported", "convert it with image_proc, or set the camera driver to rgb8"
    raise ImageError(f"input '{name}': encoding {encoding!r} {reason}; allowed: {', '.join(ENCODINGS)}; {way_out}")


def _fit(pixels: np.ndarray, image: Image, name: str) -> np.ndarray:
    """Resize [h, w, ...] to image.size, each channel on its own; INTER_AREA when shrinking, so that nothing aliases."""
    height, width = image.size
    h, w = pixels.shape[:2]
    if (h, w) == (height, width):
        return pixels
    if image.resize == "exact":
        raise ImageError(
            f"input '{name}': the picture is {w}x{h} pixels; allowed: exactly {width}x{height} (resize: exact). "
            "Set the camera's resolution, or `resize: pad` or `stretch` in the contract"
        )
    if image.resize == "stretch":
        return _resize(pixels, height, width)
    scale = min(height / h, width / w)
    inner_h, inner_w = max(1, round(h * scale)), max(1, round(w * scale))
    top, left = (height - inner_h) // 2, (width - inner_w) // 2
    out = np.zeros((height, width, *pixels.shape[2:]), np.uint8)
    out[top : top + inner_h, left : left + inner_w] = _resize(pixels, inner_h, inner_w)
    return out


def _resize(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    shrinks = height <= pixels.shape[0] and width <= pixels.shape[1]
    return cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
