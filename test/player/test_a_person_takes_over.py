"""A person, or another program, takes the arm; and the player goes on when it is given back, from where it then is."""

import numpy as np
import pytest
from player_scenes import HOME, Run, accepted, active_player, assert_limits, slide

from flashrt_ros.player.command import State
from flashrt_ros.player.player import PlayerError
from flashrt_ros.player.verdict import Reason


@pytest.fixture
def run():
    """In full motion of the first joint."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns, speed=(1.8, 0, 0)), run.now_ns))
    run.ticks(20)
    return run


def test_it_stops_within_the_limits_and_then_is_taken_over(run):
    """Taken over means that no command is meant any more: it must not be said while there still is one."""
    run.player.take_over(run.now_ns)
    assert run.ticks(1).state is State.STOPPING
    run.ticks(30)
    states = [c.state for c in run.commands[20:]]
    first = states.index(State.TAKEN_OVER)
    assert set(states[:first]) == {State.STOPPING} and set(states[first:]) == {State.TAKEN_OVER}
    assert not run.velocities()[20 + first:].any()
    assert_limits(run.positions(), run.velocities())
    assert run.player.counters["take_over"] == 1


def test_nothing_plays_until_it_is_given_back(run):
    """Chunks go on coming while the person moves the arm; each is refused and counted."""
    run.player.take_over(run.now_ns)
    for seq in range(1, 40):
        verdict = run.player.offer(slide(run.now_ns, run.commands[-1].position, seq=seq, base=run.player.cursor), run.now_ns)
        assert verdict.reason is Reason.TAKEN_OVER and "person" in verdict.detail
        run.ticks(5)
    run.player.deactivate()
    run.player.activate(run.now_ns, HOME)
    assert run.player.state is State.TAKEN_OVER  # a restart of the player is not the person's word
    run.player.give_back()
    assert run.player.state is State.HOLDING


def test_it_goes_on_from_the_measured_pose_and_slowly(run):
    """The arm is where the person left it. A plan for elsewhere is approached; the plans of before never play."""
    before = run.player.cursor
    run.player.take_over(run.now_ns)
    run.ticks(30)
    left = HOME + [-0.8, 0.3, 0.0]
    run.player.tick(run.now_ns, left)
    run.player.give_back()
    old = slide(run.now_ns, left, seq=50, base=before)
    assert run.player.offer(old, run.now_ns).reason is Reason.OLD_RUN
    del run.commands[:]
    assert (run.ticks(1).position == left).all()
    for seq in range(100, 130):
        accepted(run.player.offer(slide(run.now_ns, HOME, (0, 0, 0), seq=seq, base=run.player.cursor), run.now_ns))
        run.ticks(5)
    states = [c.state for c in run.commands]
    assert State.APPROACHING in states and states[-1] is State.PLAYING
    assert np.abs(run.velocities()[:states.index(State.PLAYING)]).max() <= 0.25 * 2.0 + 1e-9
    assert_limits(run.positions(), run.velocities())


def test_it_cannot_be_given_back_while_it_still_stops(run):
    """There is no pose to begin from yet."""
    run.player.take_over(run.now_ns)
    run.ticks(2)
    with pytest.raises(PlayerError, match="still coming to rest"):
        run.player.give_back()


def test_an_e_stop_comes_before_a_take_over_and_each_has_its_own_release(run):
    """The one who resets the e-stop may not be the one who holds the arm."""
    run.player.take_over(run.now_ns)
    run.ticks(30)
    run.player.estop("button", run.now_ns)
    assert run.ticks(10).state is State.ESTOP
    run.player.estop_reset()
    assert run.ticks(1).state is State.TAKEN_OVER and run.player.player_id == 7
    run.player.give_back()
    assert run.ticks(1).state is State.HOLDING and run.player.player_id == 8


def test_a_foreign_publisher_is_a_fault_until_it_is_gone(run):
    """Two that command one controller move the arm in turns; who is right only a person knows."""
    run.player.contended("node '/teleop' publishes on 'arm'", run.now_ns)
    assert run.ticks(1).state is State.FAULT
    run.player.contended("", run.now_ns)  # gone, but the arm still moves: not yet
    assert run.ticks(30).state is State.FAULT
    verdict = run.player.offer(slide(run.now_ns, seq=9), run.now_ns)
    assert verdict.reason is Reason.FOREIGN_PUBLISHER and "/teleop" in verdict.detail
    run.player.contended("", run.now_ns)
    assert run.ticks(1).state is State.HOLDING and run.player.player_id == 8
    assert run.player.counters["contended"] == 1
    assert_limits(run.positions(), run.velocities())
