"""Where the player was at a given time, from the execution states that it has published. The policy's half of the base cursor."""

from __future__ import annotations

from collections import deque
from typing import Sequence

import numpy as np

from flashrt_ros.chunk.chunk import Cursor
from flashrt_ros.engine.continuation import Commanded
from flashrt_ros.msg import ExecutionState
from flashrt_ros.ros.convert import to_ns

KEPT = 64  # over a second at 50 Hz


class PlayerStates:
    """`hear` is called on the executor's thread, `at` on any."""

    def __init__(self) -> None:
        self._states: deque[ExecutionState] = deque(maxlen=KEPT)  # newest last

    def hear(self, state: ExecutionState) -> None:
        self._states.append(state)

    def at(self, now_ns: int, joints: Sequence[str]) -> tuple[Cursor, Commanded | None]:
        """The player's cursor at now_ns, and what it commanded these joints, by the newest state not after it; a cursor that says
        nothing if there is none, and None if it says nothing of one of the joints, or does not know yet where they are."""
        for state in reversed(tuple(self._states)):
            lag_ns = now_ns - to_ns(state.header.stamp)
            if lag_ns >= 0:
                cursor = Cursor(state.player, state.tick, state.session, state.epoch, state.seq, state.step, lag_ns)
                return cursor, _commanded(state, joints)
        return Cursor(), None


def _commanded(state: ExecutionState, joints: Sequence[str]) -> Commanded | None:
    if not set(joints) <= set(state.names) or not state.position:
        return None
    columns = [state.names.index(joint) for joint in joints]
    return Commanded(np.array(state.position)[columns], np.array(state.velocity)[columns])
