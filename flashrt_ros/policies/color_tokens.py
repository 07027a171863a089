"""The vision of color_servo: two camera images to sixteen tokens, by colour and by the cell's geometry. torch only.

Every coloured pixel is a ray, cut at the height where the top of a cube would be (on the table, on the belt) or, behind
the belt, what one sees of a bin. So both cameras measure in world metres. There is one cube and one bin of each colour.

Tokens [16, 8], rows by camera and region:
  0-3    scene: the cube of each colour, lying                  region token
  4-7    scene: the bin in each of the four places              slot token
  8-11   wrist: the cube of each colour, lying                  region token
  12-15  wrist: the cube of each colour, between the fingers    region token
A region token: [0] pixels, [1] pixels of the top face; of the top face [2, 3] mean x, y in the world (m), [4] yaw (rad,
within pi/4 of 0: a cube looks alike from four sides), [5, 6] mean u, v (pixels); [7] 1 if none is on the image's edge.
A slot token: [0-3] pixels of each colour, [4] the index of the commonest, [5, 6] its mean x, y in the world (m), [7] 0.
Where there are no pixels, all is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from flashrt_ros.policies.color_servo_spec import IMAGE
from flashrt_ros.policies.tabletop_arm import CAMERAS
from flashrt_ros.policies.tabletop_cell import BELT_WIDTH, BELT_X, BELT_Z, BIN_Y, COLOURS, CUBE, TABLE_Z

SCENE_CUBE, SCENE_SLOT, WRIST_CUBE, WRIST_HAND = 0, 4, 8, 12  # first rows

# Shares of r, g and b in each of COLOURS; unlike brightness they do not change with the light.
CHROMATICITY = ((0.70, 0.16, 0.14), (0.18, 0.55, 0.27), (0.12, 0.28, 0.60), (0.51, 0.41, 0.08))
CHROMATICITY_RADIUS = 0.13  # the grey of table and arm is 0.20 away from the nearest colour
SATURATION = 0.3  # (max - min) / max of r, g, b; the greys stay below 0.15
DARKEST = 20.0  # of the largest of r, g, b: below it a colour says nothing
TOP_FACE = 0.85  # of a region's brightest pixel: sides stay below 0.75 of the top under any of the lights
CUBES_X = (0.10, 0.505)  # where cubes lie; behind that stand the bins, up to
BINS_TO = 0.66
BIN_SEEN_Z = 0.012  # mean height of a bin's visible pixels
SLOT_HALF = 0.065  # m along y
HAND_WINDOW = (30.0, 66.0, 52.0)  # pixels of the wrist image: u from, u to, v from


@dataclass(frozen=True, slots=True)
class _Pixels:
    """The N coloured pixels of both images. colour: bool [4, N]; wrist: bool [N]; brightness [N]: r + g + b; uv [2, N];
    xy [2, N]: where the ray is cut (world, m); lying, binned: bool [N], does it end among the cubes, among the bins."""

    colour: torch.Tensor
    wrist: torch.Tensor
    brightness: torch.Tensor
    uv: torch.Tensor
    xy: torch.Tensor
    lying: torch.Tensor
    binned: torch.Tensor


class ColorTokens:
    """A pure function that holds its constant tensors on one device."""

    def __init__(self, device: torch.device) -> None:
        def tensor(values: object) -> torch.Tensor:
            return torch.tensor(np.asarray(values), dtype=torch.float32, device=device)

        centres = np.arange(IMAGE) + 0.5
        u, v = np.meshgrid(centres, centres)  # [H, W] each
        pixels = np.stack([u.ravel(), v.ravel()], axis=-1)  # [H * W, 2]
        self._cameras = (CAMERAS["scene"], CAMERAS["wrist"])
        ahead = np.ones((len(pixels), 1))
        rays = [np.append((pixels - IMAGE / 2) / c.focal(IMAGE), ahead, axis=1).T for c in self._cameras]
        self._uv = tensor(np.tile(pixels.T, 2))  # [2, P]: the P pixels of the scene, then the wrist
        self._rays = tensor(np.concatenate(rays, axis=1))  # [3, P] in the cameras' own frames
        self._chromaticity = tensor(CHROMATICITY)
        self._slots = tensor(BIN_Y)

    def __call__(self, scene: torch.Tensor, wrist: torch.Tensor, joints: torch.Tensor) -> torch.Tensor:
        """Tokens float32 [16, 8] of two images uint8 [96, 96, 3] and the joints [7] at which they were taken."""
        p = self._coloured(torch.cat([scene.reshape(-1, 3), wrist.reshape(-1, 3)]).float().T, joints)
        u, v = p.uv
        in_hand = p.wrist & (u > HAND_WINDOW[0]) & (u < HAND_WINDOW[1]) & (v > HAND_WINDOW[2])
        regions = [p.colour & where for where in (p.lying & ~p.wrist, p.lying & p.wrist, in_hand)]
        scene_cubes, wrist_cubes, hand = _region_tokens(torch.cat(regions), p).split(len(COLOURS))
        slots = ((p.xy[1] - self._slots[:, None]).abs() < SLOT_HALF) & p.binned & ~p.wrist  # [4, N]
        return torch.cat([scene_cubes, _slot_tokens(slots, p), wrist_cubes, hand])

    def _coloured(self, rgb: torch.Tensor, joints: torch.Tensor) -> _Pixels:
        """rgb [3, P]. Greys are dropped first: all that follows sees a tenth of the pixels."""
        r, g, b = rgb
        most = torch.maximum(torch.maximum(r, g), b)
        least = torch.minimum(torch.minimum(r, g), b)
        index = ((most - least > SATURATION * most) & (most > DARKEST)).nonzero()[:, 0]  # [N]
        rgb = rgb[:, index]
        brightness = rgb.sum(0)
        distance = (rgb / brightness - self._chromaticity[:, :, None]).square().sum(1)  # [4, N]
        nearest = torch.arange(len(COLOURS), device=rgb.device)[:, None] == distance.argmin(0)
        wrist = index >= IMAGE * IMAGE
        colour = nearest & (distance < CHROMATICITY_RADIUS**2)
        ground = self._ground(self._rays[:, index], wrist, joints)
        return _Pixels(colour, wrist, brightness, self._uv[:, index], *ground)

    def _ground(self, rays: torch.Tensor, wrist: torch.Tensor, joints: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """xy, lying and binned of _Pixels, for rays [3, N] in the cameras' frames."""
        q = joints.double().cpu().numpy()
        fixed, moving = (torch.tensor(c.pose(q)[:3], dtype=torch.float32, device=rays.device) for c in self._cameras)
        rays = torch.where(wrist, moving[:, :3] @ rays, fixed[:, :3] @ rays)
        origin = torch.where(wrist, moving[:, 3:], fixed[:, 3:])  # [3, N]
        per_drop = rays[:2] / (-rays[2]).clamp_min(1e-6)  # rays that do not go down end far away

        def cut(height: float) -> torch.Tensor:
            return origin[:2] + per_drop * (origin[2] - height)

        belt = cut(BELT_Z + CUBE)
        xy = torch.where((belt[0] - BELT_X).abs() < BELT_WIDTH / 2, belt, cut(TABLE_Z + CUBE))
        lying = (xy[0] > CUBES_X[0]) & (xy[0] < CUBES_X[1])
        binned = (xy[0] >= CUBES_X[1]) & (xy[0] < BINS_TO)
        return torch.where(binned, cut(BIN_SEEN_Z), xy), lying, binned


def _region_tokens(masks: torch.Tensor, p: _Pixels) -> torch.Tensor:
    """Region tokens [R, 8] of the regions masks, bool [R, N]."""
    level = torch.where(masks, p.brightness, 0.0)
    brightest = level.max(-1).values if len(p.brightness) else level.new_zeros(len(masks))
    top = masks & (level > TOP_FACE * brightest[:, None])
    area, top_area = masks.sum(-1), top.sum(-1)
    share = top / top_area.clamp_min(1)[:, None]  # [R, N], each row sums to 1
    # Pixels near the horizon lie kilometres away; they must not spoil the sums of regions that they are not in.
    x, y = torch.where(top, p.xy[0], 0.0), torch.where(top, p.xy[1], 0.0)
    mean_x, mean_y = (x * share).sum(-1), (y * share).sum(-1)
    dx, dy = (x - mean_x[:, None]) / CUBE, (y - mean_y[:, None]) / CUBE
    # A square's fourth moment, the mean of (dx + i dy)^4, points along four times the direction of its corners.
    even, odd = dx.square() - dy.square(), 2 * dx * dy
    real, imaginary = ((even.square() - odd.square()) * share).sum(-1), (2 * even * odd * share).sum(-1)
    yaw = torch.where(top_area > 0, torch.atan2(-imaginary, -real) / 4, 0.0)
    edge = ((p.uv < 1) | (p.uv > IMAGE - 1)).any(0)
    whole = (area > 0) & ~(masks & edge).any(-1)
    mean_u, mean_v = share @ p.uv[0], share @ p.uv[1]
    return torch.stack([area, top_area, mean_x, mean_y, yaw, mean_u, mean_v, whole], dim=-1).float()


def _slot_tokens(slots: torch.Tensor, p: _Pixels) -> torch.Tensor:
    """Slot tokens [4, 8] of the places slots, bool [4, N]."""
    masks = slots[:, None] & p.colour  # [slot, colour, N]
    counts = masks.sum(-1)
    commonest = counts.argmax(-1)
    mask = masks[torch.arange(len(slots), device=slots.device), commonest]  # [slot, N]
    total = mask.sum(-1).clamp_min(1)
    x, y = (torch.where(mask, p.xy[i], 0.0).sum(-1) / total for i in (0, 1))
    return torch.cat([counts, torch.stack([commonest, x, y, torch.zeros_like(x)], dim=-1)], dim=-1).float()
