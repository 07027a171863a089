"""Pins what the simulator's cameras publish."""

from array import array
from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from image_messages import header, picture

from flashrt_ros.contract.schema import Image
from flashrt_ros.decode.images import decode, encode


def blank():
    return SimpleNamespace(header=header(), data=array("B"))


@given(st.integers(1, 24), st.integers(1, 24), st.integers(0, 2**32 - 1), st.booleans())
def test_decoding_gives_back_what_was_encoded(height, width, seed, flipped):
    """Also for views, such as the flipped rows that a renderer hands out."""
    rgb = picture(seed, height, width)[:: -1 if flipped else 1]
    message = encode(rgb, blank(), "scene_optical", "a stamp")
    assert (message.encoding, message.step, message.header.frame_id) == ("rgb8", 3 * width, "scene_optical")
    assert message.header.stamp == "a stamp"
    np.testing.assert_array_equal(decode(message, Image(size=(height, width), resize="exact"), "scene"), rgb)


def test_a_kept_message_keeps_its_buffer():
    """30 frames a second of 900 KiB: reusing the buffer is half the cost of publishing. A new size gets a new one."""
    message = encode(picture(0, 4, 6), blank(), "scene", None)
    buffer = message.data
    assert encode(picture(1, 4, 6), message, "scene", None).data is buffer
    np.testing.assert_array_equal(np.array(buffer), picture(1, 4, 6).ravel())
    assert len(encode(picture(2, 5, 6), message, "scene", None).data) == 90
    assert len(buffer) == 72  # a message that is still in use elsewhere is not resized under it
