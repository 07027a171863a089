"""The blocks over attention and norm: what each adds, and to whom its tokens attend."""

import numpy as np
import pytest
import torch

from flashrt_ros.policies.layers.attention import rope_table
from flashrt_ros.policies.layers.blocks import ExpertBlock, GeGLU, PrefixBlock, ViTBlock

WIDTH, HEADS, HEAD, CONDITION = 24, 3, 16, 10


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, np.float32))


def rope(first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return rope_table(torch.arange(first, first + count), HEAD)


@pytest.fixture
def expert() -> ExpertBlock:
    torch.manual_seed(0)
    return ExpertBlock(WIDTH, HEADS, HEAD, 32, CONDITION)


@pytest.fixture
def prefix() -> tuple[torch.Tensor, torch.Tensor]:
    return normal(2, 9, HEAD, seed=1), normal(2, 9, HEAD, seed=2)


def test_geglu_is_its_formula():
    """gelu (in the form by tanh) of the first half times the second half."""
    torch.manual_seed(0)
    layer, x = GeGLU(WIDTH, 40), normal(2, 5, WIDTH)
    gate, up = torch.nn.functional.linear(x.double(), layer.gate_up.weight.double()).chunk(2, dim=-1)
    gelu = gate / 2 * (1 + torch.tanh((2 / np.pi) ** 0.5 * (gate + 0.044715 * gate**3)))
    torch.testing.assert_close(layer(x).double(), (gelu * up) @ layer.down.weight.double().T, rtol=1e-5, atol=1e-6)


def test_an_untrained_expert_block_is_the_identity(expert, prefix):
    """Its gates are closed: a deep stack of new blocks starts as a shallow one."""
    x, condition = normal(2, 5, WIDTH), normal(2, CONDITION, seed=3)
    assert torch.equal(expert(x, expert.modulations(condition), rope(9, 5), prefix), x)


def test_an_expert_block_sees_the_prefix_and_all_of_its_own_tokens(expert, prefix):
    """The whole chunk is denoised together, so there is no causal mask; what the mask hides is not seen."""
    modulations, x = (normal(2, 3 * WIDTH, seed=4), normal(2, 3 * WIDTH, seed=5)), normal(2, 5, WIDTH)
    mask = torch.ones(2, 9 + 5, dtype=torch.bool)
    mask[:, 3] = False

    def first_token(x: torch.Tensor, prefix) -> torch.Tensor:
        return expert(x, modulations, rope(9, 5), prefix, mask)[:, 0]

    before = first_token(x, prefix)
    for part in prefix:
        changed = part.clone()
        changed[:, 3] = 1e4
        assert torch.equal(first_token(x, tuple(changed if p is part else p for p in prefix)), before)
        changed[:, 4] += 1
        assert not torch.allclose(first_token(x, tuple(changed if p is part else p for p in prefix)), before)
    later = x.clone()
    later[:, 4] += 1
    assert not torch.allclose(first_token(later, prefix), before)


def test_a_prefix_block_attends_by_its_own_cache():
    """What the expert is handed is what the prefix itself attended to."""
    torch.manual_seed(0)
    block, x = PrefixBlock(WIDTH, HEADS, HEAD, 32), normal(2, 9, WIDTH)
    cache = block.keys_values(x, rope(0, 9))
    assert [part.shape for part in cache] == [(2, 9, HEAD)] * 2
    middle = x + block.attention(block.norm_1(x), *cache, *rope(0, 9))
    assert torch.equal(block(x, rope(0, 9), cache), middle + block.mlp(block.norm_2(middle)))


@pytest.mark.parametrize("kind", ["vit", "prefix", "expert"])
def test_rows_of_a_batch_do_not_mix(kind, expert):
    """A batch is so many worlds at once; one must not see another's table."""
    torch.manual_seed(0)
    x, modulations = normal(3, 5, WIDTH), (normal(3, 3 * WIDTH, seed=4), normal(3, 3 * WIDTH, seed=5))
    keys_values = normal(3, 9, HEAD, seed=1), normal(3, 9, HEAD, seed=2)
    vit, prefix = ViTBlock(WIDTH, HEADS, 32), PrefixBlock(WIDTH, HEADS, HEAD, 32)

    def run(rows: slice) -> torch.Tensor:
        if kind == "vit":
            return vit(x[rows])
        if kind == "prefix":
            return prefix(x[rows], rope(0, 5), prefix.keys_values(x[rows], rope(0, 5)))
        return expert(x[rows], tuple(m[rows] for m in modulations), rope(9, 5), tuple(kv[rows] for kv in keys_values))

    together = run(slice(None))
    for i in range(3):
        torch.testing.assert_close(run(slice(i, i + 1)), together[i : i + 1], rtol=1e-5, atol=1e-5)
