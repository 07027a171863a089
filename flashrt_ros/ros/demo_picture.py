"""The demo's pictures: one episode as a strip of camera frames over a timeline, and as a short animation."""

from __future__ import annotations

from pathlib import Path

import cv2
import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.gridspec import GridSpec  # noqa: E402
from PIL import Image, ImageDraw  # noqa: E402

from flashrt_ros.ros.convert import to_ns
from flashrt_ros.ros.recorder import Trace

STRIP = 8
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999999")


def draw_timeline(trace: Trace, joint_names: list[str], path: Path) -> None:
    """PNG: both cameras over time, when each stage produced a new version, and the joints."""
    seconds = lambda ns: (ns - trace.start_ns) * 1e-9  # noqa: E731
    frames = [frame for frame in trace.frames if len(frame[1]) == len(trace.frames[0][1])]
    picked = [frames[i] for i in np.linspace(0, len(frames) - 1, STRIP).round().astype(int)]
    cameras = list(picked[0][1])
    figure = plt.figure(figsize=(13, 3.4 + 1.65 * len(cameras)), constrained_layout=True)
    grid = GridSpec(len(cameras) + 2, STRIP, figure=figure, height_ratios=[1.6] * len(cameras) + [0.8, 1.9])
    for row, camera in enumerate(cameras):
        for column, (stamp, images) in enumerate(picked):
            axes = figure.add_subplot(grid[row, column])
            axes.imshow(images[camera], interpolation="bilinear")
            axes.set_xticks([]), axes.set_yticks([])
            axes.set_title(f"{seconds(stamp):.1f} s" if row == 0 else "", fontsize=9)
            axes.set_ylabel(camera if column == 0 else "", fontsize=9)

    span = (0, seconds(trace.end_ns))
    stages = trace.chunks[0].stage_names
    axes = figure.add_subplot(grid[-2, :])
    for row, name in enumerate(stages):
        versions = [(seconds(to_ns(c.decision_stamp)), c.stage_versions[row]) for c in trace.chunks]
        fresh = [t for (t, version), (_, before) in zip(versions[1:], versions) if version > before] + [versions[0][0]]
        axes.plot(fresh, [len(stages) - 1 - row] * len(fresh), "|", markersize=13, markeredgewidth=1.8, color=COLOURS[row])
    axes.set_yticks(range(len(stages)), list(stages)[::-1], fontsize=9)
    axes.set_ylim(-0.7, len(stages) - 0.3)
    axes.set_xlim(*span), axes.tick_params(labelbottom=False)
    axes.set_title("new results per stage", fontsize=9, loc="left")

    axes = figure.add_subplot(grid[-1, :])
    times = [seconds(stamp) for stamp, _ in trace.joints]
    positions = np.array([position for _, position in trace.joints])
    gripper = axes.twinx()
    for column, name in enumerate(joint_names):
        target = gripper if name == "gripper" else axes
        target.plot(times, positions[:, column], color=COLOURS[column % len(COLOURS)], label=name,
                    linestyle="--" if name == "gripper" else "-", linewidth=1.4)
    axes.set_xlim(*span), axes.set_xlabel("simulated time (s)", fontsize=9), axes.set_ylabel("joints (rad)", fontsize=9)
    gripper.set_ylabel("gripper (m)", fontsize=9)
    handles = axes.get_legend_handles_labels(), gripper.get_legend_handles_labels()
    axes.legend(handles[0][0] + handles[1][0], handles[0][1] + handles[1][1], ncol=7, fontsize=8,
                loc="upper center", bbox_to_anchor=(0.5, -0.22), frameon=False)
    figure.suptitle(f"“{trace.task}”: {'done' if trace.score['success'] else 'not done'}", fontsize=12)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_gif(trace: Trace, path: Path, scale: int = 3) -> None:
    """GIF: the cameras side by side at 5 frames per simulated second, the instruction below."""
    pages = []
    for _, images in trace.frames[::2]:
        if len(images) < len(trace.frames[0][1]):
            continue
        side_by_side = np.hstack(list(images.values()))
        height, width = side_by_side.shape[:2]
        large = cv2.resize(side_by_side, (width * scale, height * scale), interpolation=cv2.INTER_CUBIC)
        page = Image.new("RGB", (large.shape[1], large.shape[0] + 18), "white")
        page.paste(Image.fromarray(large))
        ImageDraw.Draw(page).text((6, large.shape[0] + 3), trace.task, fill="black")
        pages.append(page.quantize(64, dither=Image.Dither.NONE))
    pages[0].save(path, save_all=True, append_images=pages[1:] + [pages[-1]] * 5, duration=200, loop=0)
