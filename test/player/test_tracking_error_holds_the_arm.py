"""An arm that does not follow its commands: something is in the way, or somebody holds it, or its controller is off."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from player_scenes import EPS, HOME, LIMITS, MS, NAMES, START_NS, TICK_NS, assert_limits, slide

from flashrt_ros.player.command import State
from flashrt_ros.player.limits import Limits, LimitsError
from flashrt_ros.player.player import Player, PlayerParameters
from flashrt_ros.player.tracking import Tracking
from flashrt_ros.player.verdict import Reason

FOLLOWING = replace(LIMITS, tracking_error=np.array([0.1, 0.1, 0.01]))
SPEED = np.array([1.0, 0.0, 0.0])


class Arm:
    """Follows its commands one tick late, unless `blocked` (a pose). The policy plans at 10 Hz from where the arm is."""

    def __init__(self, limits=FOLLOWING, **parameters):
        self.player = Player(NAMES, limits, TICK_NS, PlayerParameters(**parameters))
        self.player.activate(START_NS, HOME, player_id=7)
        self.now_ns, self.at, self.blocked, self.commands, self.verdicts = START_NS, HOME, None, [], []

    def ticks(self, count, policy=True, measured=lambda at: at):
        for _ in range(count):
            if policy and len(self.commands) % 5 == 0:
                chunk = slide(self.now_ns, self.at, SPEED, seq=len(self.commands), base=self.player.cursor)
                self.verdicts.append(self.player.offer(chunk, self.now_ns))
            self.now_ns += TICK_NS
            self.commands.append(self.player.tick(self.now_ns, measured(self.at)))
            self.at = self.commands[-1].position if self.blocked is None else self.blocked
        return self.commands[-1]

    def assert_limits(self):
        """Through a new run as well: it begins where the command has gone before, at rest."""
        assert_limits(np.array([c.position for c in self.commands]), np.array([c.velocity for c in self.commands]))


def test_a_blocked_arm_is_held_where_it_is():
    """The command must not run away from an arm that stands against something: it stops, goes back to the arm so that
    nothing is pressed, and refuses chunks until both are together."""
    arm = Arm()
    arm.ticks(20)
    arm.blocked = arm.at
    arm.ticks(20)
    assert arm.player.counters["tracking_error"] == 1
    refused = arm.player.offer(slide(arm.now_ns, arm.at, seq=999, base=arm.player.cursor), arm.now_ns)
    assert refused.reason is Reason.TRACKING
    assert "pan is 0." in refused.detail and "allowed 0.1" in refused.detail
    arm.ticks(100, policy=False)
    np.testing.assert_allclose(arm.commands[-1].position, arm.blocked, atol=1e-9)
    assert arm.player.state is State.HOLDING and arm.player.counters["gave_way"] == 1
    assert {c.state for c in arm.commands[40:]} == {State.STOPPING, State.HOLDING}
    arm.assert_limits()


def test_it_goes_on_by_itself_in_a_new_run_when_the_arm_is_where_it_should_be():
    """Nobody need press anything; but what was planned before the arm was stopped does not play."""
    arm = Arm()
    arm.ticks(20)
    before = arm.player.cursor
    arm.blocked = arm.at
    arm.ticks(150, policy=False)
    arm.blocked = None
    assert arm.player.player_id == 8
    old = slide(arm.now_ns, arm.at, SPEED, seq=900, base=before)
    assert arm.player.offer(old, arm.now_ns).reason is Reason.OLD_RUN
    assert arm.ticks(30).state is State.PLAYING and arm.commands[-1].velocity[0] > 0.5


def test_an_arm_that_catches_up_when_the_command_stops_needs_no_way_back():
    """A soft arm lags behind; stopping is all that it needs, and nothing moves backward."""
    arm = Arm(replace(LIMITS, tracking_error=np.full(3, 0.1)))
    slow = [HOME]

    def lagging(at):
        slow.append(slow[-1] + 0.12 * (at - slow[-1]))
        return slow[-1]

    arm.ticks(40, measured=lagging)
    assert arm.player.counters["tracking_error"] >= 1
    arm.ticks(60, policy=False, measured=lagging)
    assert arm.player.state is State.HOLDING and arm.player.counters["gave_way"] == 0
    assert (np.diff([c.position[0] for c in arm.commands]) >= -EPS).all()


@pytest.mark.parametrize("samples", [
    lambda i, at: at + [0.5, 0, 0] if i == 7 else at,  # one wrong sample
    lambda i, at: None if 5 < i < 15 else at,  # none at all
    lambda i, at: at + [0.5, 0, 0] if i % 6 < 5 else at,  # off for 100 ms at a time
    lambda i, at: at * np.nan if i in (7, 8) else at,
])
def test_what_does_not_last_is_nothing(samples):
    """One missed or odd sample of a joint state must not stop a robot's work."""
    arm = Arm()
    for i in range(40):
        arm.ticks(1, measured=lambda at: samples(i, at))
    assert arm.player.counters["tracking_error"] == 0 and arm.player.state is State.PLAYING


def test_an_arm_of_which_nothing_is_known_is_held():
    """Not a number for longer than the patience: the command must not go on blindly, nor go to nowhere."""
    arm = Arm()
    arm.ticks(20)
    arm.ticks(40, measured=lambda at: at * np.nan)
    assert arm.player.counters["tracking_error"] == 1 and arm.player.state is State.HOLDING
    assert arm.verdicts[-1].reason is Reason.TRACKING
    arm.ticks(10)
    assert arm.player.state is not State.HOLDING
    arm.assert_limits()


def test_each_joint_has_its_own_limit():
    """Ten millimetres are much for a gripper and nothing for a shoulder in radians."""
    for joint, off in ((0, 0.05), (2, 0.012)):
        arm = Arm()
        shift = np.zeros(3)
        shift[joint] = off
        arm.ticks(20, policy=False, measured=lambda at: at + shift)
        assert arm.player.counters["tracking_error"] == (joint == 2)


def test_without_a_limit_nothing_is_watched():
    """A contract that gives none has not asked for it."""
    arm = Arm(LIMITS)
    arm.blocked = HOME
    assert arm.ticks(100).state is State.PLAYING


def test_a_person_or_an_e_stop_ends_the_watch():
    """While a person moves the arm it is of course not where the command is; that is no second fault to clear."""
    for take, give in ((lambda p, t: p.take_over(t), lambda p: p.give_back()),
                       (lambda p, t: p.estop("x", t), lambda p: p.estop_reset())):
        arm = Arm()
        arm.ticks(20)
        arm.blocked = arm.at
        arm.ticks(12)
        assert Reason.TRACKING in arm.player.holds
        take(arm.player, arm.now_ns)
        arm.ticks(50)
        assert Reason.TRACKING not in arm.player.holds
        give(arm.player)
        assert arm.ticks(1, policy=False).state is State.HOLDING and (arm.commands[-1].position == arm.blocked).all()


def test_a_stalled_timer_is_no_tracking_error():
    """After a stall the arm is compared with the command that its controller has had meanwhile, not with one long past."""
    arm = Arm()
    arm.ticks(20)
    for _ in range(4):
        arm.now_ns += 5 * TICK_NS
        ahead = next(p.position for p in arm.player.window(arm.now_ns) if p.time_ns >= arm.now_ns)
        arm.ticks(1, measured=lambda at: ahead)
    assert arm.player.counters["late_ticks"] == 20 and arm.player.counters["tracking_error"] == 0


def test_the_limit_must_be_positive():
    """Zero would stop every arm; the way to have none is to give none."""
    with pytest.raises(LimitsError, match="'lift': tracking_error is 0"):
        replace(LIMITS, tracking_error=np.array([1.0, 0.0, 1.0]))
    assert (Limits.of(("pan",), type("L", (), dict(position={}, velocity={"pan": 1.0}, acceleration={}, jerk={}, tracking_error={})))
            .tracking_error == np.inf).all()


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=1, max_size=40))
def test_lost_means_off_for_longer_than_the_patience(samples):
    """The law behind it: at each sample, off since the first of an unbroken row that began over 100 ms ago."""
    tracking, now_ns, since = Tracking(FOLLOWING, 100 * MS), 0, None
    for wait_ms, off in samples:
        now_ns += wait_ms * MS
        since = None if not off else now_ns if since is None else since
        assert tracking.look(now_ns, np.array([0.2 * off, 0.0, 0.0])) == (not off)
        assert tracking.lost == (since is not None and now_ns - since > 100 * MS)
