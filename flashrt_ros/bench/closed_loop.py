"""The whole product but ROS in one process, in simulated time: world, controllers, player, intake, engine, policy.

Deterministic for a given latency: the same contract and seed give the same episode. The nodes run the same parts in
processes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Callable

import numpy as np

from flashrt_ros.bench.jobs import MEASURED
from flashrt_ros.bench.smoothness import mean_jump, rms_jerk
from flashrt_ros.capsule.assembly import assemble
from flashrt_ros.capsule.maker import Asked, ChunkMaker, Made
from flashrt_ros.capsule.rollback import State
from flashrt_ros.contract.schema import Contract
from flashrt_ros.engine.continuation import Commanded
from flashrt_ros.engine.intake import Intake
from flashrt_ros.player.limits import Limits
from flashrt_ros.policies.instruction import Instruction
from flashrt_ros.policies.tabletop_arm import ARM, JOINTS
from flashrt_ros.sim import expert
from flashrt_ros.sim.episode import Episode
from flashrt_ros.sim.robot import MS, TICK_NS, WINDOW_TICKS, Robot

WAY_NS = (WINDOW_TICKS + 1) * TICK_NS  # motion that is settled when a chunk arrives: the window under way, and a tick


@dataclass(frozen=True)
class Outcome:
    """One episode's outcome. told: the instruction that the policy got. refused: decisions without a chunk, chunks that
    the player refused and trajectories that a controller rejected, together: 0 in a healthy run. jerk_rad_s3, mean_jump_rad: of
    the commands to the arm's joints without the gripper, see smoothness.py. decision_ms: median wall-clock time of a decision
    on this machine; decision_p95_ms: its 95th percentile."""

    task: str
    told: str
    seed: int
    success: bool
    reason: str
    seconds: float
    decisions: int
    refused: int
    jerk_rad_s3: float
    mean_jump_rad: float
    decision_ms: float
    decision_p95_ms: float = field(default=0.0, compare=False)


class ClosedLoop:
    """contract: for a policy of the built-in world. latency: ns from a decision to its chunk's arrival at the player;
    or MEASURED: as long as the decision took here. see(image) -> image: what becomes of each camera frame (the
    black-image control). threads: torch's, on the CPU. strategy: of the player. digest: the pipeline's identity, weights
    included. maker: of the decisions; the one of the last episode is kept in `maker`."""

    def __init__(self, contract: Contract, latency: int | str = 40 * MS, see: Callable[[np.ndarray], np.ndarray] | None = None,
                 device: str = "cpu", threads: int = 1, strategy: str = "latest", maker: type[ChunkMaker] = ChunkMaker) -> None:
        self._contract = contract
        self._engine, self._digests = assemble(contract, device, threads)
        self._pipeline, self.digest = self._engine.pipeline, self._digests.contract
        self._engine.warm_up()
        self._make_maker = maker
        self._latency, self._see = latency, see or (lambda image: image)
        self._cameras = [i.name for i in contract.inputs if i.image is not None]
        height, width = self._pipeline.input[self._cameras[0]].image.size
        self._limits = Limits.of(JOINTS, contract.limits)
        self._robot = Robot(self._limits, (width, height), strategy)

    def run(self, task: Instruction | str, seed: int, told: str | None = None, use_expert: bool = False,
            watch: Callable[[Episode, np.ndarray | None], None] | None = None) -> Outcome:
        """told: another instruction for the policy than the one that is scored. use_expert: privileged chunks instead.
        watch(episode, chunk): called at each decision."""
        episode = Episode(self._robot, task, seed, self._pipeline.period_ns, render=not use_expert)
        told = told or episode.instruction.text
        intake = Intake(self._pipeline, check_frozen=False)  # a noiseless world repeats its frames while nothing moves
        intake.offer("task", told, None, 0)
        self._engine.reset()
        sure_ns = (self._contract.deadline_ns if self._latency == MEASURED else self._latency) + WAY_NS
        self.maker = maker = self._make_maker(self._engine, intake, self._digests, sure_ns, self._limits)
        output, without_chunk, took = self._contract.outputs[0], 0, []
        while not episode.over:
            began = time.perf_counter_ns()
            made = None if use_expert else self._decide(episode, maker, told, seed)
            positions = expert.decide(self._robot.world) if use_expert else None if made is None else made.chunk.positions
            took.append(time.perf_counter_ns() - began)
            without_chunk += positions is None
            if watch is not None:
                watch(episode, positions)
            latency_ns = took[-1] if self._latency == MEASURED else self._latency
            episode.act(positions, latency_ns, output.step_ns, output.offset_ns, 0 if made is None else made.chunk.frozen_prefix)
        score = episode.score()
        return Outcome(episode.instruction.text, told, seed, score.success, score.reason, episode.now_ns * 1e-9,
                       episode.decisions, without_chunk + self._robot.refused,
                       rms_jerk([command[:len(ARM)] for command in self._robot.commands], TICK_NS * 1e-9),
                       mean_jump([jump[:len(ARM)] for jump in self._robot.jumps]),
                       *(float(ms) for ms in np.percentile(took, (50, 95)) * 1e-6))

    def close(self) -> None:
        self._engine.close()
        self._robot.close()

    def _decide(self, episode: Episode, maker: ChunkMaker, told: str, seed: int) -> Made | None:
        if maker.rollback.state is State.FAULT:
            return None
        now_ns = episode.now_ns
        for camera in self._cameras:
            maker.intake.offer(camera, self._see(episode.frames[camera]), episode.frames_ns, episode.frames_ns)
        maker.intake.offer("joints", episode.joints, now_ns, now_ns)
        command = self._robot.command
        commanded = None if command is None else Commanded(command.position, command.velocity)
        asked = Asked(episode.index, now_ns, 1, 1, told, seed, self._robot.cursor, commanded)
        made = maker.make(asked, self._decode, lambda: self._robot.next_seq)  # on the intake's clock, else as the player gets it
        return made if isinstance(made, Made) else None

    def _decode(self, name: str, raw) -> np.ndarray:
        if isinstance(raw, str):
            return self._engine.policy.encode_text(raw)
        return raw.astype(np.float32) if name == "joints" else raw
