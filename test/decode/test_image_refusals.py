"""Pins that a raw image which is not the picture it claims to be is refused, by name, with the way out: a policy that
is fed a guessed picture moves a robot."""

from array import array
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_messages import header, picture, raw

from flashrt_ros.contract.schema import Image
from flashrt_ros.errors import FlashRTError
from flashrt_ros.decode.images import ENCODINGS, ImageError, decode, encode

IMAGE = Image(size=(8, 8))


def message(**changed):
    fields = vars(raw(picture(0, 6, 10), "rgb8")) | changed
    return SimpleNamespace(**fields)


@pytest.mark.parametrize("changed, words", [
    ({"encoding": "16UC1"}, ["'16UC1'", "depth", "rgb8", "colour topic"]),
    ({"encoding": "32FC1"}, ["'32FC1'", "depth", "colour topic"]),
    ({"encoding": "mono16"}, ["'mono16'", "16-bit"]),
    ({"encoding": "8UC3"}, ["'8UC3'", "no colour order", "camera driver"]),
    ({"encoding": "nv21"}, ["'nv21'", "not supported", "image_proc"]),
    ({"encoding": "RGB8"}, ["'RGB8'", "not supported"]),
    ({"encoding": ""}, ["''", "not supported"]),
    ({"height": 0}, ["10x0", "at least 1x1"]),
    ({"width": 0}, ["0x6", "at least 1x1"]),
    ({"step": 29}, ["step 29", "10 rgb8 pixels", "at least 30"]),
    ({"step": 31}, ["180 bytes", "height 6 * step 31 = 186", "truncated"]),
    ({"height": 7}, ["180 bytes", "height 7 * step 30 = 210"]),
    ({"data": array("B", bytes(179))}, ["179 bytes", "= 180"]),
    ({"data": array("B", bytes(181))}, ["181 bytes", "= 180"]),
    ({"data": array("B")}, ["0 bytes", "= 180"]),
    ({"width": 16385, "step": 3 * 16385, "height": 1}, ["16385x1", "16384 pixels"]),
    ({"height": 16385}, ["10x16385", "16384 pixels"]),
    ({"width": 16384, "height": 16384, "step": 3 * 16384}, ["16384x16384", f"{64 * 2**20} bytes"]),
    ({"height": 16384, "step": 2**32 - 1}, ["10x16384", f"{64 * 2**20} bytes"]),
    ({"encoding": "yuyv", "width": 9, "step": 18, "data": array("B", bytes(108))}, ["width 9", "yuyv", "even"]),
    ({"encoding": "bayer_rggb8", "width": 2, "step": 2, "data": array("B", bytes(12))}, ["2x6", "mosaic", "3x3"]),
])
def test_a_broken_image_is_refused_with_its_value_and_the_way_out(changed, words):
    """Sizes are judged by the header alone, before anything of that size is touched."""
    with pytest.raises(ImageError) as error:
        decode(message(**changed), IMAGE, "scene")
    for word in ["input 'scene'", "allowed", *words]:
        assert word in str(error.value)
    assert isinstance(error.value, FlashRTError)


def test_the_unchanged_message_is_accepted():
    """The table above would prove nothing if its base were refused."""
    assert decode(message(), IMAGE, "scene").shape == (8, 8, 3)


@given(st.sampled_from([*ENCODINGS, "16UC1", "8UC4"]), st.integers(0, 9), st.integers(0, 9), st.integers(0, 40),
       st.integers(0, 400))
def test_no_header_makes_anything_but_a_picture_or_an_image_error(encoding, height, width, step, size):
    """A driver's bug must come out as a counted refusal, not as a crash of the callback or a read past the buffer."""
    fields = {"encoding": encoding, "height": height, "width": width, "step": step, "data": bytes(size)}
    try:
        assert decode(message(**fields), IMAGE, "scene").shape == (8, 8, 3)
    except ImageError:
        pass


@pytest.mark.parametrize("shape, dtype", [
    ((4, 4, 3), np.float32), ((4, 4), np.uint8), ((4, 4, 4), np.uint8), ((0, 4, 3), np.uint8)])
def test_only_rgb_pictures_are_published(shape, dtype):
    """A float picture written as bytes would be noise that passes every later check."""
    with pytest.raises(ImageError, match=r"'scene_optical'.*uint8 \[H, W, 3\]"):
        encode(np.zeros(shape, dtype), SimpleNamespace(header=header(), data=array("B")), "scene_optical", None)
