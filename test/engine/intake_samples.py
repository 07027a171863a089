"""A contract with a camera, joints and a text, and messages for it, for the tests of the intake."""

from __future__ import annotations

import numpy as np
from dag_policy import SIZE, make_pipeline

from flashrt_ros.contract.pipeline import Stage
from flashrt_ros.contract.schema import Align, Channel, Image, Input
from flashrt_ros.engine.intake import REASONS, Intake, Refusal
from flashrt_ros.engine.observation import Observation
from flashrt_ros.errors import FlashRTError

MS = 1_000_000
NOW = 10_000 * MS


class DecodeError(FlashRTError):
    pass


def decode(name: str, raw: object) -> np.ndarray:
    """raw: an array, a text (its length is its encoding), or an error to raise."""
    if isinstance(raw, Exception):
        raise raw
    if isinstance(raw, str):
        return np.full(SIZE, len(raw), np.float32)
    return np.broadcast_to(np.asarray(raw, np.float32), SIZE).copy()


def make(check_frozen: bool = True, scene: Align = Align(), joints: Align = Align()) -> Intake:
    camera = Channel("scene_camera/image_raw", "sensor_msgs/msg/Image")
    declared = (
        Input("scene", camera, image=Image((2, 2)), align=scene, max_age_ms=150),
        Input("joints", Channel("joint_states", "sensor_msgs/msg/JointState"), align=joints, max_age_ms=50),
        Input("task", Channel("task", "std_msgs/msg/String", "latched"), default="wait"),
    )
    action = Stage("action", ("scene", "joints", "task"), ("chunk",), every=1)
    pipeline = make_pipeline({"scene": False, "joints": False, "task": True}, [action], declared=declared)
    return Intake(pipeline, check_frozen)


def offer(intake: Intake, name: str, raw: object, at_ms: float) -> None:
    """A message stamped and received `at_ms` after NOW."""
    stamp = NOW + round(at_ms * MS)
    intake.offer(name, raw, stamp, stamp)


def good(intake: Intake, at_ms: float = 0.0) -> None:
    """A fresh picture, different each time, and fresh joints."""
    offer(intake, "scene", at_ms + 1e6, at_ms)
    offer(intake, "joints", at_ms, at_ms)


def take(intake: Intake, at_ms: float = 0.0, **kwargs) -> Observation | Refusal:
    return intake.take(round(at_ms), NOW + round(at_ms * MS), decode, **kwargs)


def counts(intake: Intake, name: str):
    return {s.name: s.counts for s in intake.status(NOW)}[name]


def refused(intake: Intake, at_ms: float, name: str, reason: str, *words: str) -> None:
    found = take(intake, at_ms)
    assert isinstance(found, Refusal) and (found.input, found.reason) == (name, reason)
    assert reason in REASONS and all(word in found.detail for word in words), found.detail
    assert {s.name: s.refusal for s in intake.status(NOW)}[name] == reason


def taken(intake: Intake, at_ms: float = 0.0) -> Observation:
    found = take(intake, at_ms)
    assert isinstance(found, Observation), found
    return found
