"""What the player remembers of accepted chunks, for the splicing of the next one. Owns their place in played time; must not
know motion or limits. numpy only."""

from __future__ import annotations

from dataclasses import replace

from flashrt_ros.chunk.chunk import Chunk
from flashrt_ros.chunk.splice import Planned, Strategy, splice


class Memory:
    """Times are played time: ns for which a chunk was played, since activation. It rests while nothing is played."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._kept: list[tuple[Chunk, int]] = []  # (chunk, time of its step 0), in the order in which they were accepted

    def splice(self, chunk: Chunk, start_ns: int, now_ns: int) -> Chunk:
        """What is to be followed of a chunk whose step 0 belongs to start_ns, which may lie ahead of now_ns."""
        planned = [Planned(old, (now_ns - old_start_ns) / old.step_ns) for old, old_start_ns in self._kept]
        return splice(planned, chunk, (now_ns - start_ns) / chunk.step_ns, self._strategy)

    def keep(self, chunk: Chunk, start_ns: int, steps: int) -> None:
        """Remember a chunk as it was sent, of which only the first `steps` may ever be played."""
        velocities = None if chunk.velocities is None else chunk.velocities[:steps]
        cut = replace(chunk, positions=chunk.positions[:steps], velocities=velocities, frozen_prefix=0)
        self._kept = [*self._kept, (cut, start_ns)][-self._strategy.memory:] if self._strategy.memory else []

    def clear(self) -> None:
        """What was planned is not going to happen."""
        self._kept = []
