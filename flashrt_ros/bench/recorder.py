"""Watches an episode with privileged eyes: the facts that tell why it failed and, if wanted, small pictures of it."""

from __future__ import annotations

import cv2
import numpy as np

from flashrt_ros.bench.failures import Record
from flashrt_ros.policies.tabletop_arm import CAMERAS, forward
from flashrt_ros.sim.episode import Episode

LARGEST = 144  # pixels of a kept frame's longer side: an episode in memory stays at some megabytes


class Recorder:
    """For one episode: pass `watch` to ClosedLoop.run, then call finish() before the next one starts."""

    def __init__(self, keep_frames: bool) -> None:
        self._keep = keep_frames
        self._moments: list[tuple] = []
        self._without_chunk = 0
        self.frames: list[tuple[float, dict[str, np.ndarray]]] = []  # (seconds since the start, camera -> image)

    def watch(self, episode: Episode, chunk: np.ndarray | None) -> None:
        self._without_chunk += chunk is None
        self._episode = episode
        self._take()

    def finish(self) -> Record:
        """The whole record, how it ended included."""
        self._take()
        episode = self._episode
        tools, openings, cubes, moved = zip(*self._moments)
        return Record(
            instruction=episode.instruction, tool=np.array(tools), opening=np.array(openings), cubes=_columns(cubes),
            displaced=_columns(moved), bins={c: body.position for c, body in episode.robot.world.objects().bins.items()},
            decisions=episode.decisions, refused=self._without_chunk + episode.robot.refused)

    def _take(self) -> None:
        episode, world = self._episode, self._episode.robot.world
        joints, _ = world.joints()
        cubes = {colour: body.position for colour, body in world.objects().cubes.items()}
        self._moments.append((forward(joints)[:3, 3], joints[-1], cubes, episode.score().moved))
        if self._keep:
            # The frames that the policy saw; the expert's episodes render none.
            images = getattr(episode, "frames", None) or {name: world.render(name) for name in CAMERAS}
            self.frames.append((episode.now_ns * 1e-9, {name: _small(image) for name, image in images.items()}))


def _columns(rows: tuple[dict, ...]) -> dict[str, np.ndarray]:
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def _small(image: np.ndarray) -> np.ndarray:
    """A copy, scaled down where it is larger than LARGEST."""
    share = LARGEST / max(image.shape[:2])
    if share >= 1:
        return image.copy()
    return cv2.resize(image, None, fx=share, fy=share, interpolation=cv2.INTER_AREA)
