"""RMS normalisation, plain and adaptive, against its formula in float64."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.policies.layers.norm import EPSILON, AdaptiveRMSNorm, RMSNorm

shapes = st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 64))
scales = st.sampled_from([1e-3, 1.0, 300.0])


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, np.float32))


def reference(x: torch.Tensor) -> torch.Tensor:
    """float64, over the last axis."""
    x = x.double()
    return x / (x.square().mean(-1, keepdim=True) + EPSILON).sqrt()


@given(shapes, scales, st.integers(0, 99))
def test_the_norm_is_its_formula(shape, scale, seed):
    """Of whatever magnitude: a residual stream grows from layer to layer."""
    x, norm = scale * normal(*shape, seed=seed), RMSNorm(shape[-1])
    torch.nn.init.normal_(norm.weight)
    torch.testing.assert_close(norm(x).double(), reference(x) * (1 + norm.weight.double()), rtol=1e-5, atol=1e-6)


@given(shapes, scales, st.integers(0, 99))
def test_the_adaptive_norm_is_its_formula(shape, scale, seed):
    """Scale, shift and gate stand in this order, and hold for all tokens of a batch row: trained weights rely on it."""
    batch, _, width = shape
    x, modulation = scale * normal(*shape, seed=seed), normal(batch, 3 * width, seed=seed + 1)
    normed, gate = AdaptiveRMSNorm(width, 8)(x, modulation)
    by, to, through = (m[:, None].double() for m in modulation.split(width, dim=-1))
    torch.testing.assert_close(normed.double(), reference(x) * (1 + by) + to, rtol=1e-5, atol=1e-5)
    assert torch.equal(gate.double(), through)


def test_untrained_modulation_is_the_plain_norm_with_a_closed_gate():
    """So a new block adds nothing until training opens it, whatever the condition."""
    x, norm = normal(2, 5, 16), AdaptiveRMSNorm(16, 8)
    normed, gate = norm(x, norm.modulation(normal(2, 8, seed=1)))
    assert torch.equal(normed, RMSNorm(16)(x)) and gate.shape == (2, 1, 16) and not gate.any()


def test_a_zero_token_stays_zero():
    """A blank is no division by zero."""
    assert torch.equal(RMSNorm(8)(torch.zeros(1, 2, 8)), torch.zeros(1, 2, 8))


def test_half_precision_is_normed_in_single():
    """The square of 300 is beyond float16."""
    x = (300 * normal(2, 3, 32)).half()
    normed = RMSNorm(32).half()(x)
    assert normed.dtype == torch.float16
    torch.testing.assert_close(normed.double(), reference(x), rtol=2e-3, atol=2e-3)
