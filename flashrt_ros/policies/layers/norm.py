"""Root-mean-square normalisation, plain and adaptive."""

from __future__ import annotations

import torch
from torch import nn

EPSILON = 1e-6


def rms_normalise(x: torch.Tensor) -> torch.Tensor:
    """x [..., D] divided by its root mean square over the last axis, computed in float32."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON)).to(x.dtype)


class RMSNorm(nn.Module):
    """x [..., D] -> rms_normalise(x) * (1 + weight), weight [D] zero at first (Zhang and Sennrich, 2019; the offset of
    one as in Gemma)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_normalise(x) * (1 + self.weight)


class AdaptiveRMSNorm(nn.Module):
    """RMS normalisation whose scale and shift, and the gate of the branch behind it, follow a condition (pi0.5, Physical
    Intelligence, 2025; after adaLN-zero of DiT, Peebles and Xie, 2023). All three are zero at first.

    `modulation` [B, condition] -> [B, 3 width] is called apart from the norm: for a few flow steps one call serves all.
    """

    def __init__(self, width: int, condition: int) -> None:
        super().__init__()
        self.modulation = nn.Linear(condition, 3 * width)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def forward(self, x: torch.Tensor, modulation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x [B, T, D], modulation [B, 3 D] -> (normed [B, T, D], gate [B, 1, D] for the branch's residual)."""
        scale, shift, gate = modulation[:, None].chunk(3, dim=-1)
        return rms_normalise(x) * (1 + scale) + shift, gate
