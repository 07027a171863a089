"""Selection from sensor_msgs/JointState: the contract's `select` list to a float32 vector, by joint name.

Owns the index map and the unit conversions at the edge. Must not import rclpy: any object with the message's fields
serves, such as those that `rosbags` reads without ROS. The order of joints in a message and joints beyond the selected
ones never matter (drivers differ in both, and may change them while running).
"""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from flashrt_ros.errors import FlashRTError

FIELDS = ("position", "velocity", "effort")
CONVERSIONS = {"deg2rad": pi / 180, "rad2deg": 180 / pi}


class JointError(FlashRTError):
    """A JointState message, or a `select` list, does not give the joints that the contract asks for."""


class JointSelector:
    """Picks `select` out of JointState messages.

    select: `position.<joint>`, `velocity.<joint>` or `effort.<joint>`, in buffer order. apply: at most one of `deg2rad`
    and `rad2deg`, for angles and their rates. name: the contract's input, for errors.
    Raises JointError if these are malformed.
    """

    def __init__(self, select: tuple[str, ...], apply: tuple[str, ...] = (), name: str = "joints") -> None:
        self._name = name
        pairs = [entry.partition(".")[::2] for entry in select]
        for entry, (field, joint) in zip(select, pairs):
            if field not in FIELDS or not joint:
                raise JointError(
                    f"input '{name}': select entry {entry!r}; allowed: {', '.join(f'{f}.<joint>' for f in FIELDS)}. "
                    "Correct `select` in the contract"
                )
        if len(set(select)) < len(select) or not select:
            raise JointError(
                f"input '{name}': select {list(select)}; allowed: at least one entry, none twice. "
                "Correct `select` in the contract"
            )
        if any(step not in CONVERSIONS for step in apply) or len(apply) > 1:
            raise JointError(
                f"input '{name}': apply {list(apply)}; allowed: nothing, or one of {', '.join(CONVERSIONS)}. "
                "Correct `apply` in the contract"
            )
        efforts = [entry for entry, (field, _) in zip(select, pairs) if field == "effort"]
        if apply and efforts:
            raise JointError(
                f"input '{name}': apply {list(apply)} cannot convert {', '.join(efforts)}; allowed: positions and "
                "velocities. Select efforts in an input of their own"
            )
        self._joints = tuple(dict.fromkeys(joint for _, joint in pairs))
        self._select = tuple(select)
        self._scale = CONVERSIONS[apply[0]] if apply else 1.0
        # Per field in use: the field, where its entries go in the output [n], and the joints that they come from.
        self._parts = [
            (field, np.flatnonzero([f == field for f, _ in pairs]), [joint for f, joint in pairs if f == field])
            for field in sorted({f for f, _ in pairs})
        ]
        self._names: list[str] | None = None  # of the message for which `_sources` holds
        self._sources: list[np.ndarray] = []

    def __call__(self, message: Any) -> np.ndarray:
        """The selected values, float32 [N]: rad or m (per second), N or Nm, unless `apply` says otherwise.

        Raises JointError if a selected joint is missing or named twice, if an array's length is not the names', or if a
        selected value is not finite.
        """
        names = list(message.name)
        if names != self._names:
            self._map(names)
        out = np.empty(len(self._select))
        for (field, targets, joints), sources in zip(self._parts, self._sources):
            values = np.asarray(getattr(message, field), np.float64)
            if len(values) != len(names):
                raise JointError(
                    f"input '{self._name}': {field} has {len(values)} values for {len(names)} names; allowed: one for "
                    f"each. Check that the driver of {', '.join(joints)} publishes {field}, or correct `select`"
                )
            out[targets] = values[sources]
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused
            selected = (out * self._scale).astype(np.float32)
        if not np.isfinite(selected).all():
            bad = ", ".join(f"{self._select[i]} = {out[i]}" for i in np.flatnonzero(~np.isfinite(selected)))
            raise JointError(f"input '{self._name}': {bad}; allowed: finite values. Check the encoder and its driver")
        return selected

    def _map(self, names: list[str]) -> None:
        """Find the selected joints among a message's names; on an error the map of other names stays."""
        index = {name: i for i, name in enumerate(names)}
        missing = [joint for joint in self._joints if joint not in index]
        if missing:
            raise JointError(
                f"input '{self._name}': joint {', '.join(missing)} is missing; the message names "
                f"{', '.join(names) or 'none'}. Correct `select` in the contract, or the topic"
            )
        twice = [joint for joint in self._joints if names.count(joint) > 1]
        if twice:
            raise JointError(
                f"input '{self._name}': joint {', '.join(twice)} stands more than once in the message; allowed: once. "
                "Two drivers may publish on one topic under one name"
            )
        self._sources = [np.array([index[joint] for joint in joints]) for _, _, joints in self._parts]
        self._names = names
