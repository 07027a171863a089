"""The picture of a failed episode: frames evenly spaced over it, scene above wrist, and what was to be done."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

import numpy as np
from PIL import Image, ImageDraw

FRAMES = 8
SIDE = 144  # pixels of a frame's longer side in the picture
CAPTION, TIMES, GAP = 20, 14, 2


def draw_strip(frames: Sequence[tuple[float, dict[str, np.ndarray]]], caption: str, path: Path) -> None:
    """PNG. frames: (seconds, camera -> uint8 [H, W, 3]) in order of time; the first and the last are among those shown."""
    picked = [frames[i] for i in np.linspace(0, len(frames) - 1, FRAMES).round().astype(int)]
    height, width = next(iter(picked[0][1].values())).shape[:2]
    scale = SIDE / max(height, width)
    size = round(width * scale), round(height * scale)
    cameras = list(picked[0][1])
    page = Image.new("RGB", (FRAMES * (size[0] + GAP) - GAP, CAPTION + TIMES + len(cameras) * (size[1] + GAP)), "white")
    pen = ImageDraw.Draw(page)
    pen.text((4, 4), caption, fill="black")
    for column, (seconds, images) in enumerate(picked):
        x = column * (size[0] + GAP)
        pen.text((x + 4, CAPTION), f"{seconds:.1f} s", fill="#555555")
        for row, camera in enumerate(cameras):
            frame = Image.fromarray(images[camera]).resize(size, Image.Resampling.BICUBIC)
            page.paste(frame, (x, CAPTION + TIMES + row * (size[1] + GAP)))
    path.parent.mkdir(parents=True, exist_ok=True)
    page.save(path)
