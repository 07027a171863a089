"""The policy node of a drill: plants faults in its own decisions and says so on `~/planted`.

Parameters beside the policy node's: seed, of the plan; episode, of the plan, settable at any time (see FaultyMaker). Its black
box keeps every file: an observer wants to see each.
"""

from __future__ import annotations

from functools import partial

from rcl_interfaces.msg import SetParametersResult
from rclpy.parameter import Parameter
from std_msgs.msg import String

from flashrt_ros.ros.fault_maker import FaultyMaker
from flashrt_ros.ros.fault_plan import Planted
from flashrt_ros.ros.lifecycle import read_only, run
from flashrt_ros.ros.policy_node import PolicyNode
from flashrt_ros.ros.qos import EVENTS


class FaultNode(PolicyNode):
    black_boxes = 100_000

    def __init__(self, **arguments) -> None:
        super().__init__(**arguments)
        seed = self.declare_parameter("seed", 0, read_only("Of the plan of faults")).value
        self.declare_parameter("episode", -1)
        self.add_on_set_parameters_callback(self._on_parameters)
        self._planted = self.create_publisher(String, "~/planted", EVENTS)
        self.make_maker = partial(FaultyMaker, seed=seed, tell=self._tell)

    def _tell(self, planted: Planted) -> None:
        self._planted.publish(String(data=planted.to_text()))

    def _on_parameters(self, parameters: list[Parameter]) -> SetParametersResult:
        for parameter in parameters:
            if parameter.name == "episode":
                if self._decider is None:
                    return SetParametersResult(successful=False, reason="the node is not active")
                self._decider.maker.episode = parameter.value
        return SetParametersResult(successful=True)


def main() -> None:
    run(FaultNode)


if __name__ == "__main__":
    main()
