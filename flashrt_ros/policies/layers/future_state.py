"""Continuing a plan by deciding for where it ends: the state is rolled forward over the steps that will have been executed
before the decision counts, and the policy decides from there (Tang et al., "VLASH: Real-Time VLAs via Future-State-Aware
Asynchronous Inference", 2025, arXiv 2512.01031).

For a policy whose action reads the state and the vision's age: seen from the later moment the state is the plan's, and the
same vision is older. Nothing is trained for it, and it costs nothing; it needs a policy that was trained on stale vision.

Three things are ours. The state ahead is what is commanded there, not the measured state moved by as much: a chunk that began
where an arm lags behind would call it back each time. Joints whose state says what they hold (a gripper's) are taken as
measured, for no plan knows at which width an object will stop them; of their rows those are left out that lead to where the
plan ends. And beyond the settled rows the chunk leaves the plan as gradually as the soft mask of real-time chunking (arXiv
2506.07339) says: two decisions that agree in position where they meet may still disagree in direction.
"""

from __future__ import annotations

from typing import Callable

import torch


def decide_ahead(decide: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], state: torch.Tensor, age: torch.Tensor,
                 plan: torch.Tensor, firmness: torch.Tensor, step_s: float, holding: torch.Tensor) -> torch.Tensor:
    """A chunk [B, H, N] that is the plan [B, H, N] over its settled rows, the leading ones of firmness 1 [B, H], and from there on,
    with the weight 1 - firmness, what decide(state [B, N], age [B, 1]) -> [B, H, N] says for the first moment that is not settled.

    step_s: between rows. holding: bool [N], the joints whose state says what they hold. Without settled rows it is
    decide(state, age). One shape whatever is settled; no host synchronisation.
    """
    horizon = plan.shape[1]
    settled = (firmness >= 1).sum(dim=1, keepdim=True)  # [B, 1]
    begun = settled > 0
    last = settled.clamp(max=horizon - 1)[..., None].expand(-1, -1, plan.shape[2])
    end = plan.gather(1, last)  # [B, 1, N]
    made = decide(torch.where(begun & ~holding, end[:, 0], state), age + settled * step_s)
    passed = torch.where(begun & holding, (made - end).abs().argmin(dim=1), 0)  # [B, N]
    since = torch.arange(horizon, device=plan.device)[None, :, None] - settled[..., None]  # [B, H, 1]; negative: settled
    row = (since + passed[:, None]).clamp(0, horizon - 1)
    made = made.gather(1, row)
    firm = torch.where(holding & (since >= 0), 0.0, firmness[..., None])
    return torch.where(since < 0, plan, made + firm * (plan - made))
