"""The demo's processes, a camera driver of its own beside them, and one victim's turn: motion, kill -9, rest, restart, motion."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable

import rclpy
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String
from std_srvs.srv import Trigger

from flashrt_ros.contract.load import load
from flashrt_ros.msg import PipelineStatus
from flashrt_ros.ros import dds
from flashrt_ros.ros.convert import to_ns
from flashrt_ros.ros.drill_recorder import CommandRecorder
from flashrt_ros.ros.drill_trial import DrillError, Trial
from flashrt_ros.ros.processes import NodeProcesses
from flashrt_ros.ros.qos import LATCHED
from flashrt_ros.ros.spin import spinning
from flashrt_ros.srv import ResetWorld

CAMERA = "scene"  # the one that has a driver to kill
KINDS = ("pick", "place")
START_S, PATIENCE_S = 60.0, 20.0  # of real time, for processes to start and for the arm to do what it should
FAST, MOVING = 0.3, 0.05  # speed as a share of the velocity limit: in full motion, when we kill; in motion again
QUIET_NS = 500_000_000  # an arm that has rested for so long has come to rest
AFTER_NS = 8_000_000_000  # left for the task, once the arm moves again


class Stage:
    """Use as a context, in a ROS domain of one's own; `nodes` ends the processes."""

    def __init__(self, nodes: NodeProcesses, contract: Path) -> None:
        managed = {"contract": contract, "autostart": True, "use_sim_time": True}
        self._parameters = {"sim": {"driven_cameras": CAMERA}, "camera": {"camera": CAMERA}, "policy": managed, "player": managed}
        self._nodes = nodes
        for name, parameters in self._parameters.items():
            nodes.start(name, parameters)
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        self._recorder = CommandRecorder(load(contract))
        self._spinning = spinning(self._recorder)
        self._task = self._recorder.create_publisher(String, "task", LATCHED)
        self._reset = self._recorder.create_client(ResetWorld, "sim/reset")
        self._forget = self._recorder.create_client(Trigger, "policy/reset")

    def __enter__(self) -> Stage:
        self._spinning.__enter__()
        return self

    def __exit__(self, *exception) -> None:
        self._spinning.__exit__(*exception)
        rclpy.shutdown()

    def ready(self) -> None:
        """Returns when all nodes have started. Raises DrillError if they do not."""
        self._expect(lambda: self._idle() and self._recorder.joints_ns > 0, START_S, "the nodes to start")
        if not self._reset.wait_for_service(START_S):
            raise DrillError(f"waited {START_S:.0f} s for the simulator's reset service")

    def kill(self, victim: str, seed: int) -> Trial:
        """One turn, in the scene of `seed`. Raises DrillError if the arm did not move in the first place."""
        recorder = self._recorder
        task, start_ns = self._new_scene(seed)
        self._expect(lambda: recorder.commanded > FAST and recorder.measured > FAST, PATIENCE_S, "the arm to move")
        kill_ns = recorder.joints_ns
        self._nodes.kill(victim)
        dds.clean_shared_memory()  # a process that is killed leaves 32 MiB
        rest_ns = recorder.rest_ns if self._wait(self._rested, PATIENCE_S) else None
        restart_ns, restarted = recorder.joints_ns, time.monotonic()
        if victim == "player":
            self._restart_player(task)
        else:
            self._nodes.start(victim, self._parameters[victim])
        again = self._wait(lambda: recorder.commanded > MOVING and recorder.measured > MOVING, START_S)
        motion_ns, waited_s = (recorder.joints_ns, time.monotonic() - restarted) if again else (None, None)

        def done() -> bool:
            score = recorder.score
            return score.get("task") == task and score["time_ns"] > start_ns and score["success"]

        if again:
            self._wait(lambda: done() or recorder.joints_ns - motion_ns > AFTER_NS, 2 * PATIENCE_S)
        with recorder.changed:
            return Trial(victim, task, kill_ns, rest_ns, restart_ns, motion_ns, waited_s, done(), recorder.limits,
                         recorder.columns, recorder.windows(), recorder.joints, recorder.missed)

    def _restart_player(self, task: str) -> None:
        """Without a task until we hear it: the controllers may discover it seconds before us, and the arm would move unseen."""
        dead = self._recorder.state.player
        self._task.publish(String(data=""))
        self._nodes.start("player", self._parameters["player"])
        self._wait(lambda: self._recorder.state.player not in (0, dead), START_S)
        self._task.publish(String(data=task))

    def _new_scene(self, seed: int) -> tuple[str, int]:
        """Gives the task of a new scene. Returns it, and the scene's beginning in ns of simulated time."""
        recorder = self._recorder
        self._task.publish(String(data=""))
        # A window that is still under way at the reset would throw the arm back to where it was.
        self._expect(lambda: self._idle() and self._rested(), PATIENCE_S, "the arm to come to rest")
        future = self._reset.call_async(ResetWorld.Request(seed=seed, task=KINDS[seed % len(KINDS)]))
        self._expect(future.done, PATIENCE_S, "the simulator's reset")
        scene = future.result()
        if not scene.accepted:
            raise DrillError(f"the simulator refused a scene: {scene.message}")
        start_ns = to_ns(scene.stamp)
        self._expect(lambda: recorder.newest_image_ns() > start_ns, PATIENCE_S, "images of the new scene")
        recorder.forget()  # what was commanded before the scene, which put the arm elsewhere
        self._forget.call_async(Trigger.Request())
        self._task.publish(String(data=scene.task))
        return scene.task, start_ns

    def _idle(self) -> bool:
        status = self._recorder.status
        return status is not None and status.state == PipelineStatus.IDLE

    def _rested(self) -> bool:
        since = self._recorder.rest_ns
        return since is not None and self._recorder.joints_ns - since >= QUIET_NS

    def _check(self) -> None:
        self._nodes.check()
        status = self._recorder.status
        if status is not None and status.state == PipelineStatus.INACTIVE and status.reason:
            raise DrillError(f"the policy {status.reason}")

    def _wait(self, predicate: Callable[[], bool], timeout_s: float) -> bool:
        return self._recorder.wait(predicate, timeout_s, self._check)

    def _expect(self, predicate: Callable[[], bool], timeout_s: float, what: str) -> None:
        if not self._wait(predicate, timeout_s):
            status = self._recorder.status
            raise DrillError(f"waited {timeout_s:.0f} s for {what}; the policy says: "
                             f"{(status.reason or 'nothing') if status else 'nothing at all'}")
