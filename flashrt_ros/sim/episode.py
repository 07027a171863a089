"""One episode in the built-in world, stepped by its decisions: who decides, and how long that takes, is the caller's.

`flashrt eval`, training and tests all drive this one loop. Imports no torch and no ROS.
"""

from __future__ import annotations

from typing import Callable

import numpy as np

from flashrt_ros.chunk.chunk import Chunk
from flashrt_ros.policies.instruction import Instruction
from flashrt_ros.policies.tabletop_arm import CAMERAS
from flashrt_ros.sim.robot import MS, Robot
from flashrt_ros.sim.score import MOVED_M, Score

PERIOD_NS = 100 * MS  # between decisions
FRAME_LEAD_NS = 20 * MS
LIMIT_NS = 12_000 * MS  # the expert's slowest task takes 6 s


class Episode:
    """At a decision: index of it on the grid, frames (camera -> uint8 [H, W, 3]) and their time frames_ns, joints [7].

    Then call act(). A decision that takes longer than a period makes the arm miss the moments of the grid that passed.
    frame_lead_ns: how old a frame is when a decision takes it; the first is new. render: without it there are no frames.
    """

    def __init__(self, robot: Robot, task: Instruction | str, seed: int, period_ns: int = PERIOD_NS,
                 limit_ns: int = LIMIT_NS, render: bool = True, frame_lead_ns: int = FRAME_LEAD_NS) -> None:
        self.robot = robot
        self.instruction = robot.reset(task, seed)
        self.index = 0
        self.decisions = 0
        self._period_ns, self._limit_ns, self._lead_ns, self._render = period_ns, limit_ns, frame_lead_ns, render
        self._look()
        self._stand()

    @property
    def now_ns(self) -> int:
        """Simulated time since the start."""
        return self.robot.elapsed_ns

    @property
    def over(self) -> bool:
        """Done, or past mending (another cube was moved), or out of time."""
        score = self.score()
        return score.success or max(score.moved.values()) > MOVED_M or self.now_ns >= self._limit_ns

    def score(self) -> Score:
        return self.robot.world.score()

    def act(self, positions: np.ndarray | None, latency_ns: int = 40 * MS, step_ns: int = 20 * MS, offset_ns: int = 0,
            frozen_prefix: int = 0) -> Chunk | None:
        """Play a chunk [H, 7] (None: there is none) that reaches the player latency_ns after this decision, and go on to
        the next decision. Returns what the player was given."""
        decided_ns, base = self.now_ns, self.robot.cursor
        self.decisions += 1
        self.index += max(1, -(-latency_ns // self._period_ns))
        due_ns = self.index * self._period_ns
        given: list[Chunk] = []
        events: list[tuple[int, Callable[[], None]]] = [(due_ns - self._lead_ns, self._look)]
        if positions is not None:
            events.append((decided_ns + latency_ns, lambda: given.append(
                self.robot.offer(positions, decided_ns, base, step_ns, offset_ns, frozen_prefix))))
        for at_ns, event in sorted(events, key=lambda e: e[0]):
            self.robot.advance(at_ns)
            event()
        self.robot.advance(due_ns)
        self._stand()
        return given[0] if given else None

    def _look(self) -> None:
        self.frames_ns = self.now_ns
        if self._render:
            self.frames = {camera: self.robot.world.render(camera).copy() for camera in CAMERAS}

    def _stand(self) -> None:
        self.joints = self.robot.world.joints()[0]


def run_episode(robot: Robot, task: Instruction | str, seed: int, decide: Callable[[Episode], np.ndarray | None],
                **options) -> Episode:
    """A whole episode with decide(episode) -> chunk [H, 7] or None. options: of Episode, and latency_ns."""
    latency_ns = options.pop("latency_ns", 40 * MS)
    episode = Episode(robot, task, seed, **options)
    while not episode.over:
        episode.act(decide(episode), latency_ns)
    return episode
