"""Rotary positions and multi-query attention, against their definitions in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.policies.layers.attention import ROPE_BASE, MultiQueryAttention, SelfAttention, rope_table, rotate

HEAD = 16
positions = st.integers(0, 200)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, np.float32))


def turned(x: torch.Tensor, position: int) -> torch.Tensor:
    return rotate(x, *rope_table(torch.tensor([position]), HEAD))


def rope(first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return rope_table(torch.arange(first, first + count), HEAD)


def softmax_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """[B, heads, T, head] each, float64, written out."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], -torch.inf)
    return scores.softmax(-1) @ value


def expanded(layer: MultiQueryAttention, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, cos: torch.Tensor,
             sin: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """The same by ordinary multi-head attention in float64, with keys and values copied for each head."""
    batch, tokens, _ = x.shape
    query = torch.nn.functional.linear(x.double(), layer.query.weight.double())
    query = query.view(batch, tokens, layer.heads, layer.head).transpose(1, 2)
    query = rotate(query, cos.double(), sin.double())
    key, value = (kv.double()[:, None].expand(-1, layer.heads, -1, -1) for kv in (keys, values))
    mixed = softmax_attention(query, key, value, mask).transpose(1, 2).reshape(batch, tokens, -1)
    return torch.nn.functional.linear(mixed, layer.out.weight.double())


@pytest.fixture
def layer() -> MultiQueryAttention:
    torch.manual_seed(0)
    return MultiQueryAttention(24, heads=3, head=HEAD)


@given(positions, positions, st.integers(0, 200), st.integers(0, 99))
def test_a_score_depends_on_the_distance_alone(i, j, shift, seed):
    """What rotary positions are for: the expert's tokens stand behind the prefix wherever that ends."""
    query, key = normal(1, HEAD, seed=seed), normal(1, HEAD, seed=seed + 1)
    here, there = (turned(query, i + s) @ turned(key, j + s).T for s in (0, shift))
    torch.testing.assert_close(here, there, rtol=0, atol=2e-4)


@given(positions, st.integers(0, 99))
def test_turning_keeps_lengths_and_nothing_turns_at_zero(position, seed):
    x = normal(3, 1, HEAD, seed=seed)
    torch.testing.assert_close(turned(x, position).norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned(x, 0), x)


def test_the_first_half_pairs_with_the_second():
    """Not even with odd: weights of Gemma's and Llama's kind, pi0.5 among them, are laid out this way."""
    for i in range(HEAD // 2):
        x = torch.zeros(1, HEAD)
        x[0, i] = 1
        angle = 7 * ROPE_BASE ** (-2 * i / HEAD)
        wanted = torch.zeros(1, HEAD)
        wanted[0, i], wanted[0, i + HEAD // 2] = np.cos(angle), np.sin(angle)
        torch.testing.assert_close(turned(x, 7), wanted)


@pytest.mark.parametrize("masked", [False, True])
def test_multi_query_is_multi_head_with_copied_keys(layer, masked):
    """The heads stand in line as queries of one head; the layout must not mix them up."""
    x, seen = normal(2, 5, 24), normal(2, 9, 24, seed=1)
    mask = torch.from_numpy(np.random.default_rng(2).random((2, 9)) < 0.6) if masked else None
    keys, values = layer.keys_values(seen, *rope(0, 9))
    got = layer(x, keys, values, *rope(9, 5), mask)
    torch.testing.assert_close(got.double(), expanded(layer, x, keys, values, *rope(9, 5), mask), rtol=1e-5, atol=1e-6)


@given(st.integers(1, 8))
def test_a_cache_made_in_parts_is_the_cache_made_at_once(cut):
    """The prefix's keys are computed once and the action's at every decision; together they must be what a single pass
    gives."""
    torch.manual_seed(0)
    layer = MultiQueryAttention(24, heads=3, head=HEAD)
    seen = normal(2, 9, 24, seed=1)
    whole = layer.keys_values(seen, *rope(0, 9))
    parts = layer.keys_values(seen[:, :cut], *rope(0, cut)), layer.keys_values(seen[:, cut:], *rope(cut, 9 - cut))
    joined = [torch.cat(part, dim=1) for part in zip(*parts)]
    for got, wanted in zip(joined, whole):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)
    x = normal(2, 5, 24)
    torch.testing.assert_close(layer(x, *joined, *rope(9, 5)), layer(x, *whole, *rope(9, 5)), rtol=1e-5, atol=1e-6)


def test_a_hidden_key_has_no_influence(layer):
    """Padding behind a short instruction may hold anything, large numbers of an old one too."""
    x, keys, values = normal(2, 5, 24), normal(2, 9, HEAD, seed=1), normal(2, 9, HEAD, seed=2)
    mask = torch.arange(9) < 6
    mask = torch.stack([mask, ~mask])
    first = layer(x, keys, values, *rope(9, 5), mask)
    keys[~mask], values[~mask] = 1e4, -1e4
    assert torch.equal(layer(x, keys, values, *rope(9, 5), mask), first)
    keys[:, 7] += 1  # the second row sees it
    changed = layer(x, keys, values, *rope(9, 5), mask) != first
    assert not changed[0].any() and changed[1].any()


def test_a_mask_that_hides_nothing_changes_nothing(layer):
    x, keys, values = normal(2, 5, 24), normal(2, 9, HEAD, seed=1), normal(2, 9, HEAD, seed=2)
    everything = torch.ones(2, 9, dtype=torch.bool)
    torch.testing.assert_close(layer(x, keys, values, *rope(9, 5), everything), layer(x, keys, values, *rope(9, 5)))


def test_self_attention_is_its_formula():
    torch.manual_seed(0)
    layer, x = SelfAttention(24, heads=3), normal(2, 5, 24)
    query, key, value = (
        torch.nn.functional.linear(x.double(), w.double(), b.double()).view(2, 5, 3, 8).transpose(1, 2)
        for w, b in zip(layer.query_key_value.weight.chunk(3), layer.query_key_value.bias.chunk(3)))
    mixed = softmax_attention(query, key, value, None).transpose(1, 2).reshape(2, 5, 24)
    wanted = torch.nn.functional.linear(mixed, layer.out.weight.double(), layer.out.bias.double())
    torch.testing.assert_close(layer(x).double(), wanted, rtol=1e-5, atol=1e-6)
