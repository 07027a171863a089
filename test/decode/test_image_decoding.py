"""Pins that a raw image decodes to the picture that its fields describe: a swapped channel or a skewed row is a policy
that sees another world, and nothing downstream can notice it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_messages import CONTAINERS, ENCODE, picture, raw

from flashrt_ros.contract.schema import Image
from flashrt_ros.decode.images import ENCODINGS, decode

SIDES = st.integers(1, 24)
# BT.601, limited range (ITU-R BT.601, 8 bits): Y, U, V of the pure colours.
YUV = {
    (0, 0, 0): (16, 128, 128),
    (255, 255, 255): (235, 128, 128),
    (255, 0, 0): (81, 90, 240),
    (0, 0, 255): (41, 240, 110),
}
BAYER = ("rggb", "bggr", "gbrg", "grbg")


@given(st.sampled_from(sorted(ENCODE)), st.sampled_from(sorted(CONTAINERS)), SIDES, SIDES, st.integers(0, 7),
       st.integers(0, 1), st.integers(0, 2**32 - 1))
def test_any_encoding_step_and_flag_decodes_to_the_same_picture(encoding, container, height, width, padding, big, seed):
    """Row padding, the endianness flag (8-bit samples have no byte order) and the buffer's type change no pixel."""
    rgb = picture(seed, height, width, grey=encoding == "mono8")
    pixels = ENCODE[encoding](rgb, picture(seed + 1, height, width)[..., :1])
    message = raw(pixels, encoding, padding, big, container)
    decoded = decode(message, Image(size=(height, width), resize="exact"), "scene")
    assert decoded.dtype == np.uint8
    np.testing.assert_array_equal(decoded, rgb)


@given(st.sampled_from(sorted(ENCODE)), SIDES, SIDES, SIDES, SIDES, st.sampled_from(["pad", "stretch"]),
       st.integers(0, 2**32 - 1))
def test_resizing_does_not_depend_on_the_encoding(encoding, height, width, h, w, resize, seed):
    """The codec resizes before it converts; both orders give one picture, so two cameras of one scene agree."""
    rgb = picture(seed, height, width, grey=True)  # grey: the one kind that every encoding can carry
    message = raw(ENCODE[encoding](rgb, rgb[..., :1]), encoding)
    image = Image(size=(h, w), resize=resize)
    np.testing.assert_array_equal(decode(message, image, "scene"), decode(raw(rgb, "rgb8"), image, "scene"))


def test_colour_channels_survive_a_resize():
    """As above for colours: the channels are not mixed or swapped by resizing before the conversion."""
    rgb, image = picture(3, 48, 64), Image(size=(20, 20))
    expected = decode(raw(rgb, "rgb8"), image, "scene")
    for encoding in ("bgr8", "rgba8", "bgra8"):
        decoded = decode(raw(ENCODE[encoding](rgb, rgb[..., :1]), encoding, padding=5), image, "scene")
        np.testing.assert_array_equal(decoded, expected, encoding)


def test_an_rgb8_image_of_the_right_size_is_not_copied():
    """The common case of a simulator costs nothing: the result is the message's own memory, whatever the step."""
    for padding in (0, 6):
        message = raw(picture(0, 8, 8), "rgb8", padding)
        decoded = decode(message, Image(size=(8, 8)), "scene")
        assert np.shares_memory(decoded, np.frombuffer(message.data, np.uint8))


@pytest.mark.parametrize(
    "encoding, order", [("uyvy", "UYVY"), ("yuv422", "UYVY"), ("yuyv", "YUYV"), ("yuv422_yuy2", "YUYV")])
@pytest.mark.parametrize("colour", sorted(YUV))
def test_yuv_names_give_the_byte_order_of_their_fourcc(encoding, order, colour):
    """Two orders are in use under four names; taken for one another they give plausible pictures in wrong colours."""
    samples = dict(zip("YUV", YUV[colour]))
    pair, chroma = [], iter("UV")
    for letter in order:
        pair.append(samples["Y"] if letter == "Y" else samples[next(chroma)])
    pixels = np.tile(np.array(pair, np.uint8), (4, 3)).reshape(4, 6, 2)
    decoded = decode(raw(pixels, encoding, padding=3), Image(size=(4, 6), resize="exact"), "scene")
    np.testing.assert_allclose(decoded.astype(int), np.broadcast_to(colour, (4, 6, 3)), atol=2)


@pytest.mark.parametrize("pattern", BAYER)
def test_bayer_names_give_the_pattern_of_the_first_two_rows(pattern):
    """OpenCV names patterns by another corner than ROS does; a mosaic of one colour shows which one was taken."""
    colour = {"r": 200, "g": 100, "b": 50}
    tile = np.array([colour[letter] for letter in pattern], np.uint8).reshape(2, 2)
    decoded = decode(raw(np.tile(tile, (4, 5)), f"bayer_{pattern}8"), Image(size=(8, 10), resize="exact"), "scene")
    np.testing.assert_array_equal(decoded, np.broadcast_to((200, 100, 50), (8, 10, 3)))


def test_every_accepted_encoding_is_pinned_here():
    """An encoding that is added to the codec without a reference in this file would be a guess."""
    assert set(ENCODINGS) == {*ENCODE, "uyvy", "yuv422", "yuyv", "yuv422_yuy2", *(f"bayer_{p}8" for p in BAYER)}
