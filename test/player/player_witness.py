"""The laws of the player's commands and windows, whatever happens to it. Shared by the tests that let anything happen."""

import numpy as np
from player_scenes import EPS, MS, TICK_NS, assert_limits

from flashrt_ros.player.command import State
from flashrt_ros.player.holds import CAUSES

DT = TICK_NS * 1e-9
STOP_CAUSES = ("epoch", "conflict", "clock_back", "stalled", "gave_way", *CAUSES.values())


class Witness:
    """Looks at every command and every window of one activation, and knows what was announced."""

    def __init__(self, player):
        self.player, self.limits, self.last = player, player.limits, None
        self.promise = {}  # time -> position and velocity that a window gave for it
        self.lowest = {}  # session -> announced epoch
        self.played, self.stops = [], 0
        self.retried = False  # a retry of the chunk that plays was taken: its steps may begin anew

    def announce(self, session, epoch):
        self.lowest[session] = epoch

    def disturbed(self):
        """The plan may have changed, though not for the ticks that the controller is about to execute."""
        fixed = 2 * TICK_NS if self.player.parameters.lead_ms else 0  # the next tick, and lead_ms from there (one at least)
        fixed_ns = self.last.time_ns + fixed if self.last else 0
        self.promise = {t: point for t, point in self.promise.items() if t <= fixed_ns}

    def look(self, command, now_ns, jumped):
        stops = sum(self.player.counters[cause] for cause in STOP_CAUSES)
        if stops != self.stops:
            self.stops = stops
            self.disturbed()
        if jumped:
            self.promise = {}  # times mean something else now
        if self.last is not None:
            self._compare(self.last, command, jumped)
        self.last = command
        assert (command.position >= self.limits.lower - EPS).all() and (command.position <= self.limits.upper + EPS).all()
        assert (np.abs(command.velocity) <= self.limits.velocity + EPS).all()
        assert abs(command.time_ns - now_ns) <= TICK_NS
        if command.state is State.APPROACHING:
            assert (np.abs(command.velocity) <= self.player.parameters.approach_speed * self.limits.velocity + EPS).all()
        if command.time_ns in self.promise:
            point = self.promise[command.time_ns]
            assert np.array_equal(point.position, command.position) and np.array_equal(point.velocity, command.velocity)
        self._window(now_ns, command)

    def _compare(self, before, after, jumped):
        ticks = 1 if jumped else (after.time_ns - before.time_ns) // TICK_NS
        assert ticks >= 0
        assert (np.abs(after.velocity - before.velocity) <= self.limits.acceleration * DT * ticks + EPS).all()
        began = before.cursor.player != after.cursor.player  # a run, from the measured pose
        if began:
            self.promise = {}
            assert (before.velocity == 0).all() or ticks > 1  # it came to rest since
        if ticks == 1 and not began and self.limits.jerk is None:  # else the windows tell more
            mean = (after.velocity + before.velocity) / 2
            np.testing.assert_allclose((after.position - before.position) / DT, mean, atol=1e-8)
        was, now = before.cursor, after.cursor
        assert 0 <= now.tick - was.tick <= ticks
        if after.state in (State.PLAYING, State.APPROACHING):
            assert now.epoch >= self.lowest.get(now.session, 0)
            key = (now.session, now.epoch, now.seq)
            if not self.played or self.played[-1] != key:
                assert key not in self.played, "a chunk that was left came back"
                if self.played:
                    session, *order = self.played[-1]
                    assert session != now.session or [now.epoch, now.seq] > order
                    assert session == now.session or now.session not in [k[0] for k in self.played]
                self.played.append(key)
            elif was.session and not self.retried:
                assert now.step > was.step
                assert ticks == 0 or now.tick - was.tick == ticks
        else:
            assert now.session == 0
        self.retried = False

    def _window(self, now_ns, command):
        window = self.player.window(now_ns)
        assert (window[-1].velocity == 0).all() and window[-1].time_ns > now_ns
        assert all(a.time_ns < b.time_ns for a, b in zip(window, window[1:]))
        rest = window[-1].time_ns - window[-2].time_ns > TICK_NS
        if rest:
            assert (window[-2].velocity == 0).all() and (window[-2].position == window[-1].position).all()
        rows = window[:-1] if rest else window
        bent = None if self.limits.jerk is None else np.array([p.acceleration for p in rows])
        assert_limits(np.array([p.position for p in rows]), np.array([p.velocity for p in rows]), self.limits, accelerations=bent)
        kept = self.promise.get(window[0].time_ns)
        if kept is not None and bent is not None:
            assert np.array_equal(kept.acceleration, window[0].acceleration)
        leave_ns = command.time_ns + 300 * MS
        for point in window:
            if point.time_ns <= leave_ns and (point.time_ns - command.time_ns) % TICK_NS == 0:
                self.promise[point.time_ns] = point
