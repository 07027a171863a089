"""The built-in robot's processes and an observer of them, scene after scene: what every command that shows the robot does.

Imports rclpy, so it is imported only when the environment is complete: the middleware reads it when it is loaded.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Callable, Mapping

import rclpy
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String
from std_srvs.srv import Trigger

from flashrt_ros.errors import FlashRTError
from flashrt_ros.msg import PipelineStatus
from flashrt_ros.ros.convert import to_ns
from flashrt_ros.ros.processes import NodeProcesses
from flashrt_ros.ros.qos import LATCHED
from flashrt_ros.ros.recorder import Recorder
from flashrt_ros.ros.spin import spinning
from flashrt_ros.srv import ResetWorld

KINDS = ("pick", "place")
START_S = 60.0  # of real time, for processes to start


class StageError(FlashRTError):
    """The robot did not start, or does not do what it is told."""


class Stage:
    """Use as a context, in a ROS domain of one's own; `nodes` ends the processes. parameters: of each node, by name, in the order
    of their start. observe(): makes the observer. patience_s: of real time, for what a robot that runs should do. modules: of nodes
    that another module than their own takes the place of."""

    def __init__(self, nodes: NodeProcesses, parameters: Mapping[str, dict[str, object]], observe: Callable[[], Recorder],
                 patience_s: float, modules: Mapping[str, str] = MappingProxyType({})) -> None:
        self.nodes, self.parameters, self._patience_s = nodes, parameters, patience_s
        for name, of_node in parameters.items():
            nodes.start(name, of_node, modules.get(name, ""))
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        self.recorder = observe()
        self._spinning = spinning(self.recorder)
        self._task = self.recorder.create_publisher(String, "task", LATCHED)
        self._reset = self.recorder.create_client(ResetWorld, "sim/reset")
        self._forget = self.recorder.create_client(Trigger, "policy/reset")

    def __enter__(self) -> Stage:
        self._spinning.__enter__()
        return self

    def __exit__(self, *exception) -> None:
        self._spinning.__exit__(*exception)
        rclpy.shutdown()

    def ready(self) -> None:
        """Returns when all nodes have started. Raises StageError if they do not."""
        self.expect(lambda: self._idle() and self.recorder.joints_ns > 0, START_S, "the nodes to start")
        if not self._reset.wait_for_service(START_S):
            raise StageError(f"waited {START_S:.0f} s for the simulator's reset service")

    def new_scene(self, seed: int, kind: str, rested: Callable[[], bool], begin: Callable[[str, int], None]) -> tuple[str, int]:
        """Gives the task of a new scene, once the arm is `rested`. Returns it, and the scene's beginning in ns of simulated time;
        begin(task, beginning) is called before the task is given."""
        self.give_task("")
        self.expect(lambda: self._idle() and rested(), self._patience_s, "the arm to come to rest")
        future = self._reset.call_async(ResetWorld.Request(seed=seed, task=kind))
        self.expect(future.done, self._patience_s, "the simulator's reset")
        scene = future.result()
        if not scene.accepted:
            raise StageError(f"the simulator refused a scene: {scene.message}")
        start_ns = to_ns(scene.stamp)
        self.expect(lambda: self.recorder.newest_image_ns() > start_ns, self._patience_s, "images of the new scene")
        self._forget.call_async(Trigger.Request())
        begin(scene.task, start_ns)
        self.give_task(scene.task)
        return scene.task, start_ns

    def give_task(self, text: str) -> None:
        self._task.publish(String(data=text))

    def wait(self, predicate: Callable[[], bool], timeout_s: float) -> bool:
        """Whether predicate() came true. Raises ProcessError if a node ends, StageError if the policy cannot run."""
        return self.recorder.wait(predicate, timeout_s, self._check)

    def expect(self, predicate: Callable[[], bool], timeout_s: float, what: str) -> None:
        if not self.wait(predicate, timeout_s):
            status = self.recorder.status
            raise StageError(f"waited {timeout_s:.0f} s for {what}; the policy says: "
                             f"{(status.reason or 'nothing') if status else 'nothing at all'}")

    def _idle(self) -> bool:
        status = self.recorder.status
        return status is not None and status.state == PipelineStatus.IDLE

    def _check(self) -> None:
        self.nodes.check()
        status = self.recorder.status
        if status is not None and status.state == PipelineStatus.INACTIVE and status.reason:
            raise StageError(f"the policy {status.reason}")


def managed(contract: object) -> dict[str, object]:
    """Parameters of policy and player, on the simulator's clock."""
    return {"contract": contract, "autostart": True, "use_sim_time": True}
