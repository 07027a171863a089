"""What the joints may do, and motion that keeps to it: one tick of limited tracking, and the limited stop.

Owns the discrete-time motion law. Must not know chunks, clocks or states. numpy only.

Within a tick the acceleration is constant: position' = position + (velocity + velocity') / 2 * dt. The cubic Hermite
through two consecutive ticks is then exactly that parabola, so a controller that interpolates with cubics keeps every
limit between the ticks as well. The bounds below are exact for this law: a state from which the joint can stop before
its position limit is only ever followed by another such state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Mapping, Protocol

import numpy as np

from flashrt_ros.errors import FlashRTError

# A joint whose acceleration limit is not given may reach its full speed, and stop from it, in this time.
FULL_SPEED_S = 0.2
# A joint whose jerk limit is not given, though others' are, may reach its full acceleration in this time.
FULL_ACCELERATION_S = 0.1
# The position limit, in rad or m, of a joint that has none: beyond use, yet finite, so that no arithmetic overflows.
FAR = 1e6


class LimitsError(FlashRTError):
    """Joint limits are missing or make no sense."""


class JointLimits(Protocol):
    """The part of a contract's `limits` block (contract.schema.Limits) that is used here."""

    position: Mapping[str, tuple[float, float]]
    velocity: Mapping[str, float]
    acceleration: Mapping[str, float]
    jerk: Mapping[str, float]
    tracking_error: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """lower, upper, velocity, acceleration: float64 [N] for `names`, in rad or m, per s, per s^2; read-only.
    tracking_error: likewise, how far a joint may be from its command; infinite, or None for all joints: any distance.
    jerk: likewise, per s^3; None: not limited.
    Raises LimitsError naming the joint and the value."""

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    tracking_error: np.ndarray | None = None
    jerk: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.tracking_error is None:
            object.__setattr__(self, "tracking_error", np.full(len(self.names), np.inf))
        positive = ("velocity", "acceleration") if self.jerk is None else ("velocity", "acceleration", "jerk")
        for label in ("lower", "upper", "tracking_error", *positive):
            values = np.array(getattr(self, label), dtype=np.float64)
            if values.shape != (len(self.names),):
                raise LimitsError(f"limits: {label} has shape {values.shape}; expected [{len(self.names)}] for "
                                  f"{', '.join(self.names)}")
            values.setflags(write=False)
            object.__setattr__(self, label, values)
        for i, name in enumerate(self.names):
            if not -FAR <= self.lower[i] < self.upper[i] <= FAR:
                raise LimitsError(f"limits of joint '{name}': position [{self.lower[i]}, {self.upper[i]}]; lower must "
                                  f"be below upper, and both within +-{FAR:.0f}")
            for label in positive:
                value = getattr(self, label)[i]
                if not 0 < value < np.inf:
                    raise LimitsError(f"limits of joint '{name}': {label} is {value}; it must be positive and finite")
            if not self.tracking_error[i] > 0:
                raise LimitsError(f"limits of joint '{name}': tracking_error is {self.tracking_error[i]}; it must be positive")

    @classmethod
    def of(cls, names: tuple[str, ...], limits: JointLimits) -> Limits:
        """For these joints, in this order. A velocity limit is required; without a position limit the joint is taken to
        turn for ever; without an acceleration limit it reaches full speed in FULL_SPEED_S. Without any jerk limit there is
        none; else a joint without one reaches full acceleration in FULL_ACCELERATION_S. Raises LimitsError."""
        if missing := [name for name in names if name not in limits.velocity]:
            raise LimitsError(f"limits: no velocity limit for {', '.join(missing)}; give one under `limits: velocity`")
        bounds = np.array([limits.position.get(name, (-FAR, FAR)) for name in names], dtype=np.float64).reshape(-1, 2)
        velocity = np.array([limits.velocity[name] for name in names], dtype=np.float64)
        acceleration = [limits.acceleration.get(name, v / FULL_SPEED_S) for name, v in zip(names, velocity)]
        tracking = np.array([limits.tracking_error.get(name, np.inf) for name in names])
        limited = cls(tuple(names), bounds[:, 0], bounds[:, 1], velocity, np.array(acceleration), tracking)
        return limited.with_jerk(limits.jerk) if limits.jerk else limited

    def with_jerk(self, jerk: Mapping[str, float]) -> Limits:
        """The same with these jerk limits per joint, and the default for joints that are not named. Raises LimitsError."""
        return replace(self, jerk=np.array([jerk.get(name, a / FULL_ACCELERATION_S) for name, a in zip(self.names, self.acceleration)]))

    def slower(self, share: float) -> Limits:
        """The same with this share of the velocity limits."""
        return replace(self, velocity=share * self.velocity)

    def clamp_step(self, position: np.ndarray, velocity: np.ndarray, desired_position: np.ndarray,
                   desired_velocity: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
        """Position and velocity [N] one tick (dt, s) later, tracking a reference that will then be at the desired ones.

        A reachable reference is met within a tick; a distant one is approached as fast as the limits allow, braking in
        time to join it. Where limits conflict the order is position, velocity, acceleration. Outside a position limit
        a joint stands still or moves inward.
        """
        half = 0.5 * dt
        coasted = position + half * velocity
        missed = desired_position - coasted - half * desired_velocity
        room = np.stack((np.abs(missed), np.maximum(self.upper - coasted, 0.0), np.maximum(coasted - self.lower, 0.0)))
        closing, up, down = approach_speed(room, self.acceleration, dt)
        wanted = desired_velocity + np.copysign(closing, missed)
        change = self.acceleration * dt
        wanted = np.minimum(np.maximum(wanted, velocity - change), velocity + change)
        wanted = np.minimum(np.maximum(wanted, -self.velocity), self.velocity)
        wanted = np.minimum(np.maximum(wanted, -down), up)
        return coasted + half * wanted, wanted

    def stop_profile(self, position: np.ndarray, velocity: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities [K, N] of the ticks from this state to rest, each joint braking as hard as it may.

        The last row's velocity is exactly zero; K = 0 at rest.
        """
        change = self.acceleration * dt
        count = int(np.ceil(np.max(np.abs(velocity) / change, initial=0.0)))
        left = np.abs(velocity) - np.arange(count + 1)[:, None] * change  # [K + 1, N]
        left[-1] = 0.0  # rounding may have left a sliver
        velocities = np.copysign(np.maximum(left, 0.0), velocity)
        positions = position + np.cumsum((velocities[:-1] + velocities[1:]) * (0.5 * dt), axis=0)
        return positions, velocities[1:]


def approach_speed(distance: np.ndarray, acceleration: np.ndarray, dt: float) -> np.ndarray:
    """The highest speed w [..., N] at the end of a tick from which a joint can still stop within `distance`, of which
    the tick itself covers w dt / 2 (what the speed before it covers is the caller's).

    Stopping from w takes n = floor(w / (a dt)) full ticks and a part, over w dt (n + 1/2) - n (n + 1) / 2 a dt^2. With
    the tick's own w dt / 2 that is w dt (n + 1) - n (n + 1) / 2 a dt^2, with knots at distances n (n + 1) / 2 a dt^2.
    """
    unit = acceleration * dt * dt
    n = np.floor((np.sqrt(1.0 + 8.0 * distance / unit) - 1.0) / 2.0)
    return (distance + n * (n + 1.0) / 2.0 * unit) / (dt * (n + 1.0))
