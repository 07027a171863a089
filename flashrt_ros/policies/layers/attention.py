"""Multi-query attention with rotary positions over a static key/value cache, and the plain kind of a vision transformer.

Multi-query (Shazeer, 2019): all heads share one key and one value per token. So heads can stand in line as further
queries of a single head, and nothing is expanded.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

ROPE_BASE = 10_000.0


def rope_table(positions: torch.Tensor, head: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(cos, sin), each float32 [T, head / 2], for integer positions [T] (rotary embedding, Su et al., 2021)."""
    frequency = ROPE_BASE ** (-torch.arange(0, head, 2, device=positions.device, dtype=torch.float32) / head)
    angle = positions.float()[:, None] * frequency
    return angle.cos(), angle.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [..., T, head] turned by its position's angles; the first half pairs with the second (as in Gemma and Llama)."""
    a, b = x.chunk(2, dim=-1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class MultiQueryAttention(nn.Module):
    """width -> heads x head for queries, one head for keys and values, and back to width."""

    def __init__(self, width: int, heads: int, head: int) -> None:
        super().__init__()
        self.heads, self.head = heads, head
        self.query = nn.Linear(width, heads * head, bias=False)
        self.key_value = nn.Linear(width, 2 * head, bias=False)
        self.out = nn.Linear(heads * head, width, bias=False)

    def keys_values(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x [B, T, width] -> (keys, values), each [B, T, head], keys rotated: what a cache holds."""
        key, value = self.key_value(x).chunk(2, dim=-1)
        return rotate(key, cos, sin), value

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor,
                mask: torch.Tensor | None = None) -> torch.Tensor:
        """x [B, T, width] attends to keys and values [B, S, head]. cos, sin: of x's positions.
        mask: bool [B, S], True where a key may be seen."""
        batch, tokens, _ = x.shape
        query = self.query(x).view(batch, tokens, self.heads, self.head).transpose(1, 2)  # [B, heads, T, head]
        query = rotate(query, cos, sin).reshape(batch, 1, self.heads * tokens, self.head)
        seen = None if mask is None else mask[:, None, None, :]
        mixed = scaled_dot_product_attention(query, keys[:, None], values[:, None], attn_mask=seen)
        mixed = mixed.view(batch, self.heads, tokens, self.head).transpose(1, 2).reshape(batch, tokens, -1)
        return self.out(mixed)


class SelfAttention(nn.Module):
    """Plain multi-head self-attention, x [B, T, width] -> [B, T, width]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.query_key_value(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return self.out(scaled_dot_product_attention(*parts).transpose(1, 2).reshape(batch, tokens, width))
