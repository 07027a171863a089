"""How firmly a chunk keeps to the plan (real-time chunking's soft mask): firm, falling, free."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.chunk.splice import SpliceError, soft_mask

shapes = st.tuples(*[st.integers(0, 64)] * 3).map(sorted).filter(lambda shape: shape[2] > 0)


@given(shapes)
def test_firm_then_falling_then_free(shape):
    """A free step among the firm ones would be replanned though it is going to be executed; a firm one beyond the overlap
    would be held to a plan that does not exist."""
    delay, overlap, horizon = shape
    mask = soft_mask(horizon, delay, overlap)
    assert mask.shape == (horizon,) and (mask[:delay] == 1).all() and (mask[overlap:] == 0).all()
    between = mask[delay:overlap]
    assert ((between > 0) & (between < 1)).all() and (np.diff(between) < 0).all()


def test_the_formula_is_the_papers():
    """Equation 5 of arXiv 2506.07339 with H = 8, s = 3 and d = 1: c falls as 4/5, 3/5, 2/5, 1/5."""
    c = np.array([0.8, 0.6, 0.4, 0.2])
    np.testing.assert_allclose(soft_mask(8, 1, 5), [1, *(c * (np.exp(c) - 1) / (np.e - 1)), 0, 0, 0], atol=1e-15)


@pytest.mark.parametrize("shape", [(8, -1, 4), (8, 5, 4), (8, 2, 9)])
def test_a_mask_that_cannot_be_is_refused(shape):
    """More steps will have been executed than were planned: there is nothing to continue, and the caller must know."""
    with pytest.raises(SpliceError, match="0 <= delay <= overlap <= horizon"):
        soft_mask(*shape)
