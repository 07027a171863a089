"""The watchdog: whatever ceases (chunks, steps, ticks), the arm comes to rest once, and it is counted once."""

import pytest
from player_scenes import MS, TICK_NS, Run, accepted, active_player, slide

from flashrt_ros.player.command import State

ENDS = ("ran_out", "chunk_expired", "stalled")


def ends(player):
    return {end: player.counters[end] for end in ENDS if player.counters[end]}


def silence(run, policy_steps, ticks, gap_ns=0):
    """A chunk of so many steps, and then nothing."""
    start = run.commands[-1].position if run.commands else (0.1, 0.2, 0.02)
    accepted(run.player.offer(slide(run.now_ns, start, (0.2, 0, 0), policy_steps, seq=len(run.commands)), run.now_ns))
    run.ticks(5)
    run.now_ns += gap_ns
    run.ticks(ticks)


@pytest.mark.parametrize("steps, gap_ns, cause", [
    (12, 0, "ran_out"),
    (60, 0, "chunk_expired"),
    (12, 60 * TICK_NS, "ran_out"),  # the timer did not fire either: the arm has done what the last window said
    (60, 60 * TICK_NS, "stalled"),
])
def test_a_stall_is_counted_once_however_long_it_lasts(steps, gap_ns, cause):
    """A counter that goes on counting while nothing happens tells nobody how often it went wrong."""
    run = Run(active_player())
    silence(run, steps, 1_000, gap_ns)
    assert ends(run.player) == {cause: 1} and run.player.state is State.HOLDING
    silence(run, steps, 1_000, gap_ns)
    assert ends(run.player) == {cause: 2}


def test_refused_chunks_do_not_restart_the_watchdog():
    """A policy that sends only what cannot play is as silent as one that sends nothing."""
    run = Run(active_player())
    silence(run, 60, 0)
    for _ in range(40):
        run.player.offer(slide(run.now_ns - 900 * MS, seq=9_999), run.now_ns)
        run.ticks(5)
    assert ends(run.player) == {"chunk_expired": 1} and run.player.counters["expired"] == 40
    assert run.player.state is State.HOLDING


def test_a_clock_that_stands_still_is_no_stall():
    """A paused simulation: the timer of a simulated clock fires late or not at all, and nothing has happened."""
    run = Run(active_player())
    silence(run, 60, 3)
    for _ in range(50):
        run.player.tick(run.now_ns)
    assert ends(run.player) == {} and run.player.state is State.PLAYING
