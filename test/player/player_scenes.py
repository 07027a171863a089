"""A small arm and its chunks, shared by the player's tests."""

import numpy as np

from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.player.limits import Limits
from flashrt_ros.player.player import Player, PlayerParameters
from flashrt_ros.player.verdict import Accepted

MS = 1_000_000
TICK_NS = 20 * MS
NAMES = ("pan", "lift", "grip")
LIMITS = Limits(NAMES, np.array([-2.0, -1.0, 0.0]), np.array([2.0, 1.0, 0.04]), np.array([2.0, 1.5, 0.1]),
                np.array([10.0, 8.0, 1.0]))
JERK_LIMITS = LIMITS.with_jerk({"lift": 200.0})
HOME = np.array([0.1, 0.2, 0.02])
START_NS = 1_000_000_000_000
EPS = 1e-9


def active_player(home=HOME, limits=LIMITS, tick_ns=TICK_NS, **parameters) -> Player:
    player = Player(limits.names, limits, tick_ns, PlayerParameters(**parameters))
    player.activate(START_NS, home, player_id=7)
    return player


def slide(start_ns, position=HOME, speed=(0.5, -0.2, 0.0), steps=50, step_ns=20 * MS, base=Cursor(), session=1, epoch=0,
          seq=0, attempt=0) -> Chunk:
    """A chunk that begins at `position` and moves with constant `speed`."""
    t = np.arange(steps)[:, None] * step_ns * 1e-9
    return Chunk(NAMES, np.asarray(position) + t * np.asarray(speed), start_ns, step_ns, session=session, epoch=epoch,
                 seq=seq, attempt=attempt, base=base)


def accepted(verdict) -> Accepted:
    assert isinstance(verdict, Accepted), verdict
    return verdict


class Run:
    """Ticks a player on a steady clock and keeps its commands."""

    def __init__(self, player: Player) -> None:
        self.player, self.now_ns, self.commands = player, START_NS, []

    def ticks(self, count: int):
        for _ in range(count):
            self.now_ns += TICK_NS
            self.commands.append(self.player.tick(self.now_ns))
        return self.commands[-1]

    def positions(self) -> np.ndarray:
        return np.array([c.position for c in self.commands])

    def velocities(self) -> np.ndarray:
        return np.array([c.velocity for c in self.commands])


def assert_limits(positions, velocities, limits=LIMITS, tick_ns=TICK_NS, accelerations=None):
    """Every limit over consecutive ticks [K, N], and each value as the derivative of the one before: with accelerations, of
    constant jerk in each tick, else of constant acceleration."""
    dt = tick_ns * 1e-9
    assert (positions >= limits.lower - EPS).all() and (positions <= limits.upper + EPS).all()
    assert (np.abs(velocities) <= limits.velocity + EPS).all()
    assert (np.abs(np.diff(velocities, axis=0)) <= limits.acceleration * dt + EPS).all()
    if accelerations is None:
        np.testing.assert_allclose(np.diff(positions, axis=0) / dt, (velocities[:-1] + velocities[1:]) / 2, atol=1e-8)
        return
    assert (np.abs(accelerations) <= limits.acceleration + EPS).all()
    assert (np.abs(np.diff(accelerations, axis=0)) <= limits.jerk * dt + EPS).all()
    np.testing.assert_allclose(np.diff(velocities, axis=0) / dt, (accelerations[:-1] + accelerations[1:]) / 2, atol=1e-7)
    mean = velocities[:-1] + dt * (2 * accelerations[:-1] + accelerations[1:]) / 6
    np.testing.assert_allclose(np.diff(positions, axis=0) / dt, mean, atol=1e-8)
