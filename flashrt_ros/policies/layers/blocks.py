"""Transformer blocks: of the vision encoder, of the prefix model, of the action expert."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import gelu

from flashrt_ros.policies.layers.attention import MultiQueryAttention, SelfAttention
from flashrt_ros.policies.layers.norm import AdaptiveRMSNorm, RMSNorm

Rope = tuple[torch.Tensor, torch.Tensor]  # cos, sin of the tokens' positions
KeysValues = tuple[torch.Tensor, torch.Tensor]  # each [B, S, head]
Modulations = tuple[torch.Tensor, torch.Tensor]  # of a block's two norms, each [B, 3 width]


class GeGLU(nn.Module):
    """x [..., width] -> gelu(gate(x)) * up(x), back to width (Shazeer, "GLU variants improve transformer", 2020)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(gelu(gate, approximate="tanh") * up)


class ViTBlock(nn.Module):
    """Pre-norm self-attention and MLP, x [B, T, width] -> the same (Dosovitskiy et al., 2021)."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attention = SelfAttention(width, heads)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.down(gelu(self.up(self.norm_2(x)), approximate="tanh"))


class PrefixBlock(nn.Module):
    """One layer of the prefix model. `keys_values` is all that the action expert needs of it."""

    def __init__(self, width: int, heads: int, head: int, hidden: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = RMSNorm(width), RMSNorm(width)
        self.attention = MultiQueryAttention(width, heads, head)
        self.mlp = GeGLU(width, hidden)

    def keys_values(self, x: torch.Tensor, rope: Rope) -> KeysValues:
        return self.attention.keys_values(self.norm_1(x), *rope)

    def forward(self, x: torch.Tensor, rope: Rope, cache: KeysValues, mask: torch.Tensor | None = None) -> torch.Tensor:
        """x [B, S, width] -> the same; cache: this layer's own keys_values(x)."""
        x = x + self.attention(self.norm_1(x), *cache, *rope, mask)
        return x + self.mlp(self.norm_2(x))


class ExpertBlock(nn.Module):
    """One layer of the action expert: its tokens attend to the prefix's cache and to one another."""

    def __init__(self, width: int, heads: int, head: int, hidden: int, condition: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = AdaptiveRMSNorm(width, condition), AdaptiveRMSNorm(width, condition)
        self.attention = MultiQueryAttention(width, heads, head)
        self.mlp = GeGLU(width, hidden)

    def modulations(self, condition: torch.Tensor) -> Modulations:
        """Of both norms, for conditions [B, C]."""
        return self.norm_1.modulation(condition), self.norm_2.modulation(condition)

    def forward(self, x: torch.Tensor, modulations: Modulations, rope: Rope, prefix: KeysValues,
                mask: torch.Tensor | None = None) -> torch.Tensor:
        """x [B, T, width], prefix: keys and values [B, S, head] -> [B, T, width].
        mask: bool [B, S + T], True where a key may be seen."""
        normed, gate = self.norm_1(x, modulations[0])
        keys, values = self.attention.keys_values(normed, *rope)
        keys, values = torch.cat([prefix[0], keys], dim=1), torch.cat([prefix[1], values], dim=1)
        x = x + gate * self.attention(normed, keys, values, *rope, mask)
        normed, gate = self.norm_2(x, modulations[1])
        return x + gate * self.mlp(normed)
