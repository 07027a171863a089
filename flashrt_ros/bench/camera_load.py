"""Camera load: what three cameras and the joint states cost a node that is shaped as the policy node.

Owns the measurement only. A publisher process sends rgb8 images and JointState over real DDS; a receiver process stores
the newest message of each input, and its one worker thread takes an observation, decodes it and runs a constant policy.
Variants: subscriptions that deserialise every message, or raw ones of which only what the worker takes is deserialised;
with config/fastdds.xml, or with Fast DDS as it comes. rclpy is imported in the two child processes only.

    python -m flashrt_ros.bench.camera_load --seconds 20 --json out/camera_load.json
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable

import cv2
import numpy as np

from flashrt_ros.bench.machine import machine
from flashrt_ros.contract.schema import Image as ImageSpec
from flashrt_ros.decode import images
from flashrt_ros.decode.joints import JointSelector
from flashrt_ros.errors import FlashRTError
from flashrt_ros.ros import dds

CAMERAS = ("scene", "wrist", "side")
STATES = "joint_states"
TOPICS = (*CAMERAS, STATES)
JOINTS = tuple(f"joint_{i}" for i in range(7))
HEIGHT, WIDTH = 480, 640
PERIOD_NS = {**dict.fromkeys(CAMERAS, 33_333_333), STATES: 5_000_000}
# Nominally 10 Hz, but no multiple of the camera period: decisions meet every phase of it instead of a lucky one.
DECISION_NS = 99_000_000
DISCOVERY_S, DRAIN_S = 30.0, 0.3
FRAMES_MIN, AGE_MAX_MS, CPU_MAX = 0.99, 50.0, 60.0  # the bars: share, p99 of the age when taken, % of one core


class LoadError(FlashRTError):
    """The measurement could not be made."""


@dataclass(frozen=True)
class Row:
    """One run. Times in ms. cpu: % of one core over all threads of the receiver, from the first message to the last."""

    raw: bool
    profile: bool
    published: dict[str, int]
    received: dict[str, int]
    decisions: int
    cpu: float
    taken_age_p50: float  # of the oldest input, when the observation is taken: what a contract's max_age_ms bounds
    taken_age_p99: float
    age_p50: float  # of the oldest input, when the policy gets the decoded observation
    age_p99: float
    callback_p50: float  # images: from the stamp to the callback
    callback_p99: float
    take_p50: float  # the worker's part: deserialise (if raw) and decode one observation
    take_p99: float
    load_average: float

    @property
    def frames(self) -> float:
        """Share of the camera frames that arrived."""
        return sum(self.received[c] for c in CAMERAS) / sum(self.published[c] for c in CAMERAS)

    @property
    def met(self) -> bool:
        return self.frames >= FRAMES_MIN and self.taken_age_p99 <= AGE_MAX_MS and self.cpu <= CPU_MAX


# ------------------------------------------------------------------------------------------------ the publisher process
def publish(seconds: float) -> None:
    """Send the load once a line arrives on stdin, print the counts, live on until stdin closes.

    Stamps are CLOCK_MONOTONIC, which the processes of a machine share and nothing sets back.
    """
    import rclpy
    from builtin_interfaces.msg import Time
    from rclpy.qos import qos_profile_sensor_data
    from sensor_msgs.msg import Image, JointState

    rclpy.init()
    try:
        node = rclpy.create_node("camera_load_publisher")
        publishers = {
            t: node.create_publisher(JointState if t == STATES else Image, t, qos_profile_sensor_data) for t in TOPICS
        }
        _await(lambda: all(p.get_subscription_count() for p in publishers.values()), "subscriptions")
        frame = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
        messages = {c: Image() for c in CAMERAS}
        state = JointState(name=list(JOINTS), position=[0.1] * len(JOINTS), velocity=[0.0] * len(JOINTS))
        counts = dict.fromkeys(TOPICS, 0)
        print("matched", flush=True)
        sys.stdin.readline()

        start = time.monotonic_ns()
        due = dict.fromkeys(TOPICS, start)  # all cameras at the same instants: a burst, the hardest case
        while min(due.values()) - start < seconds * 1e9:
            topic = min(due, key=due.__getitem__)
            time.sleep(max(0, due[topic] - time.monotonic_ns()) / 1e9)
            now = time.monotonic_ns()
            stamp = Time(sec=now // 10**9, nanosec=now % 10**9)
            if topic == STATES:
                state.header.stamp = stamp
                publishers[topic].publish(state)
            else:
                frame[0, 0] = counts[topic] % 256
                publishers[topic].publish(images.encode(frame, messages[topic], topic, stamp))
            counts[topic] += 1
            due[topic] = max(due[topic] + PERIOD_NS[topic], now)  # what is late is skipped, not made up for in a burst
        print(json.dumps(counts), flush=True)
        sys.stdin.read()
    finally:
        if rclpy.ok():
            rclpy.shutdown()


# ------------------------------------------------------------------------------------------------- the receiver process
class Receiver:
    """The policy node's way with its inputs, and a record of it."""

    def __init__(self, raw: bool) -> None:
        from rclpy.serialization import deserialize_message
        from sensor_msgs.msg import Image, JointState

        self.raw, self.types = raw, {t: JointState if t == STATES else Image for t in TOPICS}
        self.newest: dict[str, Any] = {}
        self.received = dict.fromkeys(TOPICS, 0)
        self.latencies: list[int] = []  # ns, per frame
        self.decisions: list[tuple[int, int, int]] = []  # ns: stamp of the oldest input, when taken, when decoded
        self.last_frame = 0  # ns
        self.began: tuple[float, float] | None = None  # wall and CPU seconds at the first message
        self.stop = threading.Event()
        self._deserialize = deserialize_message
        self._image = ImageSpec(size=(96, 96), resize="pad")
        self._select = JointSelector(tuple(f"position.{j}" for j in JOINTS))

    def store(self, topic: str, message: Any) -> None:
        """The subscription's callback: executor thread."""
        now = time.monotonic_ns()
        self.began = self.began or (time.monotonic(), time.process_time())
        self.newest[topic] = message
        self.received[topic] += 1
        if topic != STATES:
            self.latencies.append(now - self._stamp_ns(message))
            self.last_frame = now

    def work(self) -> None:
        """Take an observation at each decision: worker thread."""
        due = time.monotonic_ns()
        while not self.stop.wait(max(0, due - time.monotonic_ns()) / 1e9):
            due += DECISION_NS
            taken = dict(self.newest)
            if len(taken) < len(TOPICS):
                continue
            start, oldest = time.monotonic_ns(), min(map(self._stamp_ns, taken.values()))
            for topic, message in taken.items():
                if self.raw:
                    message = self._deserialize(message, self.types[topic])
                self._select(message) if topic == STATES else images.decode(message, self._image, topic)
            self.decisions.append((oldest, start, time.monotonic_ns()))

    def _stamp_ns(self, message: Any) -> int:
        if self.raw:  # CDR: 4 bytes of encapsulation, then the header's stamp, for every message that begins with one
            sec, nanosec = struct.unpack_from("<iI" if message[1] & 1 else ">iI", message, 4)
        else:
            sec, nanosec = message.header.stamp.sec, message.header.stamp.nanosec
        return sec * 10**9 + nanosec


def receive(raw: bool) -> None:
    """Run a Receiver until stdin closes, then print its record."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.qos import qos_profile_sensor_data

    cv2.setNumThreads(1)
    receiver, closed = Receiver(raw), threading.Event()
    rclpy.init()
    try:
        node = rclpy.create_node("camera_load_receiver")
        subscriptions = [
            node.create_subscription(
                type_, topic, lambda m, t=topic: receiver.store(t, m), qos_profile_sensor_data, raw=raw
            )
            for topic, type_ in receiver.types.items()
        ]
        _await(lambda: all(s.get_publisher_count() for s in subscriptions), "publishers")
        print("matched", flush=True)
        threading.Thread(target=lambda: (sys.stdin.read(), closed.set()), daemon=True).start()
        worker = threading.Thread(target=receiver.work)
        worker.start()
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        while not closed.is_set():
            executor.spin_once(timeout_sec=0.1)
        wall, cpu = time.monotonic(), time.process_time()
        receiver.stop.set()
        worker.join()
        quiet_since, seen = time.monotonic(), sum(receiver.received.values())
        while time.monotonic() - quiet_since < DRAIN_S:
            executor.spin_once(timeout_sec=0.05)
            if sum(receiver.received.values()) > seen:
                quiet_since, seen = time.monotonic(), sum(receiver.received.values())
    finally:
        if rclpy.ok():
            rclpy.shutdown()
    # Decisions after the last frame do not count: the load was over.
    decisions = np.array([d for d in receiver.decisions if d[1] <= receiver.last_frame]).reshape(-1, 3) / 1e6
    if not len(decisions):
        raise LoadError(f"no observation was complete; received {receiver.received}; run `flashrt doctor`")
    oldest, taken, decoded = decisions.T
    record = {
        "received": receiver.received,
        "decisions": len(decisions),
        "cpu": 100 * (cpu - receiver.began[1]) / (wall - receiver.began[0]),
    }
    callback = np.array(receiver.latencies) / 1e6
    times = {"callback": callback, "taken_age": taken - oldest, "take": decoded - taken, "age": decoded - oldest}
    for name, values in times.items():
        record |= {f"{name}_p{p}": np.percentile(values, p) for p in (50, 99)}
    print(json.dumps(record), flush=True)


def _await(condition: Callable[[], bool], what: str) -> None:
    """Discovery runs in the middleware's own threads; rclpy offers no event for it."""
    end = time.monotonic() + DISCOVERY_S
    while not condition():
        if time.monotonic() > end:
            raise LoadError(f"no {what} within {DISCOVERY_S} s; check that nothing blocks UDP on the loopback device")
        time.sleep(0.02)


# --------------------------------------------------------------------------------------------------- the parent process
def measure(seconds: float, raw: bool, profile: bool) -> Row:
    """One run, in a ROS domain of its own. Raises LoadError when a child process fails."""
    with dds.claim_domain() as domain:
        env = {k: v for k, v in os.environ.items() if not k.endswith("_DEFAULT_PROFILES_FILE")}
        ours = dds.environment()
        env |= ours if profile else {k: v for k, v in ours.items() if not k.endswith("_DEFAULT_PROFILES_FILE")}
        env["ROS_DOMAIN_ID"] = str(domain)
        load_average = os.getloadavg()[0]
        publisher = _child(env, "publish", "--seconds", str(seconds))
        receiver = _child(env, "receive", *["--raw"] * raw)
        with publisher, receiver:
            try:
                for child in (publisher, receiver):
                    _line(child)  # "matched"
                publisher.stdin.write("go\n")
                publisher.stdin.flush()
                published = json.loads(_line(publisher))
                receiver.stdin.close()
                record = json.loads(_line(receiver))
            except BaseException:
                for child in (publisher, receiver):
                    child.kill()
                raise
        return Row(raw=raw, profile=profile, published=published, load_average=load_average, **record)


def _child(env: dict[str, str], *arguments: str) -> subprocess.Popen:
    """In a session of its own: Ctrl-C reaches the parent only, which ends its children.."""
    command = [sys.executable, "-m", "flashrt_ros.bench.camera_load", "--child", *arguments]
    return subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def _line(child: subprocess.Popen) -> str:
    line = child.stdout.readline()
    if not line:
        raise LoadError(f"'{' '.join(child.args[3:])}' ended early with status {child.wait()}; its error stands above")
    return line


def table(rows: list[Row]) -> str:
    """One line per run; times in ms, as p50 / p99. `load` is the machine's load average before the run."""
    titles = {"callback": "callback", "taken_age": "age taken", "take": "take", "age": "age at use"}
    heads = "  ".join(f"{title:<13}" for title in titles.values())
    lines = [f"subscription  profile  frames  joints  CPU %   {heads}  load  bar"]
    for r in rows:
        times = "  ".join(f"{getattr(r, f'{n}_p50'):5.1f} / {getattr(r, f'{n}_p99'):<5.1f}" for n in titles)
        lines.append(
            f"{'raw' if r.raw else 'deserialised':<12}  {'ours' if r.profile else 'none':<7}  {r.frames:6.1%}  "
            f"{r.received[STATES] / r.published[STATES]:6.1%}  {r.cpu:5.1f}   {times}  "
            f"{r.load_average:4.1f}  {'met' if r.met else 'missed'}"
        )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """0 if every run with the profile met the bars, else 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each run sends")
    parser.add_argument("--repeat", type=int, default=1, help="runs per variant")
    parser.add_argument("--json", type=Path, help="write the rows and the machine to this file")
    parser.add_argument("--child", choices=("publish", "receive"), help=argparse.SUPPRESS)
    parser.add_argument("--raw", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.child == "publish":
        return publish(arguments.seconds) or 0
    if arguments.child == "receive":
        return receive(arguments.raw) or 0
    rows = []
    facts = machine() | {"fast_dds": "2" if "FASTRTPS_DEFAULT_PROFILES_FILE" in dds.environment() else "3"}
    print(*(f"{k}: {v}" for k, v in facts.items()), sep="\n")
    for profile in (True, False):
        for raw in (False, True):
            rows += [measure(arguments.seconds, raw, profile) for _ in range(arguments.repeat)]
    print(table(rows))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        records = [asdict(row) | {"frames": row.frames, "met": row.met} for row in rows]
        arguments.json.write_text(json.dumps({"machine": facts, "rows": records}, indent=2) + "\n")
    return 0 if all(row.met for row in rows if row.profile) else 1


if __name__ == "__main__":
    sys.exit(main())
