"""One victim's turn on the demo's robot, which has a camera driver of its own: motion, kill -9, rest, restart, motion."""

from __future__ import annotations

import time
from pathlib import Path

from flashrt_ros.contract.load import load
from flashrt_ros.ros import dds
from flashrt_ros.ros.drill_recorder import CommandRecorder
from flashrt_ros.ros.drill_trial import Trial
from flashrt_ros.ros.processes import NodeProcesses
from flashrt_ros.ros.stage import KINDS, START_S, Stage, managed

CAMERA = "scene"  # the one that has a driver to kill
PATIENCE_S = 20.0  # of real time, for the arm to do what it should
FAST, MOVING = 0.3, 0.05  # speed as a share of the velocity limit: in full motion, when we kill; in motion again
QUIET_NS = 500_000_000  # an arm that has rested for so long has come to rest
AFTER_NS = 8_000_000_000  # left for the task, once the arm moves again


class DrillStage(Stage):
    recorder: CommandRecorder

    def __init__(self, nodes: NodeProcesses, contract: Path) -> None:
        parameters = {"sim": {"driven_cameras": CAMERA}, "camera": {"camera": CAMERA}, "policy": managed(contract),
                      "player": managed(contract)}
        super().__init__(nodes, parameters, lambda: CommandRecorder(load(contract)), PATIENCE_S)

    def kill(self, victim: str, seed: int) -> Trial:
        """One turn, in the scene of `seed`. Raises StageError if the arm did not move in the first place."""
        recorder = self.recorder
        # A window that is still under way at the reset would throw the arm back to where it was; and what was commanded before
        # the scene, which put the arm elsewhere, is not this turn's.
        task, start_ns = self.new_scene(seed, KINDS[seed % len(KINDS)], self._rested, lambda *_: recorder.forget())
        self.expect(lambda: recorder.commanded > FAST and recorder.measured > FAST, PATIENCE_S, "the arm to move")
        kill_ns = recorder.joints_ns
        self.nodes.kill(victim)
        dds.clean_shared_memory()  # a process that is killed leaves 32 MiB
        rest_ns = recorder.rest_ns if self.wait(self._rested, PATIENCE_S) else None
        restart_ns, restarted = recorder.joints_ns, time.monotonic()
        if victim == "player":
            self._restart_player(task)
        else:
            self.nodes.start(victim, self.parameters[victim])
        again = self.wait(lambda: recorder.commanded > MOVING and recorder.measured > MOVING, START_S)
        motion_ns, waited_s = (recorder.joints_ns, time.monotonic() - restarted) if again else (None, None)

        def done() -> bool:
            score = recorder.score
            return score.get("task") == task and score["time_ns"] > start_ns and score["success"]

        if again:
            self.wait(lambda: done() or recorder.joints_ns - motion_ns > AFTER_NS, 2 * PATIENCE_S)
        with recorder.changed:
            return Trial(victim, task, kill_ns, rest_ns, restart_ns, motion_ns, waited_s, done(), recorder.limits,
                         recorder.columns, recorder.windows(), recorder.joints, recorder.missed)

    def _restart_player(self, task: str) -> None:
        """Without a task until we hear it: the controllers may discover it seconds before us, and the arm would move unseen."""
        dead = self.recorder.state.player
        self.give_task("")
        self.nodes.start("player", self.parameters["player"])
        self.wait(lambda: self.recorder.state.player not in (0, dead), START_S)
        self.give_task(task)

    def _rested(self) -> bool:
        since = self.recorder.rest_ns
        return since is not None and self.recorder.joints_ns - since >= QUIET_NS
