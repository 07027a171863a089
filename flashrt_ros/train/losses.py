"""What training minimises: the flow-matching error, and two helpers that show the vision stages where things are."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import smooth_l1_loss

from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.policies.tabletop_cell import COLOURS
from flashrt_ros.policies.tabletop_vla_net import STEM, WIDTH, TabletopVLA
from flashrt_ros.policies.tabletop_vla_words import TEXT
from flashrt_ros.train.record import PERIOD_S

JOINT_NOISE = 0.005  # rad (of the gripper: a tenth, in m)
EARLY_STEPS, EARLY_WEIGHT = 10, 2.0  # the steps that are played before the next decision count more


class Heads(nn.Module):
    """Read out of inner features where cubes and bins are; thrown away after training.

    points: a soft-argmax per object over the stem's 12 x 12 features (spatial softmax, Levine et al., 2016).
    geometry: the named cube and bin from the tool, from the prefix's word tokens.
    """

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.Conv2d(STEM[-1], 2 * len(COLOURS), 1)
        self.geometry = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 8))
        centres = (torch.arange(12) + 0.5) / 12
        v, u = torch.meshgrid(centres, centres, indexing="ij")
        self.register_buffer("grid", torch.stack([u.flatten(), v.flatten()], dim=-1), persistent=False)

    def points(self, features: torch.Tensor) -> torch.Tensor:
        """[B, 128, 12, 12] -> [B, 8, 2] (u, v) as shares of the image."""
        return self.maps(features).flatten(2).float().softmax(-1) @ self.grid


def losses(net: TabletopVLA, heads: Heads, batch: dict[str, torch.Tensor], draws: int,
           generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Scalars by name; their sum is minimised. batch: of Ring.draw. draws: noise draws per encoded prefix."""
    size, device = len(batch["joints"]), batch["joints"].device

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device)

    wobble = torch.full((len(JOINTS),), JOINT_NOISE, device=device)
    wobble[-1] /= 10
    then = batch["seen_joints"] + normal(size, len(JOINTS)) * wobble
    fresh = batch["age"] < PERIOD_S  # vision of this very decision read the same joints, and errs alike
    now = batch["joints"] + (then - batch["seen_joints"]) * fresh + normal(size, len(JOINTS)) * wobble * ~fresh
    frames = _relit(batch["seen_frames"].flatten(0, 1), generator)
    features = net.stem(frames).unflatten(0, (size, 2))
    tokens = net.tokens(features[:, 0], features[:, 1], then)
    prefix_kv, hidden = net.prefix(tokens, batch["words"])
    target = (batch["label"] - now[:, None]) / net.action_scale

    # Beta(1.5, 1) by its inverse distribution function: most of the time near t = 1, where the noise is
    t = 0.999 * torch.rand(size * draws, generator=generator, device=device) ** (1 / 1.5) + 0.001
    many = target.repeat_interleave(draws, 0)
    noise = normal(*many.shape)
    noisy = t[:, None, None] * noise + (1 - t)[:, None, None] * many
    state = net.encode_state(now, batch["age"]).repeat_interleave(draws, 0)
    velocity = net.velocity(noisy, net.modulations(t, state), state, prefix_kv.repeat_interleave(draws, 0))
    weight = torch.ones(target.shape[1], device=device)
    weight[:EARLY_STEPS] = EARLY_WEIGHT
    error = (velocity.float() - (noise - many)).square().mean((0, 2))

    found = heads.points(features.flatten(0, 1)).unflatten(0, (size, 2))
    truth, seen = batch["seen_points"][..., :2], batch["seen_points"][..., 2:]
    points = (smooth_l1_loss(found, truth, beta=0.02, reduction="none") * seen).sum() / (2 * seen.sum()).clamp_min(1)
    geometry = heads.geometry(hidden[:, -TEXT:].mean(1)).float()
    known = batch["seen_geometry_known"]
    geometry = (smooth_l1_loss(geometry, batch["seen_geometry"], beta=0.1, reduction="none") * known).sum() / known.sum()
    return {"flow": (error * weight).sum() / weight.sum(), "points": 10 * points, "geometry": 0.3 * geometry}


def _relit(frames: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """uint8 [B, 96, 96, 3] -> [B, 3, 96, 96] in about [-1, 1], under slightly other light and with sensor noise. Hues stay:
    colour is the instruction."""
    size, device = len(frames), frames.device
    light = 1 + 0.1 * torch.randn((size, 1, 1, 1), generator=generator, device=device)
    frames = frames.permute(0, 3, 1, 2).float() * (light / 127.5) - 1
    return (frames + 0.012 * torch.randn(frames.shape, generator=generator, device=device)).contiguous(
        memory_format=torch.channels_last)
