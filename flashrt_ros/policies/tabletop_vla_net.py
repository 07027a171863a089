"""The network of tabletop_vla, 7 M parameters, batch first. Training and the policy share it. torch only.

Images and joints become tokens (a convolutional stem, then a vision transformer over both cameras); tokens and words
become one key/value cache per layer; the action expert turns noise into joint targets by flow matching over that cache.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import silu

from flashrt_ros.policies.layers.attention import rope_table
from flashrt_ros.policies.layers.blocks import ExpertBlock, Modulations, PrefixBlock, ViTBlock
from flashrt_ros.policies.layers.flow import integrate, time_features
from flashrt_ros.policies.layers.future_state import decide_ahead
from flashrt_ros.policies.layers.guidance import integrate_guided
from flashrt_ros.policies.layers.norm import AdaptiveRMSNorm
from flashrt_ros.policies.tabletop_arm import GRIPPER, HOME, JOINTS
from flashrt_ros.policies.tabletop_vla_spec import HEAD, HORIZON, LAYERS, PREFIX, STEP_S, TOKENS
from flashrt_ros.policies.tabletop_vla_words import WORDS

WIDTH, HEADS, HIDDEN = 256, 4, 512  # of vision and prefix
VIT_LAYERS, VIT_HIDDEN = 3, 768
EXPERT, EXPERT_HIDDEN = 192, 512
STEM = (32, 64, 128)  # channels at 48 x 48, 24 x 24 and 12 x 12
EULER_STEPS = 5
AGE_SCALE_S = 0.5
# Joint positions are fed as distances from HOME, so many per unit.
JOINT_SCALE = (0.4, 0.4, 0.4, 0.4, 0.4, 0.8, 0.04)


class ResidualConv(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.conv_1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv_2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv_2(silu(self.conv_1(silu(self.norm(x)))))


class Stem(nn.Module):
    """Images [B, 3, 96, 96] in [-1, 1] -> features [B, 128, 12, 12]."""

    def __init__(self) -> None:
        super().__init__()
        a, b, c = STEM
        self.layers = nn.Sequential(
            nn.Conv2d(3, a, 5, 2, 2), nn.SiLU(), nn.Conv2d(a, b, 3, 2, 1), ResidualConv(b),
            nn.Conv2d(b, c, 3, 2, 1), ResidualConv(c),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class TabletopVLA(nn.Module):
    """action_scale: float32 [HORIZON, 7], the spread of joint targets minus present joints, per step and joint; set by
    training."""

    def __init__(self) -> None:
        super().__init__()
        n = len(JOINTS)
        self.stem = Stem()
        self.merge = nn.Conv2d(STEM[-1], WIDTH, 2, 2)  # 12 x 12 -> 6 x 6 tokens
        self.place = nn.Parameter(torch.randn(TOKENS, WIDTH) * 0.02)
        self.pose = nn.Sequential(nn.Linear(n, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.vit = nn.ModuleList(ViTBlock(WIDTH, HEADS, VIT_HIDDEN) for _ in range(VIT_LAYERS))
        self.words = nn.Embedding(len(WORDS), WIDTH)
        self.prefix_layers = nn.ModuleList(PrefixBlock(WIDTH, HEADS, HEAD, HIDDEN) for _ in range(LAYERS - 1))
        # The expert needs but the keys and values of the last layer.
        self.last_norm = nn.LayerNorm(WIDTH)
        self.last_key_value = nn.Linear(WIDTH, 2 * HEAD, bias=False)
        self.state = nn.Sequential(nn.Linear(n + 1, EXPERT), nn.SiLU(), nn.Linear(EXPERT, EXPERT))
        self.time = nn.Sequential(nn.Linear(EXPERT, EXPERT), nn.SiLU(), nn.Linear(EXPERT, EXPERT))
        self.action_in = nn.Linear(n, EXPERT)
        self.steps = nn.Parameter(torch.randn(HORIZON + 1, EXPERT) * 0.02)
        self.expert_layers = nn.ModuleList(ExpertBlock(EXPERT, HEADS, HEAD, EXPERT_HIDDEN, EXPERT) for _ in range(LAYERS))
        self.out_norm = AdaptiveRMSNorm(EXPERT, EXPERT)
        self.action_out = nn.Linear(EXPERT, n)
        nn.init.normal_(self.words.weight, std=0.5)
        self.register_buffer("action_scale", torch.ones(HORIZON, n))
        constants = {"home": torch.tensor(HOME, dtype=torch.float32), "joint_scale": torch.tensor(JOINT_SCALE),
                     "holding": torch.tensor([joint == GRIPPER.name for joint in JOINTS])}
        for name, (first, count) in {"prefix": (0, PREFIX), "suffix": (PREFIX, HORIZON + 1)}.items():
            constants[f"{name}_cos"], constants[f"{name}_sin"] = rope_table(torch.arange(first, first + count), HEAD)
        for name, value in constants.items():
            self.register_buffer(name, value, persistent=False)

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """uint8 [B, 96, 96, 3] -> [B, 128, 12, 12]."""
        return self.stem(images.permute(0, 3, 1, 2).float() / 127.5 - 1)

    def tokens(self, scene: torch.Tensor, wrist: torch.Tensor, joints: torch.Tensor) -> torch.Tensor:
        """Features [B, 128, 12, 12] of both cameras and the joints [B, 7] at image time -> vision tokens [B, 73, 256]."""
        seen = [self.merge(f).flatten(2).transpose(1, 2) for f in (scene, wrist)]
        x = torch.cat([*seen, self.pose(self.normed_joints(joints))[:, None]], dim=1) + self.place
        for block in self.vit:
            x = block(x)
        return x

    def prefix(self, tokens: torch.Tensor, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Vision tokens [B, 73, 256] and word indices [B, 8] -> (keys and values [B, 4, 2, 81, 64], hidden [B, 81, 256])."""
        x = torch.cat([tokens, self.words(words)], dim=1)
        rope, caches = (self.prefix_cos, self.prefix_sin), []
        for block in self.prefix_layers:
            caches.append(block.keys_values(x, rope))
            x = block(x, rope, caches[-1])
        key, value = self.last_key_value(self.last_norm(x)).chunk(2, dim=-1)
        caches.append((key, value))
        return torch.stack([torch.stack(cache, dim=1) for cache in caches], dim=1), x

    def modulations(self, t: torch.Tensor, state: torch.Tensor) -> list[Modulations]:
        """What velocity() needs to know of t [B] and encode_state's output [B, 192]: per layer, and for the last norm."""
        condition = silu(self.time(time_features(t, EXPERT)) + state)
        last = self.out_norm.modulation(condition)
        return [*(block.modulations(condition) for block in self.expert_layers), (last, last)]

    def velocity(self, noisy: torch.Tensor, modulations: list[Modulations], state: torch.Tensor,
                 prefix_kv: torch.Tensor) -> torch.Tensor:
        """The flow's velocity [B, 32, 7] at noisy actions [B, 32, 7], given encode_state's output and a cache."""
        x = torch.cat([state[:, None], self.action_in(noisy)], dim=1) + self.steps
        rope = (self.suffix_cos, self.suffix_sin)
        for i, block in enumerate(self.expert_layers):
            x = block(x, modulations[i], rope, (prefix_kv[:, i, 0], prefix_kv[:, i, 1]))
        normed, _ = self.out_norm(x[:, 1:], modulations[-1][0])
        return self.action_out(normed)

    def encode_state(self, joints: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
        """Present joints [B, 7] and the vision's age [B, 1] (s) -> [B, 192]."""
        return self.state(torch.cat([self.normed_joints(joints), age / AGE_SCALE_S], dim=-1))

    def chunk(self, prefix_kv: torch.Tensor, joints: torch.Tensor, age: torch.Tensor, noise: torch.Tensor,
              plan: torch.Tensor | None = None, firmness: torch.Tensor | None = None) -> torch.Tensor:
        """Joint targets [B, 32, 7] from a cache, present joints [B, 7], the vision's age [B, 1] (s) and noise [B, 32, 7];
        guided by a plan [B, 32, 7] as far as firmness [B, 32] says, if one is given."""
        state, batch = self.encode_state(joints, age), len(joints)
        t = (1 - torch.arange(EULER_STEPS, device=joints.device) / EULER_STEPS).repeat_interleave(batch)
        all_steps = self.modulations(t, state.repeat(EULER_STEPS, 1))

        def velocity(x: torch.Tensor, i: int) -> torch.Tensor:
            here = slice(i * batch, (i + 1) * batch)
            return self.velocity(x, [(a[here], b[here]) for a, b in all_steps], state, prefix_kv)

        if plan is None:
            action = integrate(velocity, noise, EULER_STEPS)
        else:
            action = integrate_guided(velocity, noise, EULER_STEPS, (plan - joints[:, None]) / self.action_scale, firmness)
        return joints[:, None] + action.float() * self.action_scale

    def chunk_ahead(self, prefix_kv: torch.Tensor, joints: torch.Tensor, age: torch.Tensor, noise: torch.Tensor,
                    plan: torch.Tensor, firmness: torch.Tensor) -> torch.Tensor:
        """As chunk, but decided for where the settled rows of the plan end."""
        return decide_ahead(lambda state, at_age: self.chunk(prefix_kv, state, at_age, noise), joints, age, plan, firmness, STEP_S,
                            self.holding)

    def normed_joints(self, joints: torch.Tensor) -> torch.Tensor:
        return (joints - self.home) / self.joint_scale
