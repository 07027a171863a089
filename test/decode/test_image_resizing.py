"""Pins how a camera's picture becomes the contract's size; training and running must do the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_messages import picture, raw

from flashrt_ros.contract.schema import Image
from flashrt_ros.decode.images import ImageError, decode

SIDES = st.integers(1, 40)


@given(SIDES, SIDES, SIDES, SIDES)
def test_padding_keeps_the_aspect_and_centres_the_picture(height, width, h, w):
    """A white picture of any size on a black border: as large as fits, centred to a pixel, and nowhere grey."""
    decoded = decode(raw(np.full((height, width, 3), 255, np.uint8), "rgb8"), Image(size=(h, w), resize="pad"), "scene")
    assert decoded.shape == (h, w, 3)
    rows, columns = (np.flatnonzero(decoded[..., 0].any(axis=axis)) for axis in (1, 0))
    inner = decoded[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    assert (inner == 255).all() and inner.size == np.count_nonzero(decoded)
    scale = min(h / height, w / width)
    assert abs(len(rows) - max(1, height * scale)) <= 0.5 and abs(len(columns) - max(1, width * scale)) <= 0.5
    for used, side in ((rows, h), (columns, w)):
        assert abs(used[0] - (side - 1 - used[-1])) <= 1


@given(SIDES, SIDES, SIDES, SIDES, st.integers(0, 255))
def test_stretching_fills_the_whole_size(height, width, h, w, value):
    message = raw(np.full((height, width, 3), value, np.uint8), "rgb8")
    decoded = decode(message, Image(size=(h, w), resize="stretch"), "scene")
    assert decoded.shape == (h, w, 3) and (decoded == value).all()


def test_shrinking_averages_instead_of_picking_pixels():
    """One bright pixel in each 8x8 block counts as its 64th part; interpolation between the nearest pixels misses it,
    and fine texture would flicker as the camera moves."""
    points = np.zeros((64, 64, 3), np.uint8)
    points[::8, ::8] = 255
    decoded = decode(raw(points, "rgb8"), Image(size=(8, 8)), "scene")
    np.testing.assert_array_equal(decoded, np.full((8, 8, 3), round(255 / 64), np.uint8))


def test_exact_refuses_another_size_and_names_both():
    """`exact` is for policies that must not see resampled pixels: it may never resize quietly."""
    image = Image(size=(96, 128), resize="exact")
    with pytest.raises(ImageError, match=r"'wrist'.*64x48.*128x96.*resize: pad"):
        decode(raw(picture(0, 48, 64), "rgb8"), image, "wrist")
    np.testing.assert_array_equal(decode(raw(picture(0, 96, 128), "rgb8"), image, "wrist"), picture(0, 96, 128))
