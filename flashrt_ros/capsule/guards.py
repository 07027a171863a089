"""Whether a chunk may be handed out: what no sane policy says. A trip, and the guards that look at positions.

A guard looks for a broken chunk, not for a changed mind: two decisions in a row may want opposite things, and limits hold
whatever is said, for the player keeps them. So each allows more than its limit, by a slack above what healthy decisions were
measured to do. What follows a trip is rollback.py's. Knows no ROS; numpy only.

Measured: 30833 decisions, none of which trips. bench/closed_loop.py, pick, place and belt in 50 scenes each (seeds from 10000):
tabletop_vla and color_servo with the strategy latest, tabletop_vla also with rtc and policy.continues=future_state; latency 40
and 200 ms. x86-64 virtual machine, 2 cores, no GPU, 2026-12-01.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flashrt_ros.capsule.rollback import CONTENT, JUMP, NONFINITE, POSITION, VELOCITY
from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.engine.continuation import Commanded
from flashrt_ros.engine.observation import Observation

# Of the range between its limits, how far beyond them a joint may be told to go. Measured: at most 0.083, a wrist that turns on
# towards a cube; 0.030 in 999 of 1000 decisions.
POSITION_SLACK = 0.15
# Times its velocity limit from one step to the next. Measured, of the arm: at most 2.63, where a chunk leaves the plan that it
# continues; 1.44 in 999 of 1000 decisions.
VELOCITY_SLACK = 4.0


@dataclass(frozen=True, slots=True)
class Trip:
    """guard: one of rollback.CONTENT + TIME. detail: one sentence that names joint, step, value and limit."""

    guard: str
    detail: str

    @property
    def content(self) -> bool:
        """Whether what was decided is wrong, rather than late or blind."""
        return self.guard in CONTENT


class Guards:
    """Judges by the guards that the contract lists, and by `nonfinite` always: nothing else can be said of such a chunk."""

    def __init__(self, pipeline: Pipeline) -> None:
        contract, limits, self._names = pipeline.contract, pipeline.contract.limits, pipeline.spec.joints
        output = contract.outputs[0]  # verify has made sure that all outputs share step and offset
        self._listed, self._step_s = contract.rollback.guards, output.step_ns * 1e-9
        self._lower, self._upper = np.array([limits.position[joint] for joint in self._names], np.float64).T
        speed, paced = np.array([limits.velocity[joint] for joint in self._names], np.float64), _paced(pipeline)
        self._velocity = np.where(paced, speed, np.inf)
        # The first row that is not meant for before the decision; until its moment the arm may get on.
        self._row = max(0, -(output.offset_ns // output.step_ns))
        since_s = (output.offset_ns + self._row * output.step_ns) * 1e-9
        self._allowed = np.where(paced, (limits.boundary_jump or 0.0) + speed * since_s, np.inf)
        self._measured = [(i, *found) for i, joint in enumerate(self._names) if (found := contract.measured([joint]))]

    def judge(self, positions: np.ndarray, observation: Observation, commanded: Commanded | None) -> Trip | None:
        """What the first guard that trips says, in the order of rollback.CONTENT.

        positions: float64 [H, N], in rad or m, in the order of the policy's joints. observation: what was decided on.
        commanded: what the player commanded at its `now`; None: unknown.
        """
        if detail := nonfinite(positions, self._names):
            return Trip(NONFINITE, detail)
        if POSITION in self._listed and (detail := position(positions, self._names, self._lower, self._upper)):
            return Trip(POSITION, detail)
        if VELOCITY in self._listed and (detail := velocity(positions, self._names, self._velocity, self._step_s)):
            return Trip(VELOCITY, detail)
        if JUMP in self._listed:
            measured = np.full(len(self._names), np.nan)
            for i, name, (column,) in self._measured:
                measured[i] = observation.inputs[name].value[column]
            told = measured if commanded is None else commanded.position
            near, far = np.fmin(measured, told), np.fmax(measured, told)
            if detail := jump(positions, self._names, near, far, self._allowed, self._row):
                return Trip(JUMP, detail)
        return None


def nonfinite(positions: np.ndarray, names: tuple[str, ...]) -> str | None:
    """A value of positions [H, N] is not finite."""
    if (found := _first(~np.isfinite(positions))) is None:
        return None
    step, i = found
    return f"joint '{names[i]}' is {positions[found]} at step {step}; every value must be finite"


def position(positions: np.ndarray, names: tuple[str, ...], lower: np.ndarray, upper: np.ndarray) -> str | None:
    """A value of positions [H, N] lies outside the limits [N] by more than POSITION_SLACK of the range between them."""
    slack = POSITION_SLACK * (upper - lower)
    if (found := _first((positions < lower - slack) | (positions > upper + slack))) is None:
        return None
    step, i = found
    return (f"joint '{names[i]}' is at {positions[found]:.4g} at step {step}; its limits are {lower[i]:g} to {upper[i]:g}, and "
            f"the guard allows {slack[i]:.3g} beyond")


def velocity(positions: np.ndarray, names: tuple[str, ...], limits: np.ndarray, step_s: float) -> str | None:
    """Two successive rows of positions [H, N], step_s apart, are farther from each other than VELOCITY_SLACK times what the
    limits [N] allow, per s; infinite: anything."""
    with np.errstate(over="ignore"):
        speed = np.abs(np.diff(positions, axis=0)) / step_s
    if (found := _first(speed > VELOCITY_SLACK * limits)) is None:
        return None
    step, i = found
    return (f"joint '{names[i]}' moves at {speed[found]:.4g} per s from step {step} to step {step + 1}; its limit is "
            f"{limits[i]:g} per s, and the guard allows {VELOCITY_SLACK:g} times as much")


def jump(positions: np.ndarray, names: tuple[str, ...], near: np.ndarray, far: np.ndarray, allowed: np.ndarray,
         row: int) -> str | None:
    """The row of positions [H, N] that is meant for the present lies outside near to far [N], between which the arm is, by more
    than allowed [N]. NaN: it is not known where the arm is, and nothing is said of that joint.

    The arm is between where it was measured and what it was told; measured, chunks begin at most 0.016 rad or 0.019 m from there.
    What the last chunk says for the same moments tells less: when a policy changes its mind, the two disagree by as much as the
    arm moves in between, at latency 40 ms by up to 0.84 rad and at 200 ms by up to 1.33.
    """
    present = positions[row : row + 1]
    if (found := _first(np.maximum(near - present, present - far) > allowed)) is None:
        return None
    i = found[1]
    return (f"joint '{names[i]}' is at {positions[row, i]:.4g} at step {row}; the arm is at {near[i]:.4g} to {far[i]:.4g}, and "
            f"the guard allows {allowed[i]:.3g} beyond")


def _first(wrong: np.ndarray) -> tuple[int, int] | None:
    """(row, column) of the first True of bool [H, N], row by row."""
    at = np.argwhere(wrong)
    return (int(at[0, 0]), int(at[0, 1])) if len(at) else None


def _paced(pipeline: Pipeline) -> np.ndarray:
    """bool [N]: the joints that are to move at a pace. A gripper's position is a command, and a sane policy tells it from one
    step to the next to open: one with two positions always, and tabletop_vla where it leaves a plan, at up to 13 times the limit.
    A gripper is what has two positions, or a controller of its own beside one of several joints."""
    joints, outputs = pipeline.spec.joints, pipeline.contract.outputs
    arm = any(len(o.select) > 1 for o in outputs)  # else each joint of the arm may have a controller to itself
    grippers = {o.select[0] for o in outputs if o.gripper is not None or (arm and len(o.select) == 1)}
    return np.array([joint not in grippers for joint in joints])
