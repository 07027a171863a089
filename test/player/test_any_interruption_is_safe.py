"""Laws of the player under interruptions: e-stops, take-overs, foreign publishers, an arm that is held or lets go, and the
ends of all these, in any order, while chunks arrive early, late, twice, after an epoch or from two policies at once.

Hypothesis chooses the next thing to happen; everything happens in simulated time, so a failure is repeatable.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from player_scenes import HOME, LIMITS, MS, NAMES, START_NS, TICK_NS
from player_witness import Witness

from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.player.command import State
from flashrt_ros.player.player import Player, PlayerError, PlayerParameters
from flashrt_ros.player.verdict import Accepted, Reason

FOLLOWING = replace(LIMITS, tracking_error=np.array([0.1, 0.1, 0.01]))
# Braking from full speed at 10 rad/s^2 takes 10 ticks; before that come the next tick and the lead.
LONGEST_STOP = 10 + 2 + 1


class Interrupted(RuleBasedStateMachine):
    chunks = Bundle("chunks")

    @initialize(lead_ms=st.sampled_from([0.0, 20.0, 40.0]), start_distance=st.sampled_from([0.05, 100.0]))
    def switch_on(self, lead_ms, start_distance):
        self.now_ns = START_NS
        self.player = Player(NAMES, FOLLOWING, TICK_NS, PlayerParameters(lead_ms=lead_ms, start_distance=start_distance))
        self.arm, self.held_arm = HOME, False
        self.orders = {1: [0, 0], 2: [0, 0]}  # session -> epoch, next seq
        self.stopping_since_ns = None
        self.activate()

    def activate(self):
        self.player.activate(self.now_ns, self.arm)
        self.witness = Witness(self.player)
        self.command = None
        self.tick(jumped=False)

    def tick(self, jumped, blind=False):
        silent = Reason.TAKEN_OVER in self.player.holds and self.player.at_rest
        self.command = self.player.tick(self.now_ns, None if blind else self.arm)
        self.witness.look(self.command, self.now_ns, jumped)
        if silent:  # then no command is meant for the arm, whatever else there is to report
            assert self.player.at_rest and self.command.state in (State.TAKEN_OVER, State.ESTOP)
        if not self.held_arm:
            self.arm = self.command.position
        if jumped:
            self.stopping_since_ns = None
        if self.stopping_since_ns is not None and self.command.time_ns - self.stopping_since_ns > LONGEST_STOP * TICK_NS:
            assert (self.command.velocity == 0).all()

    @rule(count=st.integers(1, 30), late=st.sampled_from([0, 0, 0, 1, 5, 60]), blind=st.booleans())
    def time_passes(self, count, late, blind):
        for i in range(count):
            self.now_ns += TICK_NS * (1 + (late if i == 0 else 0))
            self.tick(jumped=False, blind=blind and i % 2 == 1)

    @rule(decisions=st.integers(1, 8), wild=st.booleans(), seed=st.integers(0, 2**16))
    def policy_drives(self, decisions, wild, seed):
        for i in range(decisions):
            self.offer(*self.think(1, wild, True, 40, seed + i))
            self.time_passes(5, 0, False)

    @rule(target=chunks, session=st.sampled_from([1, 1, 1, 1, 2]), wild=st.booleans(), based=st.sampled_from([True, True, False]),
          steps=st.integers(2, 50), seed=st.integers(0, 2**16))
    def policy_thinks(self, session, wild, based, steps, seed):
        return self.think(session, wild, based, steps, seed)

    @rule(chunk=chunks)
    def chunk_arrives(self, chunk):
        self.offer(*chunk)

    def think(self, session, wild, based, steps, seed):
        """The run in which a chunk was decided, whatever it says of it; and the chunk."""
        noise = np.random.default_rng(seed)
        epoch, seq = self.orders[session]
        self.orders[session][1] += 1
        if wild:
            positions = noise.uniform(-10, 10, (steps, 3))
        else:
            positions = self.arm + np.cumsum(noise.normal(0, 0.02, (steps, 3)) * LIMITS.velocity, axis=0)
        base = self.player.cursor if based else Cursor()
        return self.player.player_id, Chunk(NAMES, positions, self.now_ns, 20 * MS, None, session, epoch, seq, base=base)

    def offer(self, run, chunk):
        verdict = self.player.offer(chunk, self.now_ns)
        if (held := self.player.holds.first) is not None:
            assert verdict.reason is held
        if isinstance(verdict, Accepted):
            self.witness.disturbed()
            assert run == self.player.player_id or not self.player.holds.fenced, "it was decided before the last hold ended"

    @rule(session=st.sampled_from([1, 2]))
    def policy_resets(self, session):
        self.orders[session] = [self.orders[session][0] + 1, 0]
        self.player.epoch(session, self.orders[session][0], self.now_ns)
        self.witness.announce(session, self.orders[session][0])

    @rule()
    def estop(self):
        self.player.estop("the test", self.now_ns)
        self.stopping_since_ns = self.stopping_since_ns or self.command.time_ns

    @rule()
    def take_over(self):
        self.player.take_over(self.now_ns)

    @rule(somebody=st.sampled_from(["", "a teleoperator"]))
    def others_publish(self, somebody):
        self.player.contended(somebody, self.now_ns)

    @rule(by=st.tuples(st.floats(-1, 1), st.floats(-1, 1), st.floats(-0.05, 0.05)))
    def somebody_holds_the_arm(self, by):
        self.arm, self.held_arm = np.clip(self.arm + np.array(by), LIMITS.lower, LIMITS.upper), True

    @rule(reason=st.sampled_from([Reason.ESTOP, Reason.TAKEN_OVER]))
    def release(self, reason):
        """It is refused while the arm moves, else what was held ends; and if nothing else holds, a run begins."""
        call = {Reason.ESTOP: self.player.estop_reset, Reason.TAKEN_OVER: self.player.give_back}[reason]
        latched, run = reason in self.player.holds, self.player.player_id
        if latched and not self.player.at_rest:
            with pytest.raises(PlayerError):
                call()
            return
        call()
        assert reason not in self.player.holds
        assert (self.player.player_id != run) == (latched and self.player.holds.first is None)
        if reason is Reason.ESTOP:
            self.stopping_since_ns = None

    @rule()
    def all_is_well_again(self):
        """Then nothing holds any more, once the arm is at rest: no person has to guess what else to release."""
        self.held_arm = False
        self.come_to_rest()
        self.others_publish("")
        self.release(Reason.ESTOP)
        self.release(Reason.TAKEN_OVER)
        self.come_to_rest()
        assert self.player.holds.first is None

    def come_to_rest(self):
        """Two ticks at least: one in which the arm is where it is said to be, one that sees it there."""
        self.time_passes(2, 0, False)
        for _ in range(1_000):
            if self.player.at_rest and (self.command.position == self.arm).all():
                self.time_passes(1, 0, False)
                return
            self.time_passes(1, 0, False)
        raise AssertionError("no rest within 20 s")

    @rule(based=st.booleans(), by_a_person=st.booleans(), seed=st.integers(0, 2**16))
    def a_chunk_is_overtaken_by_an_interruption(self, based, by_a_person, seed):
        before = self.think(1, False, based, 50, seed)
        self.take_over() if by_a_person else self.estop()
        self.all_is_well_again()
        self.offer(*before)

    @rule()
    def the_clock_jumps_back(self):
        self.now_ns -= 2_000 * MS
        self.tick(jumped=True)

    @rule()
    def off_and_on(self):
        """As the node does: to rest first, then idle, then active where the arm is."""
        latched = [reason for reason in (Reason.ESTOP, Reason.TAKEN_OVER) if reason in self.player.holds]
        self.player.stop("deactivate")
        self.witness.disturbed()
        while not self.player.at_rest:
            self.now_ns += TICK_NS
            self.tick(jumped=False)
        self.player.deactivate()
        assert self.player.state is State.IDLE
        self.now_ns += TICK_NS
        self.activate()
        assert all(reason in self.player.holds for reason in latched)

    @invariant()
    def what_holds_shows(self):
        player = self.player
        if Reason.ESTOP in player.holds:
            assert player.state is State.ESTOP
        elif Reason.TAKEN_OVER in player.holds and player.at_rest:
            assert player.state is State.TAKEN_OVER
        if len(player.holds):
            assert player.state not in (State.PLAYING, State.APPROACHING) and player.cursor.session == 0


TestInterrupted = Interrupted.TestCase
TestInterrupted.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
