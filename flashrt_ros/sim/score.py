"""Whether a task is done: pure bookkeeping over the cubes' positions. Imports no mujoco."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flashrt_ros.policies.instruction import Instruction
from flashrt_ros.policies.tabletop_cell import BIN_HEIGHT, BIN_INNER

LIFT_M = 0.05
LIFT_S = 0.5
MOVED_M = 0.03


@dataclass(frozen=True)
class Score:
    """lifted_s: for how long without a break the named cube has been LIFT_M up, as of now. in_bin: it lies released in
    the named bin. moved: colour -> the furthest that each other cube has been from where it started (m; on the belt:
    from where the belt would have carried it). reason: one line that says why success is what it is."""

    success: bool
    lifted_s: float
    in_bin: bool
    moved: dict[str, float]
    reason: str


class Scorer:
    """Fed once per control update; `score()` judges all that it saw."""

    def __init__(self, instruction: Instruction, starts: dict[str, np.ndarray], on_belt: frozenset[str],
                 bins: dict[str, np.ndarray]):
        """starts: colour -> position [3] of each cube at the start; bins: colour -> position [3] of each bin."""
        self._instruction = instruction
        self._starts = {colour: np.array(position) for colour, position in starts.items()}
        self._on_belt = on_belt
        self._bin = bins.get(instruction.bin)
        self._lifted_s = 0.0
        self._was_lifted = False
        self._in_bin = False
        self._moved = {colour: 0.0 for colour in starts if colour != instruction.colour}

    def update(self, step_s: float, cubes: dict[str, np.ndarray], belt_travel: float, touched: bool) -> None:
        """cubes: colour -> position [3]; belt_travel: how far the belt has run since the start (m, along y);
        touched: whether a finger touches the named cube."""
        named = cubes[self._instruction.colour]
        up = named[2] - self._starts[self._instruction.colour][2] >= LIFT_M
        self._lifted_s = self._lifted_s + step_s if up else 0.0
        self._was_lifted |= bool(self._lifted_s >= LIFT_S - 1e-9)
        if self._bin is not None:
            inside = np.all(np.abs(named[:2] - self._bin[:2]) < BIN_INNER / 2) and named[2] - self._bin[2] < BIN_HEIGHT
            self._in_bin = bool(inside) and not touched
        for colour in self._moved:
            carried = self._starts[colour].copy()
            if colour in self._on_belt:
                carried[1] += belt_travel
            self._moved[colour] = max(self._moved[colour], float(np.linalg.norm(cubes[colour] - carried)))

    def score(self) -> Score:
        colour, bin_ = self._instruction.colour, self._instruction.bin
        done = self._in_bin if bin_ else self._was_lifted
        disturbed = {c: m for c, m in self._moved.items() if m > MOVED_M}
        if disturbed:
            worst = max(disturbed, key=disturbed.get)
            reason = f"the {worst} cube was moved by {disturbed[worst]:.3f} m (allowed: {MOVED_M} m)"
        elif bin_:
            reason = f"the {colour} cube {'lies' if done else 'is not'} in the {bin_} bin"
        elif done:
            reason = f"the {colour} cube was lifted for {LIFT_S} s"
        else:
            reason = f"the {colour} cube has been {LIFT_M} m up for {self._lifted_s:.2f} s (needed: {LIFT_S} s)"
        return Score(done and not disturbed, self._lifted_s, self._in_bin, dict(self._moved), reason)
