"""The e-stop: at once, within what the brakes of the motion law can do, and until a person resets it."""

import numpy as np
import pytest
from player_scenes import HOME, LIMITS, MS, NAMES, START_NS, TICK_NS, Run, accepted, active_player, assert_limits, slide

from flashrt_ros.chunk.chunk import Cursor
from flashrt_ros.player.command import State
from flashrt_ros.player.holds import Holds
from flashrt_ros.player.player import Player, PlayerError, PlayerParameters
from flashrt_ros.player.verdict import Reason


def in_motion(**parameters):
    """A run in full motion of the first joint, of session 1, epoch 2."""
    run = Run(active_player(**parameters))
    accepted(run.player.offer(slide(run.now_ns, speed=(1.8, 0, 0), epoch=2), run.now_ns))
    run.ticks(20)
    assert run.commands[-1].velocity[0] > 1.5
    return run


def refused(run, reason, **chunk):
    verdict = run.player.offer(slide(run.now_ns, run.commands[-1].position, **chunk), run.now_ns)
    assert verdict.reason is reason, verdict
    return verdict


@pytest.mark.parametrize("lead_ms, kept", [(0, 0), (20, 2), (40, 2), (100, 2)])
def test_it_brakes_as_hard_as_it_may_and_waits_for_nothing(lead_ms, kept):
    """Only what the controller executes before another window can reach it is kept of the old motion, however far
    windows lead otherwise: a single command changes with the next tick."""
    run = in_motion(lead_ms=lead_ms)
    run.player.estop("button", run.now_ns)
    before = run.commands[-1].velocity[0]
    run.ticks(30)
    speed = run.velocities()[19:, 0]
    braking = speed[kept:]
    full = LIMITS.acceleration[0] * TICK_NS * 1e-9
    np.testing.assert_allclose(braking[:9], np.maximum(braking[0] - full * np.arange(9), 0), atol=1e-9)
    assert before == speed[0] and (run.velocities()[-1] == 0).all()
    assert_limits(run.positions(), run.velocities())
    assert {c.state for c in run.commands[20:]} == {State.ESTOP}
    assert run.player.counters["emergency_stop"] == 1


def test_it_shortens_a_stop_that_is_under_way():
    """A stop for a new epoch begins only after the lead; the e-stop that follows it need not wait so long."""
    run = in_motion(lead_ms=200)
    run.player.epoch(1, 3, run.now_ns)
    run.player.estop("button", run.now_ns)
    run.ticks(30)
    assert np.count_nonzero(run.velocities()[20:, 0]) == 2 + 9  # two ticks of the old motion, then 2 rad/s at 0.2 a tick


def test_every_chunk_is_refused_until_the_reset_whatever_else_happens():
    """New sessions, new epochs, time and a restart of the player: none of them is a person who says that it is safe."""
    run = in_motion()
    run.player.estop("button", run.now_ns)
    run.ticks(30)
    for chunk in (dict(epoch=2, seq=1), dict(epoch=3), dict(session=2), dict(base=run.player.cursor, seq=9)):
        verdict = refused(run, Reason.ESTOP, **chunk)
        assert "button" in verdict.detail
    assert run.player.counters["estop"] == 4
    run.player.epoch(1, 9, run.now_ns)
    refused(run, Reason.ESTOP, epoch=9)
    run.ticks(2_000)
    refused(run, Reason.ESTOP, epoch=9, seq=1)
    run.player.deactivate()
    assert run.player.state is State.IDLE
    run.player.activate(run.now_ns, HOME)
    assert run.player.state is State.ESTOP
    refused(run, Reason.ESTOP, session=3)
    assert (run.ticks(5).position == HOME).all()


def test_an_e_stop_while_idle_waits_for_the_activation():
    """Somebody pressed it before the robot was switched on; switching on is no release."""
    player = Player(NAMES, LIMITS, TICK_NS)
    player.estop("button", START_NS)
    player.activate(START_NS, HOME)
    assert player.state is State.ESTOP and player.counters["emergency_stop"] == 1
    player.deactivate()
    player.estop_reset()
    player.activate(START_NS, HOME)
    assert player.state is State.HOLDING


def test_it_outlives_the_player_whose_holds_are_kept():
    """A node that is cleaned up and configured anew makes another player; the button is still pressed."""
    holds = Holds()
    Player(NAMES, LIMITS, TICK_NS, holds=holds).estop("button", START_NS)
    second = Player(NAMES, LIMITS, TICK_NS, holds=holds)
    second.activate(START_NS, HOME)
    assert second.state is State.ESTOP


def test_a_reset_while_the_arm_moves_is_refused():
    """A run begins at rest, where the arm is."""
    run = in_motion()
    run.player.estop("button", run.now_ns)
    run.ticks(3)
    with pytest.raises(PlayerError, match="button; the arm is still coming to rest"):
        run.player.estop_reset()
    run.ticks(20)
    run.player.estop_reset()
    assert run.player.state is State.HOLDING
    run.player.estop_reset()  # once more does nothing
    assert run.player.player_id == 8


@pytest.mark.parametrize("chunk", [dict(), dict(base=Cursor(7, 19, 1, 2)), dict(epoch=3), dict(session=4)])
def test_after_the_reset_nothing_plays_that_was_decided_before(chunk):
    """Not the chunk that was under way, whatever it says of its time; nor one of a policy that has never heard the player,
    be it in another epoch or session. What was decided since plays, in the same session and epoch: a policy need not know
    that there was a stop."""
    run = in_motion()
    run.player.estop("button", run.now_ns)
    run.ticks(30)
    run.player.estop_reset()
    assert "run 8" in refused(run, Reason.OLD_RUN, **{"epoch": 2, "seq": 20} | chunk).detail
    run.ticks(30)  # a second session is silent again
    chunk = slide(run.now_ns, run.commands[-1].position, epoch=2, seq=21, base=run.player.cursor)
    accepted(run.player.offer(chunk, run.now_ns))
    assert run.ticks(10).state is State.PLAYING
    assert_limits(run.positions(), run.velocities())


def test_the_run_after_it_begins_where_the_arm_is_measured():
    """The arm may have been pushed out of the way meanwhile; it must not be pulled back."""
    run = in_motion()
    run.player.estop("button", run.now_ns)
    run.ticks(30)
    pushed = run.commands[-1].position + [0.3, -0.2, 0.001]
    run.player.tick(run.now_ns, pushed)
    run.player.estop_reset()
    assert (run.ticks(1).position == pushed).all()


def test_two_policies_at_once_do_not_hide_it():
    """The e-stop is what a person must see and reset; the other fault shows when that is done."""
    run = in_motion()
    run.player.estop("button", run.now_ns)
    for seq in range(3):
        for session in (1, 2):
            run.player.offer(slide(run.now_ns, session=session, epoch=2, seq=seq + 1), run.now_ns)
        assert run.ticks(5).state is State.ESTOP
    run.ticks(5)
    run.player.estop_reset()
    assert run.player.state is State.FAULT
    assert_limits(run.positions(), run.velocities())


def test_it_stops_a_player_whose_timer_is_late():
    """The stop is counted from what the controller has executed meanwhile, not from where the timer last was."""
    run = in_motion()
    run.player.estop("button", run.now_ns + 5 * TICK_NS)
    run.now_ns += 4 * TICK_NS
    run.ticks(30)
    assert run.player.counters["late_ticks"] == 4
    speed = run.velocities()[20:, 0]
    assert speed[0] > 1.5 and (np.diff(speed) <= 1e-9).all() and speed[-1] == 0


def test_parameters_of_the_approach_are_checked():
    """As all others."""
    for parameter, value in (("approach_speed", 0.0), ("approach_speed", 1.5), ("start_distance", 0.0), ("tracking_ms", -1.0)):
        with pytest.raises(PlayerError, match=f"{parameter} is {value}"):
            PlayerParameters(**{parameter: value})


def test_its_window_ends_in_the_same_stop():
    """A controller of windows must hear of the stop with the next window, and come to the same rest."""
    run = in_motion(lead_ms=40)
    run.player.estop("button", run.now_ns)
    run.ticks(1)
    window = run.player.window(run.now_ns)
    run.ticks(30)
    assert (window[-1].velocity == 0).all()
    np.testing.assert_allclose(window[-1].position, run.commands[-1].position, atol=1e-12)
    assert window[-2].time_ns - run.commands[20].time_ns < 250 * MS
