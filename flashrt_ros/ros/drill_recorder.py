"""An independent observer of the command topics: every trajectory window as it came, the measured joints, and what the two say at
once: is the arm commanded to move, does it move, since when does it rest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from flashrt_ros.bench.windows import Window
from flashrt_ros.contract.schema import Contract, Output
from flashrt_ros.decode.joints import JointSelector
from flashrt_ros.errors import FlashRTError
from flashrt_ros.player.limits import Limits
from flashrt_ros.ros.command_topics import WINDOWED
from flashrt_ros.ros.convert import to_ns
from flashrt_ros.ros.recorder import Recorder

EVERY_ONE = QoSProfile(depth=1000)  # reliable: a window that is missed is a window unchecked
AT_REST = 0.005  # measured speed, as a share of the velocity limit: 0.01 rad/s of 2


class CommandRecorderError(FlashRTError):
    """The contract's commands cannot be followed from outside."""


class CommandRecorder(Recorder):
    """columns: where each output's joints are among limits.names. Since the latest `forget`: joints, a list of (stamp in ns,
    positions [N], velocities [N]); missed: windows that were published and not seen here, such as a new publisher's first ones
    before it was discovered; and what `windows` returns.

    Now: commanded, measured: the fastest joint's speed as a share of its velocity limit; rest_ns: since when nothing is commanded
    and nothing moves, None while it does. Raises CommandRecorderError for outputs that are not windows of cubics.
    """

    def __init__(self, contract: Contract) -> None:
        super().__init__(contract)
        for output in contract.outputs:
            if output.channel.type != WINDOWED:
                raise CommandRecorderError(
                    f"output '{output.name}' commands by {output.channel.type}; allowed: {WINDOWED}, whose windows say what "
                    "happens when nobody commands any more. Use a contract that sends them")
        if contract.limits.jerk:
            raise CommandRecorderError("limits.jerk is set, so windows are quintics; followed are cubics. Drill without it")
        names = tuple(joint for output in contract.outputs for joint in output.select)
        self.limits = Limits.of(names, contract.limits)
        self.columns = {output.name: np.array([names.index(joint) for joint in output.select]) for output in contract.outputs}
        joints = next(i for i in contract.inputs if i.select)
        selected = tuple(f"{field}.{name}" for field in ("position", "velocity") for name in names)
        self._select = JointSelector(selected, joints.apply)
        self._newest: dict[str, Window] = {}
        self._sequence: dict[str, int] = {}  # of the newest window of each output, as its publisher counts
        self.forget()
        self.create_subscription(Clock, "/clock", self._on_clock, EVERY_ONE)
        for output in contract.outputs:
            self.create_subscription(JointTrajectory, output.channel.topic,
                                     lambda message, info, output=output: self._on_window(output, message, info), EVERY_ONE)

    def forget(self) -> None:
        with self.changed:
            self._newest.clear()
            self._windows: dict[str, list[tuple[int, Window]]] = {name: [] for name in self.columns}
            self._clock: list[tuple[int, int]] = []  # when the middleware had it, by the machine's clock; simulated time
            self.joints: list[tuple[int, np.ndarray, np.ndarray]] = []
            self.missed = 0
            self.commanded = self.measured = 0.0
            self.rest_ns: int | None = None

    def windows(self) -> dict[str, list[Window]]:
        """Per output, as they came. When: by the clock that the middleware had received before, however busy this process was."""
        with self.changed:
            walls, simulated = np.array(self._clock, dtype=np.int64).reshape(-1, 2).T
            before = lambda wall: int(simulated[max(0, np.searchsorted(walls, wall) - 1)])  # noqa: E731
            return {name: [replace(window, received_ns=before(wall)) for wall, window in came]
                    for name, came in self._windows.items()}

    def _on_clock(self, message: Clock, info: dict) -> None:
        with self.changed:
            self._clock.append((info["received_timestamp"], to_ns(message.clock)))

    def _on_window(self, output: Output, message: JointTrajectory, info: dict) -> None:
        window = window_from_message(message, output.select, self.joints_ns)
        with self.changed:
            sequence, before = info["publication_sequence_number"], self._sequence.get(output.name, 0)
            # A publisher counts from 1. The first of all may have been met late, when nothing was recorded yet.
            self.missed += sequence - 1 - (before if sequence > before else 0)
            self._sequence[output.name] = sequence
            self._newest[output.name] = window
            self._windows[output.name].append((info["received_timestamp"], window))

    def _on_joints(self, message: JointState) -> None:
        position, velocity = np.split(self._select(message).astype(np.float64), 2)
        with self.changed:
            super()._on_joints(message)
            self.joints.append((self.joints_ns, position, velocity))
            self.measured = float(np.max(np.abs(velocity) / self.limits.velocity))
            self.commanded = max((self._speed(name, window) for name, window in self._newest.items()), default=0.0)
            if self.commanded > 0 or self.measured > AT_REST:
                self.rest_ns = None
            elif self.rest_ns is None:
                self.rest_ns = self.joints_ns

    def _speed(self, name: str, window: Window) -> float:
        _, velocity, _ = window.at(np.array([self.joints_ns]))
        return float(np.max(np.abs(velocity[0]) / self.limits.velocity[self.columns[name]]))


def window_from_message(message: JointTrajectory, names: tuple[str, ...], received_ns: int) -> Window:
    """names: the controller's joints, which give the order of the columns. What the message does not give for one of them, and
    everything if it gives what is not followed (accelerations), is NaN."""
    stamp_ns, said = to_ns(message.header.stamp), list(message.joint_names)
    arrays = np.full((2, max(1, len(message.points)), len(names)), np.nan)
    usable = sorted(said) == sorted(names) and not any(len(point.accelerations) for point in message.points)
    if usable:
        order = [said.index(name) for name in names]
        for i, point in enumerate(message.points):
            for array, values in zip(arrays, (point.positions, point.velocities)):
                if len(values) == len(names):
                    array[i] = np.asarray(values)[order]
    times = [stamp_ns + to_ns(point.time_from_start) for point in message.points] or [stamp_ns]
    return Window(received_ns, np.array(times, dtype=np.int64), *arrays)
