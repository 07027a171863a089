"""Flow matching that continues a plan: real-time chunking (Black, Galliker and Levine, "Real-Time Execution of Action
Chunking Flow Policies", 2025, arXiv 2506.07339), by pseudo-inverse guidance (Song et al., ICLR 2023; Pokle et al., 2024).

At every flow step the action that the present velocity leads to is compared with the plan, and the difference, weighted by
how firm the plan is, is carried back through the network. Nothing is trained for it; it costs a backward pass per step.
"""

from __future__ import annotations

from typing import Callable

import torch

GUIDANCE_LIMIT = 5.0  # the paper's beta: keeps few-step integration stable, where the exact gain goes to infinity


def guidance_gain(t: float) -> float:
    """How hard the plan pulls at flow time t (1: noise, 0: action; the paper's tau is 1 - t)."""
    tau = 1 - t
    if tau <= 0:
        return GUIDANCE_LIMIT
    variance = t**2 / (tau**2 + t**2)
    return min(GUIDANCE_LIMIT, t / (tau * variance)) if variance > 0 else GUIDANCE_LIMIT


def integrate_guided(velocity: Callable[[torch.Tensor, int], torch.Tensor], noise: torch.Tensor, steps: int,
                     plan: torch.Tensor, firmness: torch.Tensor) -> torch.Tensor:
    """As flow.integrate, towards plan [B, H, N] where firmness [B, H] says so: 1 is held on to, 0 is free.

    With all firmness 0 it is flow.integrate. The tensors must not be inference tensors: gradients are taken.
    """
    x, weight = noise, firmness[..., None]
    for i in range(steps):
        t = 1 - i / steps
        with torch.enable_grad():
            here = x.detach().requires_grad_(True)
            v = velocity(here, i)
            leads_to = here - t * v
        (pull,) = torch.autograd.grad(leads_to, here, (plan - leads_to.detach()) * weight)
        x = x - (v.detach() - guidance_gain(t) * pull) / steps
    return x
