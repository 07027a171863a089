"""Between ROS messages and the package's own records. Works on any object with the message's fields (live or from a bag)."""

from __future__ import annotations

from typing import Sequence

import numpy as np
from builtin_interfaces.msg import Duration, Time
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from flashrt_ros.chunk.chunk import Chunk, ChunkError, Cursor
from flashrt_ros.msg import ActionChunk
from flashrt_ros.player.command import Point

SECOND_NS = 1_000_000_000


def to_ns(stamp) -> int:
    """builtin_interfaces Time or Duration to integer nanoseconds."""
    return stamp.sec * SECOND_NS + stamp.nanosec


def to_time(ns: int) -> Time:
    return Time(sec=ns // SECOND_NS, nanosec=ns % SECOND_NS)


def to_duration(ns: int) -> Duration:
    """Negative durations keep nanosec in [0, 1e9), as ROS wants it."""
    return Duration(sec=ns // SECOND_NS, nanosec=ns % SECOND_NS)


def chunk_message(chunk: Chunk) -> ActionChunk:
    """The wire form of a chunk; the caller adds its origin (decision, inputs, stages, digests)."""
    message = ActionChunk(
        names=list(chunk.names), horizon=chunk.horizon, step_dt=to_duration(chunk.step_ns),
        session=chunk.session, epoch=chunk.epoch, seq=chunk.seq, attempt=chunk.attempt,
        base_player=chunk.base.player, base_tick=chunk.base.tick, base_session=chunk.base.session,
        base_epoch=chunk.base.epoch, base_seq=chunk.base.seq, base_step=float(chunk.base.step),
        base_lag=to_duration(chunk.base.lag_ns), decision_stamp=to_time(chunk.start_ns - chunk.offset_ns),
        frozen_prefix=chunk.frozen_prefix)
    message.header.stamp = to_time(chunk.start_ns)
    message.position = chunk.positions.ravel().tolist()
    if chunk.velocities is not None:
        message.velocity = chunk.velocities.ravel().tolist()
    return message


def chunk_from_message(message: ActionChunk) -> Chunk:
    """Raises ChunkError when the arrays do not have the announced shape."""
    h, n = message.horizon, len(message.names)
    for field in ("position", "velocity"):
        count = len(getattr(message, field))
        if count != h * n and not (field == "velocity" and count == 0):
            raise ChunkError(f"chunk ({message.session}, {message.epoch}, {message.seq}): {field} has {count} values; "
                             f"expected horizon {h} x {n} joints = {h * n}")
    positions = np.array(message.position, np.float64).reshape(h, n)
    velocities = np.array(message.velocity, np.float64).reshape(h, n) if len(message.velocity) else None
    base = Cursor(player=message.base_player, tick=message.base_tick, session=message.base_session,
                  epoch=message.base_epoch, seq=message.base_seq, step=message.base_step,
                  lag_ns=to_ns(message.base_lag))
    start_ns = to_ns(message.header.stamp)
    return Chunk(names=tuple(message.names), positions=positions, start_ns=start_ns,
                 offset_ns=start_ns - to_ns(message.decision_stamp),
                 step_ns=to_ns(message.step_dt), velocities=velocities, session=message.session, epoch=message.epoch,
                 seq=message.seq, attempt=message.attempt, base=base, frozen_prefix=message.frozen_prefix)


def trajectory_message(names: Sequence[str], points: Sequence[Point]) -> JointTrajectory:
    """The points' times increase. The stamp is the first one's."""
    message, stamp_ns = JointTrajectory(joint_names=list(names)), points[0].time_ns
    message.header.stamp = to_time(stamp_ns)
    message.points = [
        JointTrajectoryPoint(positions=position.tolist(), velocities=velocity.tolist(), time_from_start=to_duration(t - stamp_ns),
                             accelerations=[] if acceleration is None else acceleration.tolist())
        for t, position, velocity, acceleration in points]
    return message
