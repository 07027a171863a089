"""Motion with limited jerk: one tick of tracking, and the stop. Must not know chunks, clocks or states. numpy only.

Within a tick the jerk is constant: acceleration' = acceleration + jerk dt, and velocity and position are its integrals. The
quintic Hermite through two consecutive ticks is then exactly that cubic, so a controller that interpolates positions,
velocities and accelerations keeps every limit between the ticks as well.

Two laws are nested. The inner one settles a velocity: `approach_speed` one derivative higher, as exact as it is there. The
outer one closes in on the reference until the inner one must begin to settle what is left of the difference in velocity. And
whatever either wants, it is drawn so far towards the stop that a stop still fits before the position limits: one that fitted a
tick ago fits now, and is what happens if nothing else does.
"""

from __future__ import annotations

import numpy as np

from flashrt_ros.player.limits import Limits, approach_speed
from flashrt_ros.player.row import Row

SHARE = 0.7  # of acceleration and jerk that closing in counts on: the reference itself needs some
TICKS = 4.0  # over which a small distance is closed: the inner law takes two to answer, and faster would overshoot
WAYS = np.array([1.0, 0.75, 0.5, 0.25, 0.0])[:, None]  # from the stop (0) to what is wanted (1)
SPARE = 2.0  # ticks at top speed that a stop may take more, because a tick is not divided
REST = 1e-9  # of the velocity and acceleration limits; less is none


Reach = tuple[np.ndarray, np.ndarray]


class JerkLimited:
    """Ticks of dt (s) within `limits`, whose jerk is given. Priority where they conflict: position, velocity, acceleration, jerk.
    Outside a position limit a joint stands still or moves inward."""

    def __init__(self, limits: Limits, dt: float) -> None:
        self._limits, self._dt = limits, dt
        self._change = limits.jerk * dt
        most, jerk = SHARE * limits.acceleration, SHARE * limits.jerk
        # Of a braking that ends without a step in acceleration: what its last phase, the fading of the acceleration, takes.
        self._ramp_speed, self._ramp_distance = most**2 / (2 * jerk), most**3 / (6 * jerk**2)

    def track(self, row: Row, position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray) -> Row:
        """The next row, tracking a reference that will then be at these values [N]."""
        dt, jerk, reach = self._dt, self._limits.jerk, self._reach(row)
        # Relative to the reference, at the start of the tick.
        away = row.position - (position - dt * (velocity - 0.5 * dt * acceleration))
        faster = row.velocity - (velocity - dt * acceleration)
        bent = row.acceleration - acceleration
        closing = np.minimum(self._closing_speed(np.abs(away)), np.abs(away) / (TICKS * dt))
        closed = _between(acceleration + _settle(faster + np.copysign(closing, away), bent, jerk, dt), *reach)
        then, side = _step(row, closed, dt), -np.sign(away)
        left = np.maximum(side * (position - then.position), 0.0)
        passes = self._stop_distance(side * (then.velocity - velocity), side * (then.acceleration - acceleration), SHARE, 0.0) > left
        joined = _between(acceleration + _settle(faster, bent, jerk, dt), *reach)
        return self._within_bounds(row, np.where(passes, joined, closed), reach)

    def stop(self, row: Row) -> list[Row]:
        """The rows from this one to rest; none at rest. The last one's velocity and acceleration are exactly zero."""
        rows: list[Row] = []
        while not self._rests(row):
            row = _step(row, self._braked(row, self._reach(row)), self._dt)
            rows.append(row)
        if rows:
            rows[-1] = self.rest(row.position)
        return rows

    def rest(self, position: np.ndarray) -> Row:
        return Row(position, np.zeros_like(position), np.zeros_like(position))

    def stop_distance(self, velocity: np.ndarray, acceleration: np.ndarray) -> np.ndarray:
        """How far [..., N] the stop from this velocity and acceleration goes in the positive direction, or a little more; never
        less."""
        return self._stop_distance(velocity, acceleration, 1.0, SPARE)

    def _within_bounds(self, row: Row, wanted: np.ndarray, reach: Reach) -> Row:
        """The next row, with the acceleration [N] as near to the wanted one as leaves room for a stop."""
        limits, braked = self._limits, self._braked(row, reach)
        then = _step(row, braked + WAYS * (wanted - braked), self._dt)  # [W, N]
        ahead, behind = self.stop_distance(then.velocity, then.acceleration), self.stop_distance(-then.velocity, -then.acceleration)
        fits = ((then.position + ahead <= np.maximum(limits.upper, row.position))
                & (then.position - behind >= np.minimum(limits.lower, row.position)))
        fits[-1] = True
        chosen = fits.argmax(axis=0), np.arange(len(wanted))
        return Row(*(values[chosen] for values in then))

    def _braked(self, row: Row, reach: Reach) -> np.ndarray:
        return _between(_settle(row.velocity, row.acceleration, self._limits.jerk, self._dt), *reach)

    def _reach(self, row: Row) -> Reach:
        """The least and the largest next acceleration that the limits of jerk, acceleration and velocity allow."""
        limits, change = self._limits, self._change
        coasted = row.velocity + 0.5 * self._dt * row.acceleration
        room = np.stack((limits.velocity - coasted, limits.velocity + coasted))
        up, down = approach_speed(np.maximum(room, 0.0), limits.jerk, self._dt)
        if (room < 0).any():  # over a velocity limit, which was lowered: back within it as hard as the others allow
            up = np.where(room[0] < 0, np.maximum(row.acceleration - change, -limits.acceleration), up)
            down = np.where(room[1] < 0, np.maximum(-row.acceleration - change, -limits.acceleration), down)
        least, largest = (_between(row.acceleration + c, -limits.acceleration, limits.acceleration) for c in (-change, change))
        return _between(least, -down, up), _between(largest, -down, up)

    def _stop_distance(self, velocity: np.ndarray, acceleration: np.ndarray, share: float, spare: float) -> np.ndarray:
        most, jerk = share * self._limits.acceleration, share * self._limits.jerk
        # What a positive acceleration still brings until it is gone; or, braking already, what had gone since the braking began.
        braking = np.minimum(np.maximum(-acceleration, 0.0), np.sqrt(2 * jerk * np.maximum(velocity, 0.0)))
        rising = np.maximum(acceleration, 0.0)
        ramp = (rising + braking) / jerk
        before = ramp * (velocity + jerk * ramp * ramp / 3)
        top = np.maximum(velocity + 0.5 * (jerk * ramp * ramp + (spare > 0) * self._dt * rising), 0.0)
        lasts = np.where(top <= most * most / jerk, 2 * np.sqrt(top / jerk), top / most + most / jerk)
        return np.maximum(np.where(acceleration > 0, before, -before) + 0.5 * top * lasts, 0.0) + spare * self._dt * top

    def _closing_speed(self, distance: np.ndarray) -> np.ndarray:
        """The speed at which a distance can still be closed by a braking that ends without a step in acceleration."""
        most, jerk = SHARE * self._limits.acceleration, SHARE * self._limits.jerk
        ending = 0.5 * jerk * np.cbrt(6 * distance / jerk) ** 2
        braking = np.sqrt(self._ramp_speed**2 + 2 * most * np.maximum(distance - self._ramp_distance, 0.0))
        return np.where(distance <= self._ramp_distance, ending, braking)

    def _rests(self, row: Row) -> bool:
        return bool((np.abs(row.velocity) <= REST * self._limits.velocity).all()
                    and (np.abs(row.acceleration) <= REST * self._limits.acceleration).all())


def _between(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(values, low), high)


def _settle(velocity: np.ndarray, acceleration: np.ndarray, jerk: np.ndarray, dt: float) -> np.ndarray:
    """The acceleration at the end of a tick from which this velocity is settled to zero as fast as the jerk allows, and without
    going beyond; the tick itself included. It may lie out of reach, or beyond the acceleration limit."""
    left = -velocity - 0.5 * dt * acceleration
    return np.copysign(approach_speed(np.abs(left), jerk, dt), left)


def _step(row: Row, acceleration: np.ndarray, dt: float) -> Row:
    return Row(row.position + dt * (row.velocity + dt * (2 * row.acceleration + acceleration) / 6),
               row.velocity + 0.5 * dt * (row.acceleration + acceleration), acceleration)
