"""One closed-loop episode without ROS: decisions at a fixed rate, played by the emulated trajectory controller.

For demonstrations, experiments and tests; the ROS nodes run the same world and controller in separate processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flashrt_ros.policies.instruction import Instruction
from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.sim.jtc import JointTrajectoryController, JtcError, Rejected, Trajectory, TrajectoryPoint
from flashrt_ros.sim.score import Score
from flashrt_ros.sim.world import CONTROL_NS, World


@dataclass(frozen=True)
class EpisodeResult:
    """duration_ns: simulated time until success or the limit. decisions: how many were made."""

    instruction: Instruction
    seed: int
    score: Score
    duration_ns: int
    decisions: int


def run_episode(
    world: World,
    task: Instruction | str,
    seed: int,
    decide: Callable[[World], np.ndarray],
    *,
    period_ns: int = 100_000_000,
    step_ns: int = 20_000_000,
    limit_ns: int = 20_000_000_000,
) -> EpisodeResult:
    """Reset the world and drive it until success or the limit.

    decide(world) -> joint targets [H, 7], row i for i * step_ns after now; called every period_ns and free to call
    world.render, joints or objects. No latency: the chunk plays from the moment of its decision.
    Raises JtcError when the controller refuses a chunk.
    """
    instruction = world.reset(task, seed)
    controller = JointTrajectoryController(JOINTS)
    controller.hold(world.joints()[0])
    start_ns = world.time_ns
    decisions = 0
    while not world.score().success and world.time_ns - start_ns < limit_ns:
        verdict = controller.receive(_trajectory(decide(world), world.time_ns, step_ns), world.time_ns)
        if isinstance(verdict, Rejected):
            raise JtcError(f"decision {decisions}: the controller refused the chunk ({verdict.rule}): {verdict.reason}")
        decisions += 1
        for _ in range(period_ns // CONTROL_NS):
            world.step(controller.update(world.time_ns, *world.joints()).positions)
    return EpisodeResult(instruction, seed, world.score(), world.time_ns - start_ns, decisions)


def _trajectory(targets: np.ndarray, now_ns: int, step_ns: int) -> Trajectory:
    """The rows after the first (the arm is there already), with the velocities of their central differences; at the
    last row they are zero, for the controller refuses a trajectory that ends moving."""
    velocities = np.gradient(targets, step_ns * 1e-9, axis=0)
    velocities[-1] = 0.0
    points = (
        TrajectoryPoint(targets[i], velocities[i], time_from_start_ns=i * step_ns) for i in range(1, len(targets))
    )
    return Trajectory(JOINTS, tuple(points), now_ns)
