"""The network in training: its parameters, their running average, and the optimiser. torch only."""

from __future__ import annotations

from contextlib import nullcontext
from copy import deepcopy

import torch

from flashrt_ros.policies.tabletop_vla_net import TabletopVLA
from flashrt_ros.train.losses import Heads, losses
from flashrt_ros.train.recipe import Recipe

HEADS = "heads."  # prefix of the training heads' names among the parameters
SCALE_FLOOR = 2e-3  # rad or m

Tensors = dict[str, torch.Tensor]


class Learner:
    """average: the network whose parameters are the running average: it drives in training, and is what becomes the
    policy. precision: the context in which the networks are to run. steps: taken so far, over all legs."""

    def __init__(self, recipe: Recipe, seed: int, device: torch.device) -> None:
        torch.manual_seed(seed)
        self._recipe = recipe
        self._net, self._heads = TabletopVLA(), Heads()
        self._net.to(device, memory_format=torch.channels_last)
        self._heads.to(device)
        self.average = deepcopy(self._net).requires_grad_(False)
        self._optimiser = torch.optim.AdamW(self._parameters().values(), recipe.rate, betas=(0.9, 0.98),
                                            weight_decay=recipe.weight_decay, fused=device.type == "cuda")
        self.precision = torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()
        self.steps = 0

    def restore(self, steps: int, parameters: Tensors, average: Tensors, second: Tensors) -> None:
        """Go on after so many steps from what state() gave, in whatever precision it was kept."""
        self.steps = steps
        self._heads.load_state_dict({n.removeprefix(HEADS): t for n, t in parameters.items() if n.startswith(HEADS)})
        self._net.load_state_dict({n: t for n, t in parameters.items() if not n.startswith(HEADS)})
        self.average.load_state_dict(average)
        for name, parameter in self._parameters().items():
            self._optimiser.state[parameter] = {
                "step": torch.tensor(float(steps), device=parameter.device if parameter.is_cuda else "cpu"),
                "exp_avg": torch.zeros_like(parameter),
                # like the parameter: a fused optimiser walks through both in the order of their memory
                "exp_avg_sq": torch.zeros_like(parameter).copy_(second[name]),
            }

    def state(self) -> tuple[Tensors, Tensors, Tensors]:
        """(parameters, their average, Adam's second moments), after at least one step."""
        parameters = self._net.state_dict() | {HEADS + n: t for n, t in self._heads.state_dict().items()}
        second = {n: self._optimiser.state[p]["exp_avg_sq"] for n, p in self._parameters().items()}
        return dict(parameters), dict(self.average.state_dict()), second

    def set_scale(self, labels: torch.Tensor) -> None:
        """The actions' spread, before the first step. labels: joint targets minus joints, [records, 32, 7]."""
        scale = labels.float().square().mean(0).sqrt().clamp_min(SCALE_FLOOR)
        for net in (self._net, self.average):
            net.action_scale.copy_(scale)

    def learn(self, batch: Tensors, generator: torch.Generator) -> Tensors:
        """One gradient step. batch: of Ring.draw. Returns the losses by name."""
        for group in self._optimiser.param_groups:
            group["lr"] = self._recipe.rate_at(self.steps)
        with self.precision:
            parts = losses(self._net, self._heads, batch, self._recipe.draws, generator)
        self._optimiser.zero_grad(set_to_none=True)
        sum(parts.values()).backward()
        torch.nn.utils.clip_grad_norm_(self._parameters().values(), 1.0)
        self._optimiser.step()
        kept = min(self._recipe.average, (1 + self.steps) / (10 + self.steps))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self._net.parameters()), 1 - kept)
        self.steps += 1
        return {name: part.detach() for name, part in parts.items()}

    def _parameters(self) -> dict[str, torch.nn.Parameter]:
        return dict(self._net.named_parameters()) | {HEADS + n: p for n, p in self._heads.named_parameters()}
