"""A chunk over the wire is the same chunk: what is lost on the way the player cannot know."""

from dataclasses import fields, replace

import numpy as np
import pytest

from flashrt_ros.chunk.chunk import Chunk, ChunkError, Cursor
from flashrt_ros.ros.convert import chunk_from_message, chunk_message

CHUNK = Chunk(("a", "b"), np.array([[0.1, 0.2], [0.3, -0.4], [0.5, 0.6]]), 5_000_000_123, 20_000_000, np.full((3, 2), 0.7), session=2**63,
              epoch=3, seq=4, attempt=1, offset_ns=-40_000_000, base=Cursor(7, 8, 9, 1, 2, 3.25, 4_000_000), frozen_prefix=2)


@pytest.mark.parametrize("chunk", [CHUNK, replace(CHUNK, velocities=None, frozen_prefix=0)])
def test_every_field_arrives(chunk):
    got = chunk_from_message(chunk_message(chunk))
    for field in fields(Chunk):
        np.testing.assert_array_equal(getattr(got, field.name), getattr(chunk, field.name), err_msg=field.name)


def test_a_prefix_longer_than_the_chunk_is_malformed():
    message = chunk_message(CHUNK)
    message.frozen_prefix = 4
    with pytest.raises(ChunkError, match="frozen_prefix is 4"):
        chunk_from_message(message)
