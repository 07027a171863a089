"""Pins how compressed images are read: colours by the rules of the `format` field, and only whole, bounded files."""

import struct
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_messages import CONTAINERS, compressed, picture

from flashrt_ros.contract.schema import Image
from flashrt_ros.decode.images import ImageError, decode

IMAGE = Image(size=(12, 16), resize="exact")
RGB = np.broadcast_to(np.array((210, 90, 30), np.uint8), (12, 16, 3))


def png(bgr):
    return cv2.imencode(".png", bgr)[1].tobytes()


def jpeg(bgr):
    return cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes()


JPEG, PNG = jpeg(RGB[..., ::-1]), png(RGB[..., ::-1])


@given(st.sampled_from(["png", "PNG", "rgb8; png compressed bgr8", "bayer_rggb8; png compressed bgr8"]),
       st.sampled_from(sorted(CONTAINERS)), st.integers(0, 2**32 - 1))
def test_a_png_gives_back_its_pixels(format, container, seed):
    """An ordinary file, whatever the encoding was that the camera had before compression."""
    rgb = picture(seed, 12, 16)
    np.testing.assert_array_equal(decode(compressed(png(rgb[..., ::-1]), format, container), IMAGE, "scene"), rgb)


@pytest.mark.parametrize(
    "format", ["jpeg", "jpg", "JPEG", "", "rgb8; jpeg compressed bgr8", "bgr8;jpeg compressed bgr8"])
def test_a_jpeg_gives_back_its_colours(format):
    """An empty format means an ordinary jpeg (CompressedImage.msg)."""
    decoded = decode(compressed(JPEG, format), IMAGE, "scene")
    np.testing.assert_allclose(decoded.astype(int), RGB, atol=3)


def test_colours_stored_as_rgb_are_swapped_back():
    """image_transport's `compressed rgb8` stores red where the file format has blue."""
    rgb = picture(5, 12, 16)
    np.testing.assert_array_equal(decode(compressed(png(rgb), "rgb8; png compressed rgb8"), IMAGE, "scene"), rgb)


@pytest.mark.parametrize("format", ["png", "mono8; png compressed ", "mono8; png compressed mono8"])
def test_a_grey_picture_has_three_equal_channels(format):
    grey = picture(6, 12, 16, grey=True)
    np.testing.assert_array_equal(decode(compressed(png(grey[..., 0]), format), IMAGE, "scene"), grey)


def test_an_exif_orientation_does_not_turn_the_picture():
    """The tag is for viewers; a policy was trained on the sensor's rows."""
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"  # orientation 6: a quarter turn
    tagged = JPEG[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + JPEG[2:]
    assert cv2.imdecode(np.frombuffer(tagged, np.uint8), cv2.IMREAD_COLOR).shape[:2] == (16, 12)  # OpenCV alone would
    np.testing.assert_allclose(decode(compressed(tagged, "jpeg"), IMAGE, "scene").astype(int), RGB, atol=3)


def test_zeros_after_the_end_of_a_jpeg_are_padding():
    """Motion-JPEG cameras fill their transfer buffers up."""
    np.testing.assert_allclose(decode(compressed(JPEG + bytes(500), "jpeg"), IMAGE, "scene").astype(int), RGB, atol=3)


@pytest.mark.parametrize("data, format, words", [
    (PNG, "16UC1; compressedDepth png", ["'16UC1'", "depth", "colour topic"]),
    (PNG, "16UC1; png compressed ", ["'16UC1'", "depth"]),
    (PNG, "mono16; png compressed mono16", ["'mono16'"]),
    (PNG, "8UC3; png compressed bgr8", ["'8UC3'", "no colour order"]),
    (PNG, "tiff", ["'tiff'", "jpeg or png"]),
    (PNG, "h264", ["'h264'", "jpeg or png"]),
    (PNG, "rgb8; png compressed ", ["order", "png compressed bgr8"]),
    (PNG, "bayer_rggb8; png compressed mono8", ["order"]),
    (PNG, "jpeg", ["announces jpeg", "starts as png"]),
    (JPEG, "png", ["announces png", "starts as jpeg"]),
    (b"GIF89a" + bytes(60), "jpeg", ["neither"]),
    (b"", "jpeg", ["neither"]),
    (JPEG[:20], "jpeg", ["20 bytes", "without a frame header"]),
    (PNG[:20], "png", ["20 bytes", "without a frame header"]),
    (png(np.zeros((12, 16), np.uint16)), "png", ["16 bits", "depth", "colour topic"]),
])
def test_what_is_not_a_colour_picture_is_refused(data, format, words):
    with pytest.raises(ImageError) as error:
        decode(compressed(data, format), IMAGE, "scene")
    for word in ["input 'scene'", "allowed", *words]:
        assert word in str(error.value)


@given(st.sampled_from([(JPEG, "jpeg"), (PNG, "png")]), st.data())
def test_a_file_that_breaks_off_is_refused(file, data):
    """OpenCV 4 completes a broken jpeg with grey rows and prints a warning; the policy would act on them."""
    whole, format = file
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ImageError):
        decode(compressed(whole[:cut], format), IMAGE, "scene")


@given(st.sampled_from([(JPEG, "jpeg"), (PNG, "png")]),
       st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4))
def test_a_corrupt_file_gives_a_picture_or_an_image_error(file, changes):
    """A jpeg has no checksum, so some corruption shows as wrong pixels; none may crash the node."""
    whole, format = bytearray(file[0]), file[1]
    for at, value in changes:
        whole[at % len(whole)] = value
    try:
        assert decode(compressed(whole, format), Image(size=(12, 16), resize="stretch"), "scene").shape == (12, 16, 3)
    except ImageError:
        pass


@pytest.mark.parametrize("height, width, words", [
    (20000, 20, "16384 pixels"), (16000, 16000, f"{64 * 2**20} bytes"), (0, 16, "at least 1x1")])
def test_an_absurd_header_is_refused_before_decoding(height, width, words):
    """A few bytes must not be able to ask for gigabytes: the size is read from the header and bounded first."""
    ihdr = b"IHDR" + struct.pack(">II", width, height) + PNG[24:29]
    bomb = PNG[:12] + ihdr + struct.pack(">I", zlib.crc32(ihdr)) + PNG[33:]
    at = JPEG.index(b"\xff\xc0")
    for data, format in ((bomb, "png"), (JPEG[: at + 5] + struct.pack(">HH", height, width) + JPEG[at + 9 :], "jpeg")):
        with pytest.raises(ImageError, match=f"{width}x{height}.*{words}"):
            decode(compressed(data, format), IMAGE, "scene")
