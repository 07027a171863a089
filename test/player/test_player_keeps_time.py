"""Commands keep to their grid whatever the timer and the clock do: late, early, stalled, jumping back."""

import numpy as np
import pytest
from player_scenes import HOME, MS, START_NS, TICK_NS, Run, accepted, active_player, assert_limits, slide

from flashrt_ros.player.command import State
from flashrt_ros.player.verdict import Reason


def started(speed=(0.5, 0, 0), **chunk):
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns, speed=speed, **chunk), run.now_ns))
    return run


@pytest.mark.parametrize("jitter_ms", [(3, -3, 9, -9, 0, 4), (19, 0, 19, 0, 19, 0)])
def test_a_jittering_timer_changes_nothing(jitter_ms):
    """One call is one tick: commands and their times are those of a perfect timer."""
    steady, shaky = started(), started()
    steady.ticks(24)
    for k in range(24):
        shaky.commands.append(shaky.player.tick(START_NS + (k + 1) * TICK_NS + jitter_ms[k % 6] * MS))
    assert np.array_equal(steady.positions(), shaky.positions())
    assert [c.time_ns for c in steady.commands] == [c.time_ns for c in shaky.commands]


def test_a_late_tick_catches_up_with_the_window_that_was_executed():
    """The controller went on along the last window meanwhile; a command that had not would pull the arm back."""
    steady, late = started(), started()
    steady.ticks(12)
    late.ticks(5)
    command = late.player.tick(START_NS + 12 * TICK_NS)
    assert np.array_equal(command.position, steady.commands[-1].position)
    assert command.cursor == steady.commands[-1].cursor and late.player.counters["late_ticks"] == 6


def test_a_chunk_that_comes_before_a_late_tick_joins_where_the_arm_is():
    """Had the overdue ticks not been consumed first, the new chunk would start from a pose of 100 ms ago."""
    run = started()
    run.ticks(5)
    preview = {p.time_ns: p.position for p in run.player.window(run.now_ns)}
    now_ns = run.now_ns + 6 * TICK_NS
    accepted(run.player.offer(slide(now_ns, seq=1, speed=(-0.5, 0, 0)), now_ns))
    command = run.player.tick(now_ns)
    assert command.time_ns == now_ns
    assert np.array_equal(command.position, preview[now_ns])  # and turns from there on


def test_a_stall_longer_than_a_window_ends_where_the_window_did():
    """Then the controller has come to rest at the window's end; the player resumes there, not in its own plan."""
    run = started(speed=(1.0, 0, 0))
    run.ticks(5)
    end = run.player.window(run.now_ns)[-1]
    command = run.player.tick(run.now_ns + 3_000 * MS)
    np.testing.assert_allclose(command.position, end.position, atol=1e-12)
    assert command.state is State.HOLDING and run.player.counters["stalled"] == 1
    assert command.cursor.tick == 5 + 15  # the ticks of the window that played


def test_ticks_ahead_of_the_clock_repeat_the_command():
    """Simulation time may stand while a wall timer goes on: nothing moves then."""
    run = started()
    run.ticks(5)
    ahead = [run.player.tick(run.now_ns) for _ in range(10)]
    assert {c.time_ns for c in ahead[1:]} == {ahead[0].time_ns}
    assert ahead[0].time_ns <= run.now_ns + TICK_NS and ahead[-1].cursor == ahead[0].cursor


def test_a_clock_that_jumps_back_stops_the_arm_and_is_survived():
    """A bag that loops, a simulator that is reset: stop within limits, drop the plan, go on with the next chunk."""
    run = started(speed=(1.5, 0, 0))
    run.ticks(15)
    run.now_ns -= 10_000 * MS
    first = run.ticks(1)
    assert first.state is State.STOPPING and abs(first.time_ns - run.now_ns) <= TICK_NS
    assert run.ticks(12).state is State.HOLDING and run.player.counters["clock_back"] == 1
    assert run.player.offer(slide(run.now_ns + 10_000 * MS, seq=1), run.now_ns).reason is Reason.FUTURE
    accepted(run.player.offer(slide(run.now_ns, seq=1), run.now_ns))
    run.ticks(20)
    assert_limits(run.positions(), run.velocities())


def test_after_a_jump_back_a_dead_session_does_not_outlive_its_expiry():
    """Times of the old clock lie far ahead; taken at face value they would keep the dead policy alive for hours."""
    run = started()
    run.now_ns -= 10_000 * MS
    run.ticks(20)
    assert run.player.offer(slide(run.now_ns, session=2), run.now_ns).reason is Reason.FOREIGN_SESSION
    run.ticks(7)
    accepted(run.player.offer(slide(run.now_ns, session=2, seq=1), run.now_ns))


def test_a_small_step_back_is_no_jump():
    """A clock that is being slewed must not stop the arm."""
    run = started()
    run.ticks(5)
    assert run.player.tick(run.now_ns - 30 * MS).state is State.PLAYING
    assert run.player.counters["clock_back"] == 0


def test_a_window_is_what_the_next_ticks_command():
    """The controller executes windows; were they another motion, each new one would be a jump."""
    run = started(speed=(0.8, 0.3, 0))
    run.ticks(3)
    window = run.player.window(run.now_ns)
    run.ticks(15)
    for point, command in zip(window, run.commands[2:]):
        assert point.time_ns == command.time_ns
        assert np.array_equal(point.position, command.position) and np.array_equal(point.velocity, command.velocity)


def test_a_window_ends_in_a_limited_stop():
    """Jazzy's controller refuses a window that ends moving, and a dead player must mean a stopped arm."""
    run = started(speed=(1.5, -1.0, 0.02))
    run.ticks(20)
    window = run.player.window(run.now_ns)
    assert (window[-1].velocity == 0).all()
    assert (window[-1].time_ns - run.now_ns) >= 300 * MS
    rows = window[:-1] if window[-1].time_ns - window[-2].time_ns > TICK_NS else window
    assert_limits(np.array([p.position for p in rows]), np.array([p.velocity for p in rows]))


@pytest.mark.parametrize("new_plan", [False, True])
def test_a_window_begins_not_after_now(new_plan):
    """A controller bridges from the measured state to a first point that lies ahead: a small jolt at every message."""
    run = started()
    run.ticks(5)
    early = run.player.tick(run.now_ns)  # a tick ahead of the clock
    assert early.time_ns > run.now_ns
    if new_plan:
        accepted(run.player.offer(slide(run.now_ns, seq=1), run.now_ns))
    for late_ms in (0, 1, 19, 20, 150):
        window = run.player.window(run.now_ns + late_ms * MS)
        assert window[0].time_ns <= run.now_ns + late_ms * MS < window[1].time_ns


@pytest.mark.parametrize("late_ms", [0, 100, 400, 2000])
def test_a_window_at_rest_ends_after_now(late_ms):
    """A controller refuses a trajectory that ends in the past, also one that says `stay`."""
    run = Run(active_player())
    run.ticks(2)
    window = run.player.window(run.now_ns + late_ms * MS)
    assert window[-1].time_ns > run.now_ns + late_ms * MS and (window[-1].position == HOME).all()
    assert all(a.time_ns < b.time_ns for a, b in zip(window, window[1:]))
