"""The policy as a node: wires subscriptions, the decider, publishers and services of one contract together.

configure = load, verify, allocate, warm up; activate = a new session that decides; deactivate = stop deciding;
cleanup = free everything. What a decision is lives in decider.py and the engine.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import partial
from typing import Callable

from rclpy.qos import qos_profile_sensor_data
from std_srvs.srv import Trigger

from flashrt_ros.capsule.assembly import assemble
from flashrt_ros.capsule.black_box import BlackBox
from flashrt_ros.capsule.maker import WAY_NS, ChunkMaker, Made
from flashrt_ros.capsule.record import Digests
from flashrt_ros.capsule.shelf import Shelf
from flashrt_ros.contract.load import load
from flashrt_ros.contract.verify import verify
from flashrt_ros.engine.engine import Engine
from flashrt_ros.engine.intake import Intake
from flashrt_ros.errors import FlashRTError
from flashrt_ros.msg import ActionChunk, ExecutionState, PipelineEpoch, PipelineEvent, PipelineStatus
from flashrt_ros.player.limits import Limits
from flashrt_ros.ros.capsule_services import CapsuleServices
from flashrt_ros.ros.decider import Decider, Event
from flashrt_ros.ros.inputs import Inputs
from flashrt_ros.ros.lifecycle import ManagedNode, read_only, run
from flashrt_ros.ros.player_states import PlayerStates
from flashrt_ros.ros.qos import EVENTS, LATCHED, RELIABLE
from flashrt_ros.ros.session import Session
from flashrt_ros.ros.status import action_chunk, pipeline_status
from flashrt_ros.srv import SetTask


class PolicyNode(ManagedNode):
    """make_maker: called as ChunkMaker is; black_boxes: files that are kept. A drill puts a maker that plants faults in the one's place,
    and keeps every file."""

    make_maker: Callable[..., ChunkMaker] = ChunkMaker
    black_boxes = 64

    def __init__(self, **arguments) -> None:
        super().__init__("policy", **arguments)
        self._contract_path = self.declare_parameter("contract", "", read_only("Path of the contract file")).value
        self._device = self.declare_parameter("device", "cpu", read_only("Where the policy runs: cpu, cuda or cuda:<index>")).value
        self._threads = self.declare_parameter("threads", 1, read_only("CPU threads of PyTorch")).value
        self._engine: Engine | None = None
        self._inputs: Inputs | None = None
        self._decider: Decider | None = None
        self._digests = Digests("", "", "")
        self._black_box: BlackBox | None = None
        self._shelf: Shelf | None = None
        self._warnings: tuple[str, ...] = ()
        self._player = PlayerStates()
        self._timer = None
        self._status = self.create_publisher(PipelineStatus, "~/status", LATCHED)
        self._events = self.create_publisher(PipelineEvent, "~/events", EVENTS)
        self._epoch = self.create_publisher(PipelineEpoch, "pipeline_epoch", LATCHED)
        self._chunks = self.create_publisher(ActionChunk, "action_chunk", RELIABLE)
        self.create_subscription(ExecutionState, "execution_state", self._player.hear, qos_profile_sensor_data)
        self.create_service(SetTask, "~/set_task", self._on_set_task)
        self.create_service(Trigger, "~/reset", self._on_reset)
        CapsuleServices(self, lambda: self._decider, lambda: self._shelf)
        self.create_timer(1.0, self._publish_status)

    def configure(self) -> None:
        contract = load(self._contract_path)
        self._engine, self._digests = assemble(contract, self._device, self._threads, background="thread")
        pipeline = self._engine.pipeline
        stage_ms = self._engine.warm_up()
        verify(contract, pipeline.spec, stage_ms)  # again, now that the stages' times on this machine are known
        self._intake = Intake(pipeline)
        self._inputs = Inputs(self, pipeline, self._intake, self._engine.policy.encode_text, self._on_task)
        self._black_box = BlackBox(contract.rollback.black_box, self._engine, self.black_boxes)
        self._shelf = Shelf(self._engine, contract.rollback.black_box)
        self._warnings = pipeline.warnings
        self._text = pipeline.instruction
        for warning in pipeline.warnings:
            self.get_logger().warning(warning)
        self.get_logger().info("configured " + ", ".join(f"{stage} {ms:.1f} ms" for stage, ms in stage_ms.items()))

    def activate(self) -> None:
        self._check_joints()
        self._engine.reset()
        session = Session(self._announce)
        clock = self.get_clock()
        contract, joints = self._engine.pipeline.contract, self._engine.pipeline.spec.joints
        limits = Limits.of(joints, contract.limits)
        maker = self.make_maker(self._engine, self._intake, self._digests, contract.deadline_ns + WAY_NS, limits,
                                time.monotonic_ns, self._black_box)
        self._decider = Decider(maker, session, lambda: clock.now().nanoseconds, self._inputs.decode,
                                partial(self._player.at, joints=joints), self._publish_chunk, self._publish_status,
                                partial(self._publish_event, session.id))
        session.raise_epoch("activate")
        self._decider.start()
        if self._text:
            self._on_task("", self._text)
        self._timer = self.create_timer(self._engine.pipeline.period_ns * 1e-9, self._decider.wake)

    def deactivate(self) -> None:
        if self._timer is not None:
            self.destroy_timer(self._timer)
            self._timer = None
        if self._decider is not None:
            self._decider.stop()
            self._decider = None
            self._intake.reset()

    def cleanup(self) -> None:
        if self._inputs is not None:
            self._inputs.close()
            self._inputs = None
        if self._black_box is not None:
            self._black_box.close()
            self._black_box = None
        if self._shelf is not None:
            self._shelf.close()
            self._shelf = None
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def reason_changed(self) -> None:
        self._publish_status()

    def _check_joints(self) -> None:
        """Refuse activation when joint states have come and lack a joint of the contract."""
        for name, raw in self._inputs.newest.items():
            if self._engine.pipeline.input[name].select:
                self._inputs.decode(name, raw)

    def _announce(self, session: int, epoch: int, reason: str) -> None:
        stamp = self.get_clock().now().to_msg()
        self._epoch.publish(PipelineEpoch(stamp=stamp, session=session, epoch=epoch, reason=reason))

    def _publish_chunk(self, made: Made) -> None:
        self._chunks.publish(action_chunk(made, self._decider))

    def _publish_event(self, session: int, event: Event) -> None:
        self._events.publish(PipelineEvent(stamp=self.get_clock().now().to_msg(), session=session, **asdict(event)))

    def _publish_status(self) -> None:
        now_ns = self.get_clock().now().nanoseconds
        decider = self._decider
        if decider is not None and decider.bug:
            self.get_logger().error(decider.bug, throttle_duration_sec=5.0)
        self._status.publish(pipeline_status(decider, self._inputs, now_ns, self.reason, self._digests, self._warnings,
                                             self._black_box))

    def _on_task(self, name: str, text: str) -> None:
        """An instruction came on the topic. There is nobody to answer to: what can't be followed ends the old task."""
        text = text.strip()
        self._text = text
        if self._decider is None:
            return
        try:
            if text:
                self._engine.policy.encode_text(text)
            self._decider.set_task(text)
        except FlashRTError as error:
            self.get_logger().warning(f"task refused: {error}")
            self._text = ""
            self._decider.refuse_task(str(error))

    def _on_set_task(self, request: SetTask.Request, response: SetTask.Response) -> SetTask.Response:
        if self._decider is None:
            response.message = f"the node is not active; {self.reason or 'activate it first'}"
            return response
        text = request.text.strip()
        try:
            if text:
                self._engine.policy.encode_text(text)
        except FlashRTError as error:
            response.message, response.epoch = str(error), self._decider.session.epoch
            return response
        self._decider.set_task(text)
        self._text = text
        response.accepted, response.epoch = True, self._decider.session.epoch
        return response

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._decider is None:
            response.message = "the node is not active"
            return response
        response.success, response.message = True, f"epoch {self._decider.reset()}"
        return response


def main() -> None:
    run(PolicyNode)


if __name__ == "__main__":
    main()
