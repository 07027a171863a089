"""Flow matching (Lipman et al., 2023) as VLA action heads use it (pi0, Black et al., 2024): at t = 1 all is noise, at
t = 0 the action; between them a straight line, whose direction the network learns."""

from __future__ import annotations

from typing import Callable

import torch


def time_features(t: torch.Tensor, width: int) -> torch.Tensor:
    """Sines and cosines [B, width] of t [B] in [0, 1], with periods from 0.004 to 4. width: even."""
    period = torch.logspace(-2.4, 0.6, width // 2, device=t.device, dtype=torch.float32)
    angle = t.float()[:, None] * (2 * torch.pi / period)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def integrate(velocity: Callable[[torch.Tensor, int], torch.Tensor], noise: torch.Tensor, steps: int) -> torch.Tensor:
    """The action [B, ...] from noise [B, ...] by Euler steps i = 0.. of velocity(x, i), each at t = 1 - i / steps."""
    x = noise
    for i in range(steps):
        x = x - velocity(x, i) / steps
    return x
