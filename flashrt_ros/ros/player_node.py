"""The player as a node: chunks in, controller commands and the execution state out, at the control rate.

A thin shell around flashrt_ros.player; it needs the contract (outputs, limits, joint states topic) and no policy.
"""

from __future__ import annotations

import array
import time
from dataclasses import replace

import numpy as np
from rclpy.executors import Executor
from rclpy.qos import qos_profile_sensor_data
from rclpy.qos_overriding_options import QoSOverridingOptions
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from flashrt_ros.chunk.chunk import ChunkError
from flashrt_ros.chunk.splice import STRATEGIES
from flashrt_ros.contract.load import load
from flashrt_ros.contract.schema import Contract
from flashrt_ros.decode.joints import JointSelector
from flashrt_ros.errors import FlashRTError
from flashrt_ros.msg import ActionChunk, ExecutionState, PipelineEpoch
from flashrt_ros.player.command import State
from flashrt_ros.player.limits import Limits
from flashrt_ros.player.player import Player, PlayerParameters
from flashrt_ros.player.verdict import Reason, Refused
from flashrt_ros.ros import realtime
from flashrt_ros.ros.command_topics import WINDOWED, CommandTopics
from flashrt_ros.ros.control_loop import ControlLoop
from flashrt_ros.ros.controller_check import ControllerCheck
from flashrt_ros.ros.convert import chunk_from_message, to_duration, to_time
from flashrt_ros.ros.description import Description
from flashrt_ros.ros.lifecycle import ManagedNode, read_only, run
from flashrt_ros.ros.player_safety import Safety
from flashrt_ros.ros.qos import ALL_CHUNKS, LATCHED

STATES = {State.IDLE: ExecutionState.IDLE, State.HOLDING: ExecutionState.HOLDING, State.PLAYING: ExecutionState.PLAYING,
          State.STOPPING: ExecutionState.STOPPING, State.FAULT: ExecutionState.FAULT, State.ESTOP: ExecutionState.ESTOP,
          State.TAKEN_OVER: ExecutionState.TAKEN_OVER, State.APPROACHING: ExecutionState.APPROACHING}
# While at rest, an arm found this far from where it was left has been moved by somebody: rad or m.
MOVED = 0.05
LOOK_S = 1.0  # how often to look who else commands
JOINTS_MAX_AGE_NS = 200_000_000  # of joint states, where the contract does not say
REFUSALS = {reason.value for reason in Reason} | {"malformed"}


class PlayerNodeError(FlashRTError):
    """The player node cannot be configured or activated."""


class PlayerNode(ManagedNode):
    interruptible = False  # half a tick would leave the player between two states, and the arm is to be brought to rest

    def __init__(self, **arguments) -> None:
        super().__init__("player", **arguments)
        self._contract_path = self.declare_parameter("contract", "", read_only("Path of the contract file")).value
        self._rate_hz = self.declare_parameter("rate_hz", 50.0, read_only("Control rate, 50 to 500 Hz")).value
        self._window_ticks = self.declare_parameter(
            "window_ticks", 2, read_only("Control ticks between two trajectory windows sent to a controller")).value
        self._realtime_priority = self.declare_parameter("realtime_priority", 0, read_only(
            "SCHED_FIFO priority of the control loop, 1 to 99; 0: normal scheduling")).value
        defaults = PlayerParameters()
        self._motion = {
            name: self.declare_parameter(name, getattr(defaults, name), read_only(text)).value for name, text in {
                "expiry_ms": "A chunk plays no longer than this after its step 0",
                "blend_ms": "Shortest time in which the difference to a new chunk fades",
                "window_ms": "How far a trajectory window follows the chunk before it stops",
                "tracking_ms": "A joint may be off its command by more than limits.tracking_error for no longer",
                "start_distance": "A first chunk that is farther from the arm (rad or m) is approached slowly",
                "approach_speed": "The share of the velocity limits that an approach may use",
                "strategy": f"What is followed when a new chunk comes: {', '.join(STRATEGIES)}",
                "ensemble_decay": "Of the strategy ensemble: above 0 the oldest prediction counts most, below 0 the newest",
            }.items()}
        self._interpolation = self.declare_parameter("interpolation", "", read_only(
            "What a controller makes of our windows: cubic, or with accelerations and limited jerk quintic; empty: quintic if "
            "limits.jerk is given")).value
        self._dry_run = self.declare_parameter("dry_run", False, read_only(
            "Publish commands under ~/dry_run/ only, never to a controller")).value
        known = self.declare_parameter("known_publishers", "", read_only(
            "Full names of nodes, by commas, that may also have publishers on the command topics")).value
        self._player: Player | None = None
        self._safety = Safety(self, (name.strip() for name in known.split(",")), lambda: self._player, self._blind)
        self._description = Description(self)
        self._controllers = ControllerCheck(self)
        self._announced: tuple[int, int] | None = None  # newest (session, epoch) heard
        self._interfaces: list = []
        self._commands: CommandTopics | None = None
        self._timer = None  # under simulated time, or in somebody else's executor
        self._loop: ControlLoop | None = None  # else
        self.create_service(Trigger, "~/wake_ups", self._serve_wake_ups)

    def configure(self) -> None:
        if not 50 <= self._rate_hz <= 500:
            raise PlayerNodeError(f"parameter rate_hz is {self._rate_hz}; allowed: 50 to 500")
        if self._window_ticks < 1:
            raise PlayerNodeError(f"parameter window_ticks is {self._window_ticks}; it must be at least 1")
        if not 0 <= self._realtime_priority <= 99:
            raise PlayerNodeError(f"parameter realtime_priority is {self._realtime_priority}; allowed: 0 (off) to 99")
        contract = load(self._contract_path)
        names = tuple(joint for output in contract.outputs for joint in output.select)
        self._tick_ns = round(1e9 / self._rate_hz)
        # A window repeats the previous one for as long as the next is under way; a controller that takes single commands
        # needs no such lead.
        lead_ns = self._window_ticks * self._tick_ns if any(o.channel.type == WINDOWED for o in contract.outputs) else 0
        self._behaviour = PlayerParameters(lead_ms=lead_ns * 1e-6, **self._motion)
        self._contract_limits = self._interpolated(Limits.of(names, contract.limits))
        self._player = self._new_player()
        joints = next((i for i in contract.inputs if i.channel.type == "sensor_msgs/msg/JointState"), None)
        self._joints_topic = joints.channel.topic if joints else "joint_states"
        self._select = JointSelector(tuple(f"position.{name}" for name in names), joints.apply if joints else ())
        self._joints_max_age_ns = joints.max_age_ns if joints and joints.max_age_ns else JOINTS_MAX_AGE_NS
        self._joints_ns = 0
        self._measured: np.ndarray | None = None
        self._joint_fault = f"no message has come on {self._joints_topic}: the measured pose is unknown"
        self._joints_seen = False
        self._said = ""  # why the last chunk was refused, or the arm was held, until one is accepted
        self._run = 0  # of the player, in the tick before
        self._rested = True  # the last command was that of an arm at rest
        self._ticks = 0
        self._sent = 0  # the player's revision in the last window
        self._commanded_ns = 0
        self._open(contract)

    def _interpolated(self, limits: Limits) -> Limits:
        """The limits, with jerk limited if the windows are to be quintic."""
        if self._interpolation not in ("", "cubic", "quintic"):
            raise PlayerNodeError(f"parameter interpolation is '{self._interpolation}'; allowed: cubic, quintic, or empty")
        if self._interpolation == "cubic" and limits.jerk is not None:
            raise PlayerNodeError("parameter interpolation is 'cubic', and the contract has limits.jerk: cubic windows have steps in "
                                  "acceleration. Leave the parameter out, or the jerk limits")
        return limits.with_jerk({}) if self._interpolation == "quintic" and limits.jerk is None else limits

    def activate(self) -> None:
        if self._joints_seen and self._measured is None:
            raise PlayerNodeError(self._joint_fault)
        self._take_news()
        if self._description.came and self._description.fault:
            raise PlayerNodeError(self._description.fault)
        self._controllers.begin(self._commands.outputs, self._player.limits, self._rate_hz, self._dry_run)
        if self._joints_seen:  # else the robot is not there yet, nor will its controllers be
            self._controllers.wait()
        self._begin_ticking()

    def deactivate(self) -> None:
        try:
            if self._player is not None and self._player.state is not State.IDLE:
                self._come_to_rest()
                self._player.deactivate()
                self._publish_state(self._now_ns(), None)
        finally:
            self._end_ticking()
            self._controllers.end()

    def cleanup(self) -> None:
        for destroy, interface in self._interfaces:
            destroy(interface)
        if self._commands is not None:
            self._commands.destroy()
        self._interfaces, self._commands, self._player = [], None, None

    def spin_once(self, executor: Executor) -> None:
        if self._loop is None:
            super().spin_once(executor)
        else:
            self._loop.step(executor)

    def _begin_ticking(self) -> None:
        if not self.driven or self.get_clock().ros_time_is_active:
            self._timer = self.create_timer(self._tick_ns * 1e-9, self._tick)
            return
        if refused := realtime.begin(self._realtime_priority):
            self.get_logger().warning(refused)
        self._loop = ControlLoop(self._tick_ns, self._tick)

    def _end_ticking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self.destroy_timer(self._timer)
            self._timer = None
        if self._loop is not None:
            self.get_logger().info(str(self._loop.wake_ups))
            self._loop = None
            realtime.end()

    def _serve_wake_ups(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """How late the control loop woke since this was last asked, as JSON."""
        if self._loop is None:
            response.message = "there is no control loop: the player is not active, or follows a simulated clock"
            return response
        response.success, response.message = True, self._loop.wake_ups.to_json()
        self._loop.wake_ups.clear()
        return response

    def _new_player(self) -> Player:
        limits = self._description.tighten(self._contract_limits)
        if self._dry_run:  # the arm stays where it is, and nothing is wrong with that
            limits = replace(limits, tracking_error=None)
        return Player(limits.names, limits, self._tick_ns, self._behaviour, self._safety.holds)

    def _take_news(self) -> None:
        """Of the robot's description; while the arm moves its limits stay as they are."""
        if self._description.news and self._player.state is State.IDLE:
            self._player = self._new_player()

    def _open(self, contract: Contract) -> None:
        options = QoSOverridingOptions.with_default_policies()

        def publisher(kind, topic, qos):
            made = self.create_publisher(kind, topic, qos, qos_overriding_options=options)
            self._interfaces.append((self.destroy_publisher, made))
            return made

        def subscription(kind, topic, callback, qos):
            made = self.create_subscription(kind, topic, callback, qos, qos_overriding_options=options)
            self._interfaces.append((self.destroy_subscription, made))

        self._commands = CommandTopics(self, contract.outputs, self._player.names, self._dry_run)
        self._state = publisher(ExecutionState, "execution_state", qos_profile_sensor_data)
        subscription(JointState, self._joints_topic, self._on_joints, qos_profile_sensor_data)
        subscription(ActionChunk, "action_chunk", self._on_chunk, ALL_CHUNKS)
        subscription(PipelineEpoch, "pipeline_epoch", self._on_epoch, LATCHED)

    def _now_ns(self) -> int:
        return self.get_clock().now().nanoseconds

    def _on_joints(self, message: JointState) -> None:
        self._joints_seen = True
        try:
            self._measured, self._joints_ns = self._select(message).astype(np.float64), self._now_ns()
            self._joint_fault = ""
        except FlashRTError as error:
            self._measured, self._joint_fault = None, str(error)

    def _blind(self) -> str:
        """Why the measured pose is not known, or empty."""
        age_ns = self._now_ns() - self._joints_ns
        if self._joint_fault or age_ns <= self._joints_max_age_ns:
            return self._joint_fault
        return f"{self._joints_topic}: the newest message is {age_ns * 1e-6:.0f} ms old: the measured pose is unknown"

    def _on_chunk(self, message: ActionChunk) -> None:
        if self._player is None or self._player.state is State.IDLE:
            return
        try:
            verdict = self._player.offer(chunk_from_message(message), self._now_ns())
        except ChunkError as error:
            self._player.counters["malformed"] += 1
            self._said = str(error)
            return
        if isinstance(verdict, Refused):
            self._said = verdict.detail
        else:
            self._player.counters["accepted"] += 1
            self._said = ""

    def _on_epoch(self, message: PipelineEpoch) -> None:
        self._announced = (message.session, message.epoch)
        if self._player is not None and self._player.state is not State.IDLE:
            self._player.epoch(message.session, message.epoch, self._now_ns())

    def _tick(self) -> None:
        now_ns = self._now_ns()
        measured = None if self._blind() else self._measured
        self._take_news()
        player = self._player
        if player.state is State.IDLE:
            if measured is None or self._description.fault or self._safety.listening or not self._controllers.clear():
                self._publish_state(now_ns, None)
                return
            player.activate(now_ns, measured)
            self._run, self._rested = player.player_id, True
            if self._announced is not None:
                player.epoch(*self._announced, now_ns)
        if self._ticks % round(LOOK_S * self._rate_hz) == 0:
            self._safety.look(self._commands.topics, now_ns)
        command = player.tick(now_ns, measured)
        self._commanded_ns = command.time_ns
        if player.player_id != self._run:
            self._run = player.player_id
            self._safety.ask_for_new_epoch(self._announced, now_ns)
        self._notice_moved(command)
        self._publish_state(now_ns, command)
        # The first command at rest is sent as well: without it a controller of single commands stops short of it.
        if not (player.at_rest and self._rested) and command.state is not State.TAKEN_OVER:
            self._commands.stream(command.position)
            # A change goes out with its tick: of the time for which both windows agree, all is left for the way.
            if player.revision != self._sent or self._ticks % self._window_ticks == 0:
                self._sent = player.revision
                self._commands.send_window(player.window(now_ns))
        self._rested = player.at_rest
        self._ticks += 1

    def _notice_moved(self, command) -> None:
        """Hold where it is an arm that somebody has moved while it was at rest."""
        player, error = self._player, command.tracking_error
        if self._dry_run or error is None or not error > MOVED:
            return
        if command.state is State.HOLDING and Reason.TRACKING not in player.holds:
            missed = np.abs(self._measured - command.position)
            joint = int(np.argmax(missed))
            self._said = f"{player.names[joint]} was moved by {missed[joint]:.3g} while the arm was at rest: it is held there"
            player.hold_at(self._measured)
            player.counters["moved_at_rest"] += 1

    def _come_to_rest(self) -> None:
        """Controllers of windows get one last window, which ends in a stop; the others are led through it. An arm at rest
        gets nothing: somebody else may have it."""
        if self._player.at_rest:
            return
        self._player.stop("deactivate")
        points = self._player.window(self._now_ns())
        self._commands.send_window(points)
        if self._commands.streams:
            for point in points:
                if point.time_ns > self._commanded_ns:
                    self._commands.stream(point.position)
                    time.sleep(self._tick_ns * 1e-9)
        self._commands.wait_until_delivered()

    def _publish_state(self, now_ns: int, command) -> None:
        player = self._player
        message = ExecutionState(state=STATES[player.state], tick_dt=to_duration(self._tick_ns), names=list(player.names))
        message.header.stamp = to_time(command.time_ns if command else now_ns)
        held = player.holds.first
        message.reason = self.reason or ("" if held is None else player.holds.said(held)) or self._description.fault \
            or self._blind() or self._controllers.fault or self._said
        if self._dry_run:
            message.reason = f"dry run; {message.reason}" if message.reason else "dry run"
        if command is not None:
            cursor = command.cursor
            message.player, message.tick = cursor.player, cursor.tick
            message.session, message.epoch, message.seq, message.step = cursor.session, cursor.epoch, cursor.seq, float(cursor.step)
            message.position = array.array("d", command.position.tobytes())
            message.velocity = array.array("d", command.velocity.tobytes())
        message.chunks_accepted = player.counters["accepted"]
        causes = {cause: count for cause, count in player.counters.items() if cause != "accepted" and count}
        message.chunks_refused = sum(count for cause, count in causes.items() if cause in REFUSALS)
        message.refusal_causes, message.refusal_counts = list(causes), list(causes.values())
        self._state.publish(message)


def main() -> None:
    run(PlayerNode)


if __name__ == "__main__":
    main()
