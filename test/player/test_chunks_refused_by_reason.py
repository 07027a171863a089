"""Every reason for which a chunk is refused, one by one: it is named and counted, and does not disturb the motion."""

from dataclasses import replace

import numpy as np
import pytest
from player_scenes import HOME, LIMITS, MS, NAMES, START_NS, Run, accepted, active_player, assert_limits, slide

from flashrt_ros.chunk.chunk import Cursor
from flashrt_ros.player.command import State
from flashrt_ros.player.conform import conform
from flashrt_ros.player.limits import Limits
from flashrt_ros.player.player import Player, PlayerError, PlayerParameters
from flashrt_ros.player.verdict import Reason, Refused


def refused(player, chunk, now_ns, reason):
    before = player.counters[reason.value]
    verdict = player.offer(chunk, now_ns)
    assert isinstance(verdict, Refused) and verdict.reason is reason, verdict
    assert player.counters[reason.value] == before + 1
    return verdict


@pytest.fixture
def playing():
    """A run that plays (session 1, epoch 2, seq 5, attempt 1)."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns, epoch=2, seq=5, attempt=1), run.now_ns))
    run.ticks(3)
    return run


@pytest.mark.parametrize("epoch, seq, attempt, reason", [
    (2, 5, 1, Reason.STALE_ORDER),  # the same again: a duplicate
    (2, 5, 0, Reason.STALE_ORDER),  # the attempt that was retried
    (2, 4, 9, Reason.STALE_ORDER),  # overtaken on the way
    (1, 99, 0, Reason.OLD_EPOCH),  # before the reset
])
def test_what_is_not_newer_never_plays(playing, epoch, seq, attempt, reason):
    """Order is (epoch, seq, attempt) within a session; arrival order means nothing."""
    refused(playing.player, slide(playing.now_ns, epoch=epoch, seq=seq, attempt=attempt), playing.now_ns, reason)
    assert playing.player.cursor.seq == 5 and playing.ticks(1).state is State.PLAYING


@pytest.mark.parametrize("epoch, seq, attempt", [(2, 5, 2), (2, 6, 0), (3, 0, 0)])
def test_what_is_newer_plays(playing, epoch, seq, attempt):
    """A retry, a successor and a new epoch each rank above what is playing."""
    accepted(playing.player.offer(slide(playing.now_ns, epoch=epoch, seq=seq, attempt=attempt), playing.now_ns))


def test_an_epoch_that_was_announced_refuses_what_is_below(playing):
    """The announcement overtakes chunks on their way; they must not play when they arrive."""
    playing.player.epoch(1, 3, playing.now_ns)
    refused(playing.player, slide(playing.now_ns, epoch=2, seq=6), playing.now_ns, Reason.OLD_EPOCH)
    accepted(playing.player.offer(slide(playing.now_ns, epoch=3), playing.now_ns))


def test_a_foreign_session_is_refused_while_the_old_one_is_alive(playing):
    """One policy at a time; the one that is playing keeps the arm."""
    refused(playing.player, slide(playing.now_ns, session=2), playing.now_ns, Reason.FOREIGN_SESSION)
    assert playing.ticks(1).state is State.PLAYING


def test_session_zero_means_none(playing):
    """A policy that forgot to set its session must hear of it: a cursor with session 0 means that nothing plays."""
    refused(playing.player, slide(playing.now_ns, session=0), playing.now_ns, Reason.NO_SESSION)


@pytest.mark.parametrize("start_ms, reason", [(-501, Reason.EXPIRED), (501, Reason.FUTURE)])
def test_a_chunk_too_far_in_time_is_refused(playing, start_ms, reason):
    """Old plans are wrong plans; a stamp from the future is a clock that disagrees."""
    verdict = refused(playing.player, slide(playing.now_ns + start_ms * MS, epoch=2, seq=6), playing.now_ns, reason)
    assert "501 ms" in verdict.detail and "500 ms" in verdict.detail


def test_a_missing_joint_is_named(playing):
    """Half an arm is not moved."""
    chunk = replace(slide(playing.now_ns, seq=6, epoch=2), names=("pan", "grip"), positions=np.zeros((50, 2)))
    assert "lift" in refused(playing.player, chunk, playing.now_ns, Reason.MISSING_JOINTS).detail


def test_an_unknown_joint_is_named(playing):
    """A joint that we do not drive means that policy and robot are not the pair we were told."""
    chunk = replace(slide(playing.now_ns, seq=6, epoch=2), names=(*NAMES, "toe"), positions=np.zeros((50, 4)))
    assert "toe" in refused(playing.player, chunk, playing.now_ns, Reason.UNKNOWN_JOINTS).detail


@pytest.mark.parametrize("field", ["positions", "velocities"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_located(playing, field, value):
    """NaN passes every comparison-based limit, so it is caught before them."""
    values = np.zeros((50, 3))
    values[4, 1] = value
    verdict = refused(playing.player, replace(slide(playing.now_ns, seq=6, epoch=2), **{field: values}), playing.now_ns,
                      Reason.NON_FINITE)
    assert "lift at step 4" in verdict.detail


def test_a_refused_chunk_does_not_use_up_its_order(playing):
    """Were a bad chunk's seq recorded, its good predecessor on a slower path would be lost as well."""
    bad = replace(slide(playing.now_ns, epoch=2, seq=7), positions=np.full((50, 3), np.nan))
    refused(playing.player, bad, playing.now_ns, Reason.NON_FINITE)
    accepted(playing.player.offer(slide(playing.now_ns, epoch=2, seq=6), playing.now_ns))


def test_a_base_that_lies_ahead_is_refused(playing):
    """A tick that this player has not played cannot be where it was; entering there would be a made-up step."""
    base = replace(playing.player.cursor, tick=playing.player.cursor.tick + 1)
    refused(playing.player, slide(playing.now_ns, epoch=2, seq=6, base=base), playing.now_ns, Reason.BAD_BASE)


@pytest.mark.parametrize("steps", [1, 2, 4, 6])
def test_a_chunk_with_no_step_left_is_refused(playing, steps):
    """After 3 consumed ticks and 2 that are fixed nothing of so short a chunk remains; one step alone never moves."""
    base = Cursor(player=7, tick=0, session=1, epoch=2, seq=5)
    chunk = slide(playing.now_ns, steps=steps, epoch=2, seq=6, base=base)
    refused(playing.player, chunk, playing.now_ns, Reason.HORIZON)


def test_an_idle_player_takes_nothing():
    """A chunk that arrives before activation must not wait for it."""
    player = Player(NAMES, LIMITS, 20 * MS)
    refused(player, slide(START_NS), START_NS, Reason.IDLE)
    player.activate(START_NS, HOME)
    assert player.state is State.HOLDING
    player.deactivate()
    refused(player, slide(START_NS), START_NS, Reason.IDLE)


def test_targets_beyond_a_position_limit_are_clamped_and_counted():
    """A policy that grazes a limit still works; one that lives beyond it shows in a counter."""
    run = Run(active_player())
    chunk = slide(run.now_ns, speed=(0, 0, 0), steps=25)
    chunk.positions[5:10, 1] = 1.0005  # within the tolerance
    chunk.positions[10:, 1] = 1.5
    assert accepted(run.player.offer(chunk, run.now_ns)).clamped == run.player.counters["clamped"] == 15
    run.ticks(60)
    assert run.positions()[:, 1].max() <= 1.0 + 1e-9


def test_a_target_held_at_a_limit_is_at_rest_there():
    """The policy's velocity belongs to the target that it asked for; at the limit it would push against it."""
    chunk = replace(slide(START_NS, [0, 0.9, 0.02], (0, 1, 0), steps=12), velocities=np.tile([0.0, 1.0, 0.0], (12, 1)))
    fit, _ = conform(chunk, LIMITS, 1e-3)
    assert fit.positions[:, 1].max() == 1.0
    np.testing.assert_array_equal(fit.velocities[:, 1], np.where(chunk.positions[:, 1] > 1.0, 0.0, 1.0))


@pytest.mark.parametrize("field", ["positions", "velocities"])
def test_absurd_but_finite_numbers_cannot_overflow(field):
    """The largest float passes the finiteness check; its products must not become NaN behind it."""
    run = Run(active_player())
    values = np.tile([1e308, -1e308, 1e308], (50, 1)) * np.where(np.arange(50) % 2, 1, -1)[:, None]
    accepted(run.player.offer(replace(slide(run.now_ns), **{field: values}), run.now_ns))
    run.ticks(60)
    assert_limits(run.positions(), run.velocities())


@pytest.mark.parametrize("call", [lambda p: p.tick(0), lambda p: p.window(0), lambda p: p.stop("x"),
                                  lambda p: p.epoch(1, 1, 0), lambda p: p.cursor])
def test_an_idle_player_says_that_it_is_idle(call):
    """A node that forgot to activate must not get a command made of nothing."""
    with pytest.raises(PlayerError, match="activate"):
        call(Player(NAMES, LIMITS, 20 * MS))


@pytest.mark.parametrize("make, said", [
    (lambda: Player(("pan",), LIMITS, 1), "same order"),
    (lambda: Player(NAMES, LIMITS, 0), "tick_ns is 0"),
    (lambda: PlayerParameters(expiry_ms=0), "expiry_ms is 0"),
    (lambda: PlayerParameters(window_ms=float("nan")), "window_ms is nan"),
    (lambda: PlayerParameters(clamp_tolerance=-1), "clamp_tolerance is -1"),
    (lambda: active_player(home=[0.0, np.nan, 0.0]), "measured position"),
    (lambda: active_player(home=[0.0, 0.0]), "3 finite values"),
    (lambda: Player(NAMES, LIMITS, 1).activate(0, HOME, player_id=0), "player id 0"),
])
def test_a_player_that_cannot_work_is_not_made(make, said):
    """Found at configuration, with the value, rather than on the moving arm."""
    with pytest.raises(PlayerError, match=said):
        make()


def test_limits_must_be_the_players_own():
    """The same joints in another order would swap limits silently."""
    other = Limits(NAMES[::-1], LIMITS.lower, LIMITS.upper, LIMITS.velocity, LIMITS.acceleration)
    with pytest.raises(PlayerError, match="same order"):
        Player(NAMES, other, 20 * MS)
