"""The whole product but ROS in one process, in simulated time: world, controllers, player, intake, engine, policy.

Deterministic: the same contract, seed and latency give the same episode. The nodes run the same parts in processes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable

import numpy as np

from flashrt_ros import policies
from flashrt_ros.chunk.chunk import Chunk
from flashrt_ros.contract.load import load
from flashrt_ros.contract.verify import verify
from flashrt_ros.engine.engine import Engine
from flashrt_ros.engine.intake import Intake, Refusal
from flashrt_ros.player.limits import Limits
from flashrt_ros.player.player import Player, PlayerParameters
from flashrt_ros.player.verdict import Refused
from flashrt_ros.policies.instruction import Instruction
from flashrt_ros.policies.tabletop_arm import ARM, JOINTS
from flashrt_ros.sim import expert
from flashrt_ros.sim.jtc import JointTrajectoryController, Rejected, Trajectory, TrajectoryPoint
from flashrt_ros.sim.score import MOVED_M, Score
from flashrt_ros.sim.world import World

MS = 1_000_000
TICK_NS = 20 * MS  # of the player
WINDOW_TICKS = 2
JOINTS_NS = 8 * MS
FRAME_LEAD_NS = 20 * MS  # a frame is this old when the decision takes it
LIMIT_NS = 20_000 * MS
GROUPS = {"arm": np.arange(len(ARM)), "gripper": np.array([len(ARM)])}


@dataclass(frozen=True)
class Episode:
    """One episode's outcome. told: the instruction that the policy got. refused: decisions without a chunk, chunks that
    the player refused and trajectories that a controller rejected, together: 0 in a healthy run."""

    task: str
    told: str
    seed: int
    success: bool
    reason: str
    seconds: float
    decisions: int
    refused: int


class ClosedLoop:
    """contract: a file for a policy of the built-in world. latency_ns: simulated time from a decision to its chunk's
    arrival at the player. see(image) -> image: what becomes of each camera frame (the black-image control)."""

    def __init__(self, contract: Path, latency_ns: int = 40 * MS, see: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        self._contract = load(contract)
        self._pipeline = verify(self._contract, policies.spec(self._contract.policy))
        self._engine = Engine(self._pipeline, policies.load(self._contract.policy), background="synchronous")
        self._latency_ns, self._see = latency_ns, see or (lambda image: image)
        cameras = [i for i in self._contract.inputs if i.image is not None]
        self._cameras = [camera.name for camera in cameras]
        height, width = cameras[0].image.size
        self._world = World((width, height))

    def run(self, task: Instruction | str, seed: int, told: str | None = None, use_expert: bool = False) -> Episode:
        """told: another instruction for the policy than the one that is scored. use_expert: privileged chunks instead."""
        world, pipeline, period_ns = self._world, self._pipeline, self._pipeline.period_ns
        instruction = world.reset(task, seed)
        told = told or instruction.text
        start_ns = world.time_ns
        intake = Intake(pipeline, check_frozen=False)  # a noiseless world repeats its frames while nothing moves
        intake.offer("task", told, None, start_ns)
        self._engine.reset()
        position, velocity = world.joints()
        player = Player(JOINTS, Limits.of(JOINTS, self._contract.limits), TICK_NS,
                        PlayerParameters(lead_ms=WINDOW_TICKS * TICK_NS / MS))
        player.activate(start_ns, position, player_id=1)
        controllers = {name: JointTrajectoryController([JOINTS[c] for c in columns]) for name, columns in GROUPS.items()}
        for name, columns in GROUPS.items():
            controllers[name].hold(position[columns])
        pending: list[tuple[int, Chunk]] = []
        cursors = [(start_ns, player.cursor)]  # (time of the command, cursor), the last two
        decisions = refused = 0
        while not _over(score := world.score()) and world.time_ns - start_ns < LIMIT_NS:
            now_ns = world.time_ns
            elapsed_ns = now_ns - start_ns
            position, velocity = world.joints()
            if elapsed_ns % JOINTS_NS == 0:
                intake.offer("joints", position, now_ns, now_ns)
            if (elapsed_ns + FRAME_LEAD_NS) % period_ns == 0 or elapsed_ns == 0:
                for camera in self._cameras:
                    intake.offer(camera, self._see(world.render(camera)), now_ns, now_ns)
            if elapsed_ns % period_ns == 0:
                base_ns, base = next(c for c in reversed(cursors) if c[0] <= now_ns)
                positions = expert.decide(world) if use_expert else self._decide(intake, elapsed_ns // period_ns, now_ns)
                decisions += 1
                if positions is None:
                    refused += 1
                else:
                    output = self._contract.outputs[0]
                    chunk = Chunk(JOINTS, positions, now_ns + output.offset_ns, output.step_ns, session=1, epoch=1,
                                  seq=decisions, offset_ns=output.offset_ns, base=replace(base, lag_ns=now_ns - base_ns))
                    pending.append((now_ns + self._latency_ns, chunk))
            while pending and pending[0][0] <= now_ns:
                refused += isinstance(player.offer(pending.pop(0)[1], now_ns), Refused)
            if elapsed_ns % TICK_NS == 0:
                command = player.tick(now_ns, position)
                cursors = [cursors[-1], (command.time_ns, command.cursor)]
                if elapsed_ns // TICK_NS % WINDOW_TICKS == 0:
                    refused += self._send(player, controllers, now_ns)
            command = np.empty(len(JOINTS))
            for name, columns in GROUPS.items():
                command[columns] = controllers[name].update(now_ns, position[columns], velocity[columns]).positions
            world.step(command)
        return Episode(instruction.text, told, seed, score.success, score.reason, (world.time_ns - start_ns) * 1e-9, decisions,
                       refused)

    def _decide(self, intake: Intake, index: int, now_ns: int) -> np.ndarray | None:
        observation = intake.take(index, now_ns, self._decode)
        if isinstance(observation, Refusal):
            return None
        chunk = self._engine.decide(observation).chunk
        return None if chunk is None else chunk.astype(np.float64)

    def _decode(self, name: str, raw) -> np.ndarray:
        if isinstance(raw, str):
            return self._engine.policy.encode_text(raw)
        return raw.astype(np.float32) if name == "joints" else raw

    @staticmethod
    def _send(player: Player, controllers: dict[str, JointTrajectoryController], now_ns: int) -> int:
        points = player.window(now_ns)
        rejected = 0
        for name, columns in GROUPS.items():
            trajectory = Trajectory([JOINTS[c] for c in columns], tuple(
                TrajectoryPoint(p.position[columns], p.velocity[columns], time_from_start_ns=p.time_ns - points[0].time_ns)
                for p in points), points[0].time_ns)
            rejected += isinstance(controllers[name].receive(trajectory, now_ns), Rejected)
        return rejected


def _over(score: Score) -> bool:
    """Done, or past mending: another cube was moved."""
    return score.success or max(score.moved.values()) > MOVED_M
