"""Where a run starts: near the arm at once; far from it slowly, and visibly so, until it gets there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from player_scenes import HOME, LIMITS, MS, Run, accepted, active_player, assert_limits, slide

from flashrt_ros.player.command import State


def follow(run, where, speed=(0, 0, 0), decisions=20):
    """A policy that wants to be there, whatever it sees, and says so at 10 Hz."""
    for _ in range(decisions):
        chunk = slide(run.now_ns, where, speed, seq=len(run.commands), base=run.player.cursor)
        accepted(run.player.offer(chunk, run.now_ns))
        run.ticks(5)
    return run


@pytest.mark.parametrize("away, far", [(0.049, False), (0.051, True)])
def test_a_first_chunk_that_is_far_is_approached(away, far):
    """start_distance is what tells a plan made for this pose from one made for another."""
    run = follow(Run(active_player()), HOME + [away, 0, 0], decisions=1)
    assert run.commands[0].state is (State.APPROACHING if far else State.PLAYING)


def test_the_approach_keeps_to_its_speed_and_ends_near_the_plan():
    """A person beside the robot has time to see where it goes; and when it is there, it works at its usual speed."""
    run = follow(Run(active_player()), HOME + [-1.2, 0.5, 0.01], decisions=80)
    states = [c.state for c in run.commands]
    there = states.index(State.PLAYING)
    speeds = np.abs(run.velocities())
    assert (speeds[:there] <= 0.25 * LIMITS.velocity + 1e-9).all() and speeds[:there, 0].max() > 0.4
    assert set(states[:there]) == {State.APPROACHING} and set(states[there:]) == {State.PLAYING}
    assert np.abs(run.positions()[there] - HOME - [-1.2, 0.5, 0.01]).max() < 0.06
    follow(run, run.commands[-1].position, (1.5, 0, 0), decisions=1)
    assert run.ticks(15).velocity[0] > 1.2
    assert_limits(run.positions(), run.velocities())


def test_a_plan_from_here_that_is_late_is_not_far():
    """It begins where the arm stands, though the step at which it is entered lies ahead: latency is no distance."""
    run = Run(active_player())
    run.now_ns += 140 * MS
    run.player.tick(run.now_ns)
    accepted(run.player.offer(slide(run.now_ns - 140 * MS, HOME, (1.0, 0, 0)), run.now_ns))
    assert run.ticks(1).state is State.PLAYING


def test_near_enough_once_is_near_for_the_run():
    """A policy that jumps in mid-work is the blend's and the limits' business: it is known to have seen this arm."""
    run = follow(Run(active_player()), HOME, decisions=2)
    follow(run, HOME + [0.8, 0, 0], decisions=5)
    assert State.APPROACHING not in {c.state for c in run.commands}
    assert np.abs(run.velocities()).max() > 0.6


def test_an_arm_that_was_moved_at_rest_starts_anew():
    """Whoever pushed it may be beside it."""
    run = follow(Run(active_player()), HOME, decisions=2)
    run.ticks(60)
    run.player.hold_at(HOME + [0.5, 0, 0])
    follow(run, HOME, decisions=1)
    assert run.commands[-1].state is State.APPROACHING


@given(st.tuples(st.floats(-3, 3), st.floats(-2, 2), st.floats(0, 0.08)), st.floats(0.05, 1.0), st.integers(5, 50))
def test_no_start_is_faster_than_the_approach(where, share, steps):
    """The law: until the arm has been near a plan, no joint exceeds the share, whatever the plans say."""
    run = Run(active_player(approach_speed=share))
    for _ in range(10):
        chunk = slide(run.now_ns, where, (1.0, -1.0, 0.1), steps, seq=len(run.commands), base=run.player.cursor)
        accepted(run.player.offer(chunk, run.now_ns))
        run.ticks(5)
    for command in run.commands:
        if command.state is State.PLAYING:
            break
        assert (np.abs(command.velocity) <= share * LIMITS.velocity + 1e-9).all()
    assert_limits(run.positions(), run.velocities())
