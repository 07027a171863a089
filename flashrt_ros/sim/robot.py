"""The built-in robot in simulated time, without ROS: the world, its two trajectory controllers and the player that feeds
them. The nodes run the same parts in processes. Knows no policy and no contract. Imports no torch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.player.command import Command
from flashrt_ros.player.limits import Limits
from flashrt_ros.player.player import Player, PlayerParameters
from flashrt_ros.player.verdict import Refused
from flashrt_ros.policies.instruction import Instruction
from flashrt_ros.policies.tabletop_arm import JOINTS, LOWER, MAX_ACCELERATION, MAX_VELOCITY, UPPER
from flashrt_ros.sim.controllers import GROUPS, Controllers
from flashrt_ros.sim.jtc import Rejected, Trajectory, TrajectoryPoint
from flashrt_ros.sim.world import CONTROL_NS, World

MS = 1_000_000
TICK_NS = 20 * MS  # of the player
assert TICK_NS % CONTROL_NS == 0
WINDOW_TICKS = 2  # ticks per window that the player sends
ARM_LIMITS = Limits(JOINTS, LOWER, UPPER, MAX_VELOCITY, MAX_ACCELERATION)


class Robot:
    """limits: what the player keeps to. size: (width, height) of camera images. strategy: of the player, a name in
    chunk/splice.py. Since the reset: refused: chunks that the player refused and windows that a controller rejected, 0 in a
    healthy run; commands: the position [7] of every tick; command: that of the last, None before the first; jumps: [7] of every
    chunk that took over from another, see Accepted. Times are simulated ns since the reset."""

    def __init__(self, limits: Limits = ARM_LIMITS, size: tuple[int, int] = (96, 96), strategy: str = "latest") -> None:
        self._parameters = PlayerParameters(lead_ms=WINDOW_TICKS * TICK_NS / MS, strategy=strategy)
        self.world = World(size)
        self._limits = limits
        self.reset("pick", 0)

    def reset(self, task: Instruction | str, seed: int) -> Instruction:
        """Lay out the scene and hold the arm at home. Returns the instruction."""
        instruction = self.world.reset(task, seed)
        self._start_ns = self.world.time_ns
        position, _ = self.world.joints()
        self.refused = 0
        self.commands: list[np.ndarray] = []
        self.command: Command | None = None
        self.jumps: list[np.ndarray] = []
        self._seq = 0
        self._player = Player(JOINTS, self._limits, TICK_NS, self._parameters)
        self._player.activate(self._start_ns, position, player_id=1)
        self._controllers = Controllers()
        self._controllers.hold(position)
        self._cursors = [(self._start_ns, self._player.cursor)]  # (time of the command, cursor), the last two
        return instruction

    @property
    def elapsed_ns(self) -> int:
        return self.world.time_ns - self._start_ns

    @property
    def cursor(self) -> Cursor:
        """Where the player is now, as a decision made now would record it."""
        now_ns = self.world.time_ns
        at_ns, cursor = next(c for c in reversed(self._cursors) if c[0] <= now_ns)
        return replace(cursor, lag_ns=now_ns - at_ns)

    @property
    def next_seq(self) -> int:
        """Of the next chunk that is offered."""
        return self._seq + 1

    def offer(self, positions: np.ndarray, decided_ns: int, base: Cursor, step_ns: int = 20 * MS, offset_ns: int = 0,
              frozen_prefix: int = 0) -> Chunk:
        """Hand a chunk [H, 7] to the player; returns it as the player saw it. decided_ns, base: `elapsed_ns` and `cursor` at
        its decision."""
        self._seq += 1
        chunk = Chunk(JOINTS, positions, self._start_ns + decided_ns + offset_ns, step_ns, session=1, epoch=1,
                      seq=self._seq, offset_ns=offset_ns, base=base, frozen_prefix=frozen_prefix)
        playing = self._player.cursor.session != 0
        verdict = self._player.offer(chunk, self.world.time_ns)
        if isinstance(verdict, Refused):
            self.refused += 1
        elif playing:
            self.jumps.append(verdict.jump)
        return chunk

    def advance(self, until_ns: int) -> None:
        """Run control updates until at least `until_ns`."""
        world = self.world
        while (elapsed_ns := self.elapsed_ns) < until_ns:
            now_ns = world.time_ns
            position, velocity = world.joints()
            if elapsed_ns % TICK_NS == 0:
                command = self.command = self._player.tick(now_ns, position)
                self.commands.append(command.position)
                self._cursors = [self._cursors[-1], (command.time_ns, command.cursor)]
                if elapsed_ns // TICK_NS % WINDOW_TICKS == 0:
                    self._send_window(now_ns)
            world.step(self._controllers.update(now_ns, position, velocity))

    def close(self) -> None:
        self.world.close()

    def _send_window(self, now_ns: int) -> None:
        points = self._player.window(now_ns)
        for name, columns in GROUPS.items():
            own = [point.of(columns) for point in points]
            trajectory = Trajectory([JOINTS[c] for c in columns], tuple(
                TrajectoryPoint(p.position, p.velocity, () if p.acceleration is None else p.acceleration, p.time_ns - own[0].time_ns)
                for p in own), own[0].time_ns)
            self.refused += isinstance(self._controllers.receive(name, trajectory, now_ns), Rejected)
