"""Laws of the player over arbitrary traffic: late, lost, doubled and reordered chunks, retries, resets, restarts, two
policies at once, stalled timers and a clock that jumps back, from a policy that may say anything.

Everything happens in simulated time from drawn values, so a failure is repeatable.
"""

from dataclasses import dataclass
from itertools import count

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from player_scenes import EPS, LIMITS, MS, NAMES, START_NS, TICK_NS, active_player, assert_limits

from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.player.command import State
from flashrt_ros.player.verdict import Accepted

DT = TICK_NS * 1e-9
TICKS_PER_DECISION = 5
STOP_CAUSES = ("epoch", "conflict", "clock_back", "stalled")
EVENTS = ("silence", "epoch", "restart", "twin", "retry", "clock_back", "stall")


@dataclass(frozen=True)
class Decision:
    event: str
    delays_ms: tuple[int, ...]  # one per copy that arrives; none: lost
    steps: int
    step_ms: int
    wild: bool
    with_base: bool
    with_velocity: bool
    noise: int


@st.composite
def traffics(draw) -> list[Decision]:
    """25 decisions whose rates hypothesis chooses and whose rolls a drawn seed gives: lists drawn item by item come out
    too short and too alike to reach the rarer meetings of events."""
    roll = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    longest_ms, loss = draw(st.sampled_from([0, 30, 120, 400])), draw(st.sampled_from([0.0, 0.1, 0.5]))
    eventful, wild = draw(st.sampled_from([0.0, 0.1, 0.3])), draw(st.sampled_from([0.0, 0.3, 1.0]))
    traffic = []
    for _ in range(25):
        copies = 0 if roll.random() < loss else 2 if roll.random() < 0.2 else 1
        traffic.append(Decision(
            event=str(roll.choice(EVENTS)) if roll.random() < eventful else "none",
            delays_ms=tuple(int(roll.integers(0, longest_ms + 1)) for _ in range(copies)),
            steps=int(roll.integers(1, 60)) if roll.random() < 0.3 else 40, step_ms=int(roll.choice([10, 20, 33, 80])),
            wild=roll.random() < wild, with_base=roll.random() < 0.8, with_velocity=roll.random() < 0.3,
            noise=int(roll.integers(2**32))))
    return traffic


def think(decision: Decision, now_ns: int, command, cursor: Cursor, order) -> Chunk:
    """A chunk from the commanded pose on (a random walk), or anywhere at all."""
    noise = np.random.default_rng(decision.noise)
    shape = (decision.steps, 3)
    if decision.wild:
        positions = noise.uniform(-10, 10, shape) * noise.choice([0.01, 1, 1e6])
    else:
        positions = command.position + np.cumsum(noise.normal(0, 0.02, shape) * LIMITS.velocity, axis=0)
    velocities = noise.normal(0, 5, shape) if decision.with_velocity else None
    session, epoch, seq, attempt = order
    return Chunk(NAMES, positions, now_ns, decision.step_ms * MS, velocities, session, epoch, seq, attempt,
                 cursor if decision.with_base else Cursor())


class Witness:
    """Looks at every command and every window, and knows what was announced."""

    def __init__(self, player):
        self.player, self.last = player, None
        self.promise = {}  # time -> position and velocity that a window gave for it
        self.lowest = {}  # session -> announced epoch
        self.played, self.stops = [], 0
        self.retried = False  # a retry of the chunk that plays was taken: its steps may begin anew

    def announce(self, session, epoch):
        self.lowest[session] = epoch

    def disturbed(self):
        """The plan may have changed, though not for the ticks that the controller is about to execute."""
        fixed_ns = self.last.time_ns + 2 * TICK_NS if self.last else 0  # the next tick, and lead_ms from there
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
        assert (command.position >= LIMITS.lower - EPS).all() and (command.position <= LIMITS.upper + EPS).all()
        assert (np.abs(command.velocity) <= LIMITS.velocity + EPS).all()
        assert abs(command.time_ns - now_ns) <= TICK_NS
        if command.time_ns in self.promise:
            position, velocity = self.promise[command.time_ns]
            assert np.array_equal(position, command.position) and np.array_equal(velocity, command.velocity)
        self._window(now_ns, command)

    def _compare(self, before, after, jumped):
        ticks = 1 if jumped else (after.time_ns - before.time_ns) // TICK_NS
        assert ticks >= 0
        assert (np.abs(after.velocity - before.velocity) <= LIMITS.acceleration * DT * ticks + EPS).all()
        if ticks == 1:
            mean = (after.velocity + before.velocity) / 2
            np.testing.assert_allclose((after.position - before.position) / DT, mean, atol=1e-8)
        was, now = before.cursor, after.cursor
        assert 0 <= now.tick - was.tick <= ticks
        if after.state is State.PLAYING:
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
        assert_limits(np.array([p.position for p in rows]), np.array([p.velocity for p in rows]))
        leave_ns = command.time_ns + 300 * MS
        for point in window:
            if point.time_ns <= leave_ns and (point.time_ns - command.time_ns) % TICK_NS == 0:
                self.promise[point.time_ns] = point[1:]


@given(traffics())
def test_whatever_arrives_the_arm_stays_within_its_laws(traffic):
    """Limits hold, nothing old plays, nothing is repeated, windows keep their word; and silence brings rest."""
    player = active_player()
    witness = Witness(player)
    sessions = count(1)
    policies = [[next(sessions), 0, 0]]  # session, epoch, next seq
    twin_until = -1
    true_ns, shift_ns = START_NS, 0
    command = player.tick(true_ns)
    flying: list[tuple[int, Chunk]] = []
    for decision_index in range(len(traffic) + 12):
        skipped, jumped = 0, False
        if decision_index < len(traffic):
            d = traffic[decision_index]
            main = policies[0]
            attempt = 0
            if d.event == "epoch":
                main[1:] = [main[1] + 1, 0]
                player.epoch(main[0], main[1], true_ns + shift_ns)
                witness.announce(main[0], main[1])
            elif d.event == "restart":
                policies[0] = main = [next(sessions), 0, 0]
            elif d.event == "twin" and len(policies) == 1:
                policies.append([next(sessions), 0, 0])
                twin_until = decision_index + 3
            elif d.event == "retry" and main[2] > 0:
                main[2] -= 1
                attempt = 1 + decision_index
            elif d.event == "clock_back":
                shift_ns -= 2_000 * MS
                jumped = True
            elif d.event == "stall":
                skipped = d.noise % 60
            if decision_index >= twin_until:
                del policies[1:]
            if d.event != "silence":
                for policy in policies:
                    order = (policy[0], policy[1], policy[2], attempt)
                    chunk = think(d, true_ns + shift_ns, command, player.cursor, order)
                    policy[2] += 1
                    flying += [(true_ns + delay * MS, chunk) for delay in d.delays_ms]
        for _ in range(TICKS_PER_DECISION):
            true_ns += TICK_NS * (1 + skipped)
            skipped = 0
            for arrival in sorted((f for f in flying if f[0] <= true_ns), key=lambda f: f[0]):
                flying.remove(arrival)
                if isinstance(player.offer(arrival[1], true_ns + shift_ns), Accepted):
                    witness.disturbed()
                    witness.retried = arrival[1].attempt > 0
            command = player.tick(true_ns + shift_ns)
            witness.look(command, true_ns + shift_ns, jumped)
            jumped = False
    assert command.state is State.HOLDING and (command.velocity == 0).all()
