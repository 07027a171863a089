"""What the policy in training would do in every world: one batch per round, each world's vision refreshed at its own
episode's rate."""

from __future__ import annotations

import numpy as np
import torch

from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.policies.tabletop_vla_net import TabletopVLA
from flashrt_ros.policies.tabletop_vla_spec import HEAD, HORIZON, LAYERS, PREFIX
from flashrt_ros.train.record import PERIOD_S


class Rollout:
    """For n worlds."""

    def __init__(self, n: int, device: torch.device, seed: int) -> None:
        self._kv = torch.zeros((n, LAYERS, 2, PREFIX, HEAD), device=device)
        self._taken = torch.zeros(n, device=device)  # decisions since the vision that each world acts on
        self._frame_age = torch.zeros(n, device=device)
        self._generator = torch.Generator(device).manual_seed(seed)

    @torch.inference_mode()
    def chunks(self, net: TabletopVLA, seen: dict[str, torch.Tensor], records: np.ndarray) -> np.ndarray:
        """float32 [n, 32, 7] for the round whose columns are `seen` (of Ring.add)."""
        device, n = self._kv.device, len(records)
        every = torch.from_numpy(records["every"].astype(np.int64)).to(device)
        first = torch.from_numpy(records["first"].astype(bool)).to(device)
        self._taken += 1
        due = first | (self._taken >= every)
        frames = net.features(seen["frames"].flatten(0, 1)).unflatten(0, (n, 2))
        kv, _ = net.prefix(net.tokens(frames[:, 0], frames[:, 1], seen["joints"]), seen["words"])
        self._kv = torch.where(due[:, None, None, None, None], kv.float(), self._kv)
        self._taken = torch.where(due, 0.0, self._taken)
        self._frame_age = torch.where(due, seen["frame_age"], self._frame_age)
        age = (self._taken * PERIOD_S + self._frame_age)[:, None]
        noise = torch.randn((n, HORIZON, len(JOINTS)), generator=self._generator, device=device)
        return net.chunk(self._kv, seen["joints"], age, noise).float().cpu().numpy()
