"""Many built-in worlds in many processes, stepped together: one record per world and round. Imports no torch.

A world is driven by the expert (half of the time with disturbed targets, so that it visits states off its own path) or
by the policy, whose chunks the trainer hands in; the label is always the expert's. The latter is DAgger (Ross, Gordon
and Bagnell, 2011).
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.shared_memory import SharedMemory

import numpy as np

from flashrt_ros.errors import FlashRTError
from flashrt_ros.policies.instruction import KINDS, Instruction, is_held_out
from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.policies.tabletop_vla_spec import HORIZON
from flashrt_ros.policies.tabletop_vla_words import encode
from flashrt_ros.sim.episode import Episode
from flashrt_ros.sim.layout import FIRST_EVALUATION_SEED, draw_instruction
from flashrt_ros.sim.robot import MS, Robot
from flashrt_ros.spawn import deaf_to_ctrl_c, start
from flashrt_ros.train.record import RECORD, fill

KIND_SHARE = {"pick": 0.3, "place": 0.4, "belt": 0.3}
LIMIT_NS = 8_000 * MS
LATENCY_MS, LEAD_MS = (20, 80), (8, 60)  # of a chunk on its way to the player; of a frame before its decision
AFTER = 8  # decisions that some episodes go on for after success: a policy is not switched off there


class WorldsError(FlashRTError):
    """A process of worlds failed or died."""


@dataclass(frozen=True)
class Drive:
    """seed: of all worlds. every: refresh ratios that policy-driven episodes are drawn from."""

    seed: int
    every: tuple[int, ...]


class Worlds:
    """processes x each worlds. At a decision, records[i] is world i's; write into chunks[i] ([n, 32, 7]) what the policy
    would do there. Deterministic: a world's episodes depend on its number, the seed and the chunks only.

    A context, at whose end processes and memory are gone, records and chunks with them. Raises WorldsError.
    """

    def __init__(self, processes: int, each: int, drive: Drive) -> None:
        self.n = processes * each
        self._memory = SharedMemory(create=True, size=_size(self.n))
        self.records, self.chunks, self._share = _views(self._memory, self.n)
        self._crew: list[tuple[Connection, BaseProcess]] = []
        try:
            with deaf_to_ctrl_c():
                for i in range(processes):
                    self._crew.append(start(_work, self._memory.name, self.n, i * each, each, drive))
            self.wait()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Worlds:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def start(self, policy_share: float) -> None:
        """Let every world play its chunk and go on to its next decision. policy_share: the probability that an episode
        which begins there is driven by the policy."""
        self._share[0] = policy_share
        for pipe, _ in self._crew:
            with suppress(OSError):  # its process has died, as wait() will say
                pipe.send(None)

    def wait(self) -> None:
        """Until all worlds stand at a decision. Raises WorldsError for an error in a process, or its death."""
        for pipe, process in self._crew:
            try:
                error = pipe.recv()
            except (EOFError, OSError):
                process.join()
                raise WorldsError(f"a process of worlds ended with status {process.exitcode}; its error stands above, or if memory "
                                  "ran out (status -9), try fewer --processes or --worlds") from None
            if error is not None:
                raise WorldsError(error)

    def close(self) -> None:
        """End the processes and free the memory."""
        for _, process in self._crew:
            process.terminate()
        for pipe, process in self._crew:
            process.join()
            pipe.close()
        del self.records, self.chunks, self._share
        self._memory.close()
        self._memory.unlink()


def draw_task(rng: np.random.Generator) -> tuple[Instruction, int]:
    """The instruction and the scene of a training episode: never a held-out pair, never a scene of evaluation."""
    while True:
        kind, seed = str(rng.choice(KINDS, p=[KIND_SHARE[k] for k in KINDS])), int(rng.integers(FIRST_EVALUATION_SEED))
        instruction = draw_instruction(kind, seed)
        if not is_held_out(instruction):
            return instruction, seed


def _size(n: int) -> int:
    return n * (RECORD.itemsize + HORIZON * len(JOINTS) * 4) + 8


def _views(memory: SharedMemory, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    at = 8
    records = np.ndarray(n, RECORD, memory.buf, at)
    chunks = np.ndarray((n, HORIZON, len(JOINTS)), np.float32, memory.buf, at + n * RECORD.itemsize)
    return records, chunks, np.ndarray(1, np.float64, memory.buf)


def _work(pipe: Connection, name: str, n: int, first: int, count: int, drive: Drive) -> None:
    os.environ["LP_NUM_THREADS"] = "0"  # Mesa's software rasteriser draws in the calling thread, not in one per core
    memory = SharedMemory(name=name)
    records, chunks, share = _views(memory, n)
    try:
        worlds = [_World(drive, i) for i in range(first, first + count)]
        for world in worlds:
            world.begin(records[world.number], 0.0)
        while True:
            pipe.send(None)
            pipe.recv()
            for world in worlds:
                world.step(records[world.number], chunks[world.number], float(share[0]))
    except FlashRTError as error:
        pipe.send(str(error))
    except (EOFError, ConnectionError):  # the trainer is gone
        return


class _World:
    """One world, with all that is drawn for its episodes."""

    def __init__(self, drive: Drive, number: int) -> None:
        self.number = number
        self._drive = drive
        self._rng = np.random.default_rng([drive.seed, number])
        self._robot = Robot()
        self._ended = 0
        self._drove = False

    def begin(self, row: np.ndarray, policy_share: float) -> None:
        rng = self._rng
        instruction, seed = draw_task(rng)
        row["ended"], row["policy_drove"] = self._ended, self._drove
        self._drove = bool(rng.random() < policy_share)
        self._wander = 0.0 if rng.random() < 0.5 else rng.uniform(0.01, 0.05)  # rad, spread of the disturbed targets
        self._offset = np.zeros(len(JOINTS))
        self._every = int(rng.choice(self._drive.every))
        self._latency_ns = int(rng.integers(*LATENCY_MS)) * MS
        self._after = AFTER if rng.random() < 0.25 else 0
        lead_ns = int(rng.integers(*LEAD_MS)) * MS
        self._episode = Episode(self._robot, instruction, seed, limit_ns=LIMIT_NS, frame_lead_ns=lead_ns)
        self._words = encode(instruction.text)
        row["first"] = 1
        self._observe(row)

    def step(self, row: np.ndarray, chunk: np.ndarray, policy_share: float) -> None:
        targets = chunk.astype(np.float64) if self._drove else row["label"].astype(np.float64) + self._disturbance()
        if not np.isfinite(targets).all():
            targets = None
        self._episode.act(targets, self._latency_ns)
        done = self._episode.over
        if done and self._episode.score().success and self._after > 0:
            self._after -= 1
            done = False
        if done:
            self._ended = (1 + KINDS.index(self._episode.instruction.kind)) * (1 if self._episode.score().success else -1)
            self.begin(row, policy_share)
        else:
            row["first"] = 0
            self._observe(row)

    def _observe(self, row: np.ndarray) -> None:
        row["every"] = self._every
        fill(row, self._episode, self._words)

    def _disturbance(self) -> np.ndarray:
        """Slowly wandering offset [7] of the targets; the gripper's stays 0."""
        if self._wander:
            self._offset = 0.8 * self._offset + self._rng.normal(0, self._wander * 0.6, len(JOINTS))
            self._offset[-1] = 0
        return self._offset
