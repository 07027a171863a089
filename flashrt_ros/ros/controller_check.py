"""The parameters of the controllers that the player commands, read and judged before the arm moves. Owns how they are asked
for; what they must be, flashrt_ros.player.controller knows."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python

from flashrt_ros.contract.schema import Output
from flashrt_ros.errors import FlashRTError
from flashrt_ros.player.controller import Commands, judge, matters
from flashrt_ros.player.limits import Limits
from flashrt_ros.ros.command_topics import FORWARD, WINDOWED
from flashrt_ros.ros.lifecycle import read_only

# Of real time: what the middleware may take to find a controller beside a robot that is there already, also on a busy machine;
# and what a controller that was found may take to answer.
FOUND_S, ANSWER_S = 2.0, 5.0


class ControllerError(FlashRTError):
    """A controller would not execute what the player sends as it is meant."""


class ControllerCheck:
    """Parameter `check_controllers`. fault: why nothing may be commanded (yet), or empty. The controllers are asked anew at
    each activation, from the first `step` on."""

    def __init__(self, node: LifecycleNode) -> None:
        self._node = node
        self._used = node.declare_parameter("check_controllers", True, read_only(
            "Read the parameters of the controllers at activation, and refuse what would not execute our commands")).value
        self.fault = ""
        self._commands: list[Commands] = []
        self._questions: _Questions | None = None

    def begin(self, outputs: Iterable[Output], limits: Limits, rate_hz: float, dry_run: bool) -> None:
        """What is going to be commanded. In a dry run nothing is, and all findings are warnings. Outputs of JointState have no
        controller to ask."""
        self.end()
        tracking = dict(zip(limits.names, limits.tracking_error))
        sim_time = self._node.get_parameter("use_sim_time").value
        self._dry_run = dry_run
        self._commands = [
            Commands(self._node.resolve_topic_name(output.channel.topic), output.select, output.channel.type == WINDOWED, rate_hz,
                     tracking, sim_time)
            for output in outputs if self._used and output.channel.type in (WINDOWED, FORWARD)]
        if self._commands:
            self.fault = "the controllers have not yet been asked for their parameters"

    def step(self, wait_s: float = 0.0) -> bool:
        """Go on asking, for about wait_s; whether `fault` is final. Logs the warnings."""
        if not self._commands:
            return True
        if self._questions is None:
            self._questions = _Questions(self._node, {c.controller for c in self._commands})
        if not self._questions.step(wait_s):
            return False
        self._judge(self._questions.answers)
        self.end(self.fault)
        return True

    def wait(self) -> None:
        """Until all have answered or are given up, for ANSWER_S at most. Raises ControllerError if there is a fault."""
        while not self.step(0.01):
            pass
        if self.fault:
            raise ControllerError(self.fault)

    def clear(self) -> bool:
        """Go on asking without waiting; whether the arm may be commanded. A fault that is final is logged, once."""
        if self._commands and self.step() and self.fault:
            self._node.get_logger().error(self.fault)
        return not self.fault

    def end(self, fault: str = "") -> None:
        """Ask no more."""
        self.fault, self._commands = fault, []
        if self._questions is not None:
            self._questions.close()
            self._questions = None

    def _judge(self, answers: dict[str, dict[str, object]]) -> None:
        refused = []
        for commands in self._commands:
            if (parameters := answers.get(commands.controller)) is None:
                self._node.get_logger().warning(
                    f"{commands.controller}: no such node answers for its parameters, so they were not checked. Without "
                    f"ros2_control that is right: set check_controllers:=false. Else start the controller first")
                continue
            for finding in judge(parameters, commands):
                if finding.refused and not self._dry_run:
                    refused.append(str(finding))
                else:
                    self._node.get_logger().warning(str(finding))
        self.fault = "; ".join(refused)


class _Questions:
    """Asks all at once. By a node with an executor of its own: that of the player's node waits for the end of the transition
    that asks. answers: by controller, the parameters that matter; those that did not answer are missing."""

    def __init__(self, node: Node, controllers: set[str]) -> None:
        self._node = Node(f"{node.get_name()}_asks", namespace=node.get_namespace(), context=node.context,
                          use_global_arguments=False, enable_rosout=False, start_parameter_services=False)
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(self._node)
        self._clients = {controller: (self._node.create_client(ListParameters, f"{controller}/list_parameters"),
                                      self._node.create_client(GetParameters, f"{controller}/get_parameters"))
                         for controller in controllers}
        self._began_s = time.monotonic()
        self._asked = {}

    @property
    def answers(self) -> dict[str, dict[str, object]]:
        return {name: task.result() for name, task in self._asked.items() if task.done() and task.result() is not None}

    def step(self, wait_s: float) -> bool:
        """Whether there is nothing left to wait for."""
        for controller, clients in self._clients.items():
            if controller not in self._asked and all(client.service_is_ready() for client in clients):
                self._asked[controller] = self._executor.create_task(_ask, *clients)
        self._executor.spin_once(timeout_sec=wait_s)
        waiting = {name for name in self._clients if name not in self._asked or not self._asked[name].done()}
        seen = {f"{namespace.rstrip('/')}/{name}" for name, namespace in self._node.get_node_names_and_namespaces()}
        waited_s = time.monotonic() - self._began_s
        return not waiting or waited_s > ANSWER_S or (waited_s > FOUND_S and not seen & waiting)

    def close(self) -> None:
        self._executor.shutdown()
        self._node.destroy_node()


async def _ask(lister, getter) -> dict[str, object] | None:
    # In two steps, because asking for a name that this version does not have is answered with nothing at all.
    listed = await lister.call_async(ListParameters.Request())
    names = [name for name in listed.result.names if matters(name)]
    values = (await getter.call_async(GetParameters.Request(names=names))).values
    return dict(zip(names, map(parameter_value_to_python, values))) if len(values) == len(names) else None
