"""A chunk that is malformed is refused where it is made, with the value found; nothing behind need check shapes."""

import numpy as np
import pytest

from flashrt_ros.chunk.chunk import Chunk, ChunkError

GOOD = dict(names=("a", "b"), positions=np.zeros((3, 2)), start_ns=0, step_ns=10)


@pytest.mark.parametrize("change, said", [
    ({"positions": np.zeros((3, 3))}, r"shape \(3, 3\)"),
    ({"positions": np.zeros((0, 2))}, r"shape \(0, 2\)"),
    ({"positions": np.zeros(2)}, r"shape \(2,\)"),
    ({"names": ("a", "a")}, "named twice"),
    ({"step_ns": 0}, "step_ns is 0"),
    ({"velocities": np.zeros((2, 2))}, r"shape \(2, 2\)"),
    ({"step_ns": 2**62}, "64 bits"),
    ({"frozen_prefix": 4}, "frozen_prefix is 4; it must be from 0 to its 3"),
    ({"frozen_prefix": -1}, "frozen_prefix is -1"),
])
def test_a_malformed_chunk_names_the_value(change, said):
    """A message from another program can hold anything; the first look at it says what is wrong."""
    with pytest.raises(ChunkError, match=said):
        Chunk(**{**GOOD, **change})


def test_a_chunk_knows_its_end():
    """The end is the last step's own time, not one step later: past it nothing was promised."""
    chunk = Chunk(**{**GOOD, "start_ns": 100, "session": 1, "epoch": 2, "seq": 3, "attempt": 4})
    assert (chunk.horizon, chunk.end_ns, chunk.order) == (3, 120, (1, 2, 3, 4))
