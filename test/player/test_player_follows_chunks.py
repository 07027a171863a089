"""From chunk to motion: where a chunk is entered, how it joins the present motion, how it ends. And the cursor.

Whatever the strategy by which chunks are spliced, these hold: most scenes have one chunk, or chunks that agree.
"""

from functools import partial

import numpy as np
import pytest
from player_scenes import HOME, LIMITS, MS, START_NS, TICK_NS, Run, accepted, assert_limits, slide
from player_scenes import active_player as player_with

from flashrt_ros.chunk.chunk import Cursor
from flashrt_ros.chunk.splice import STRATEGIES
from flashrt_ros.player.command import State
from flashrt_ros.player.player import PlayerError


@pytest.fixture(params=STRATEGIES)
def active_player(request):
    return partial(player_with, strategy=request.param)


def test_it_holds_the_measured_pose_until_a_chunk_comes(active_player):
    """Zeros before the first message have swung arms; the only safe pose is the one it is in."""
    run = Run(active_player())
    last = run.ticks(5)
    assert last.state is State.HOLDING and (run.positions() == HOME).all() and (run.velocities() == 0).all()
    assert last.cursor == Cursor(player=7)


def test_a_chunk_is_followed_exactly_once_joined(active_player):
    """After the blend, command and chunk are the same at each tick's own time."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns), run.now_ns))
    last = run.ticks(25)
    np.testing.assert_allclose(last.position, HOME + 25 * 0.02 * np.array([0.5, -0.2, 0]), atol=1e-9)
    np.testing.assert_allclose(last.velocity, [0.5, -0.2, 0], atol=1e-9)
    assert last.state is State.PLAYING and last.time_ns == START_NS + 25 * TICK_NS
    assert_limits(run.positions(), run.velocities())


def test_the_first_chunk_is_entered_by_its_stamp(active_player):
    """Nothing was played at its base, so elapsed time is the only measure there is."""
    run = Run(active_player())
    run.ticks(5)
    assert accepted(run.player.offer(slide(START_NS + 30 * MS), run.now_ns)).entry_step == 3.5


def test_a_chunk_ahead_of_its_time_is_entered_at_step_zero(active_player):
    """There is nothing before step 0 to play."""
    run = Run(active_player())
    assert accepted(run.player.offer(slide(run.now_ns + 90 * MS), run.now_ns)).entry_step == 0


def test_later_chunks_are_entered_at_the_steps_consumed_since_their_base(active_player):
    """Whatever the stamps say: what was executed is counted, not estimated. Steps of 40 ms are two ticks each."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns), run.now_ns))
    run.ticks(3)
    base = run.player.cursor
    run.ticks(7)
    misdated = slide(run.now_ns - 400 * MS, base=base, seq=1, step_ns=40 * MS)
    assert accepted(run.player.offer(misdated, run.now_ns)).entry_step == 3.5


def test_a_chunk_for_another_player_run_is_entered_by_its_stamp(active_player):
    """After the player's own restart, ticks of the run before are no measure."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns), run.now_ns))
    run.ticks(10)
    base = Cursor(player=8, tick=2, session=1)
    assert accepted(run.player.offer(slide(run.now_ns - 40 * MS, base=base, seq=1), run.now_ns)).entry_step == 2


def test_a_pause_in_the_motion_consumes_no_steps(active_player):
    """Steps that were not executed are still to be executed: it goes on where the arm stopped, not where time is."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns, steps=4), run.now_ns))
    run.ticks(2)
    base = run.player.cursor
    run.ticks(12)  # 3 of them played in all; the chunk has ended
    assert run.player.state is State.HOLDING and run.player.cursor.tick == 3
    assert accepted(run.player.offer(slide(run.now_ns - 200 * MS, base=base, seq=1), run.now_ns)).entry_step == 1


def test_columns_are_matched_by_name(active_player):
    """A chunk in another joint order is the same chunk."""
    a, b = Run(active_player()), Run(active_player())
    chunk = slide(START_NS)
    accepted(a.player.offer(chunk, START_NS))
    swapped = type(chunk)(chunk.names[::-1], chunk.positions[:, ::-1], START_NS, chunk.step_ns, session=1)
    accepted(b.player.offer(swapped, START_NS))
    a.ticks(60), b.ticks(60)
    assert np.array_equal(a.positions(), b.positions())


def test_a_chunk_may_give_its_own_velocities(active_player):
    """Given velocities are used, not recomputed: here they say rest at each step."""
    run = Run(active_player())
    chunk = slide(run.now_ns, speed=(0.4, 0, 0), step_ns=200 * MS)
    accepted(run.player.offer(type(chunk)(chunk.names, chunk.positions, run.now_ns, chunk.step_ns, session=1,
                                          velocities=np.zeros((50, 3))), run.now_ns))
    assert abs(run.ticks(20).velocity[0]) < 0.02  # at step 2; without them it would be 0.4


def test_a_new_chunk_is_joined_without_a_step_in_velocity(active_player):
    """A chunk that disagrees with the present motion fades in; the arm must not be struck."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns), run.now_ns))
    run.ticks(10)
    cursor = run.player.cursor
    other = slide(run.now_ns, HOME + [0.2, 0.0, 0.005], (0.2, -0.1, 0), seq=1, base=cursor)
    accepted(run.player.offer(other, run.now_ns))
    run.ticks(24)
    assert_limits(run.positions(), run.velocities())
    np.testing.assert_allclose(run.velocities()[-1], [0.2, -0.1, 0], atol=0.01)
    assert np.abs(np.diff(run.velocities()[10:], axis=0)).max() < 0.15  # of the 0.2 that the limit allows in a tick


def test_a_far_chunk_is_approached_within_half_the_limits(active_player):
    """The first chunk may be anywhere; the way there is slow and smooth, not at the edge of what the arm can do."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns, [1.5, -0.8, 0.03], (0, 0, 0), steps=500), run.now_ns))
    run.ticks(24)
    speeds = run.velocities()
    assert (np.abs(speeds) <= LIMITS.velocity / 2 + 1e-6).all() and np.abs(speeds[:, 0]).max() > 0.1
    # The first tick catches up with a reference that began to accelerate at once; hence a margin on the half.
    assert (np.abs(np.diff(speeds, axis=0)) <= 0.52 * LIMITS.acceleration * 0.02).all()


def test_the_end_of_a_chunk_is_a_limited_stop(active_player):
    """When chunks cease, the arm comes to rest instead of holding a speed or snapping still."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns, speed=(1.8, 0, 0), steps=21), run.now_ns))
    assert run.ticks(20).state is State.PLAYING
    assert run.ticks(1).state is State.STOPPING
    last = run.ticks(12)
    assert last.state is State.HOLDING and (last.velocity == 0).all() and run.player.counters["ran_out"] == 1
    assert last.cursor == Cursor(player=7, tick=20)
    assert_limits(run.positions(), run.velocities())


def test_an_expired_chunk_is_left_though_it_has_steps(active_player):
    """A policy that died 0.5 s ago must not drive the arm for the rest of a long chunk."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns, steps=500, speed=(0.1, 0, 0)), run.now_ns))
    assert run.ticks(25).state is State.PLAYING
    assert run.ticks(1).state in (State.STOPPING, State.HOLDING)
    run.ticks(50)
    assert run.player.counters["chunk_expired"] == 1 and run.player.counters["ran_out"] == 0


def test_a_late_chunk_resumes_out_of_the_stop(active_player):
    """A stop is not the end: the next good chunk takes the moving arm over, without a jolt."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns, speed=(1.5, 0, 0), steps=16), run.now_ns))
    run.ticks(18)
    assert run.player.state is State.STOPPING
    where = run.commands[-1].position
    accepted(run.player.offer(slide(run.now_ns, where, (0.3, 0, 0), seq=1), run.now_ns))
    assert run.ticks(1).state is State.PLAYING
    run.ticks(23)
    assert_limits(run.positions(), run.velocities())
    np.testing.assert_allclose(run.velocities()[-1][0], 0.3, atol=1e-6)


def test_the_cursor_counts_played_ticks_and_names_the_chunk(active_player):
    """Policies anchor chunks to it: it never goes back, and rests while nothing is played."""
    run = Run(active_player())
    run.ticks(4)
    accepted(run.player.offer(slide(run.now_ns, steps=6, epoch=2, seq=9, step_ns=40 * MS), run.now_ns))
    assert run.ticks(3).cursor == Cursor(7, 3, 1, 2, 9, step=1.5)
    assert run.ticks(30).cursor == Cursor(7, 10)


def test_stop_drops_the_chunk(active_player):
    """A caller's stop (deactivation, an emergency) leaves nothing that could play on."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns, speed=(1, 0, 0)), run.now_ns))
    run.ticks(15)
    run.player.stop("operator")
    last = run.ticks(30)
    assert last.state is State.HOLDING and run.player.counters["operator"] == 1
    assert_limits(run.positions(), run.velocities())


def test_activation_begins_a_new_run(active_player):
    """Nothing of the run before counts: a new id, a cursor at zero, and the newly measured pose."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns, session=5), run.now_ns))
    run.ticks(5)
    run.player.activate(run.now_ns, HOME + 0.01)
    assert run.player.player_id not in (0, 7) and run.player.cursor == Cursor(player=run.player.player_id)
    assert (run.ticks(1).position == HOME + 0.01).all()


def test_the_tracking_error_is_the_largest_joints(active_player):
    """What was measured is compared with the command that the arm had, not with the one it gets now."""
    player = active_player()
    command = player.tick(START_NS + TICK_NS, HOME + [0.0, -0.03, 0.01])
    assert abs(command.tracking_error - 0.03) < 1e-12
    assert player.tick(START_NS + 2 * TICK_NS).tracking_error is None


def test_an_arm_moved_at_rest_is_held_where_it_is(active_player):
    """Holding the old pose would pull the arm out of a hand, and the next chunk would start from where it is not."""
    run = Run(active_player())
    run.ticks(2)
    run.player.hold_at(HOME + 0.01)
    assert (run.ticks(1).position == HOME + 0.01).all() and run.player.state is State.HOLDING
    accepted(run.player.offer(slide(run.now_ns, HOME + 0.01), run.now_ns))
    run.ticks(1)
    with pytest.raises(PlayerError, match="it is playing"):
        run.player.hold_at(HOME)


def test_commands_cannot_be_changed_from_outside(active_player):
    """The plan and its readers share arrays; a writer would put a jump into the motion."""
    player = active_player()
    command = player.tick(START_NS + TICK_NS)
    assert not command.position.flags.writeable and not player.window(START_NS)[0].velocity.flags.writeable
