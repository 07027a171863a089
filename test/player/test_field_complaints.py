"""What users of other players complained about, each as a test of this one. The name says the complaint.

The reports are public issues; a docstring names one where a reader can look the symptom up.
"""

import numpy as np
from player_scenes import HOME, LIMITS, MS, NAMES, START_NS, TICK_NS, Run, accepted, active_player, assert_limits, slide

from flashrt_ros.chunk.chunk import Chunk
from flashrt_ros.player.command import State

SPEED = np.array([0.5, -0.2, 0.0])


def follow_a_line(delays_ms, offer_lag_ms=0):
    """A policy that every 100 ms plans, from the commanded pose, straight on at SPEED; its chunks arrive late."""
    run = Run(active_player())
    arriving = []
    for decision, delay in enumerate(delays_ms):
        command = run.commands[-1] if run.commands else None
        where = HOME if command is None else command.position
        chunk = slide(run.now_ns, where, SPEED, base=run.player.cursor, seq=decision)
        arriving.append((run.now_ns + delay * MS, chunk))
        for _ in range(5):
            for arrival in [a for a in arriving if a[0] <= run.now_ns]:
                run.player.offer(arrival[1], run.now_ns + offer_lag_ms * MS)
                arriving.remove(arrival)
            run.ticks(1)
    return run


def test_splicing_does_not_jump_when_the_delay_varies():
    """lerobot#4223: the index came from a latency estimate, and the arm jumped whenever the estimate was off."""
    run = follow_a_line([180, 40, 0, 199, 80, 160, 20, 120] * 3)
    assert_limits(run.positions(), run.velocities())
    moving = run.velocities()[40:]
    np.testing.assert_allclose(moving, np.tile(SPEED, (len(moving), 1)), atol=1e-3)


def test_a_slow_warm_up_does_not_shift_later_chunks():
    """lerobot#4223, #4454: one 0.7 s first inference inflated the delay for good. Here it is refused and forgotten."""
    slow, quick = follow_a_line([700] + [80] * 20), follow_a_line([80] * 21)
    assert slow.player.counters["expired"] == 1
    assert slow.player.cursor.seq == quick.player.cursor.seq and slow.player.cursor.step == quick.player.cursor.step


def test_the_joint_order_of_the_policy_does_not_matter():
    """lerobot#4122, physical_ai_tools#1: the order differed between two paths, and the arm hit the table."""
    run = Run(active_player())
    straight = slide(START_NS)
    order = [2, 0, 1]
    accepted(run.player.offer(Chunk(tuple(NAMES[i] for i in order), straight.positions[:, order], START_NS, 20 * MS,
                                    session=1), START_NS))
    np.testing.assert_allclose(run.ticks(24).velocity, SPEED, atol=1e-6)


def test_an_800_ms_delay_does_not_make_the_arm_swing():
    """lerobot#4580: chunks 24 steps old were played as if 12 old, and the wrist turned by half a circle."""
    run = follow_a_line([800] * 12)
    assert (run.positions() == HOME).all() and run.player.counters["expired"] > 0


def test_a_reset_leaves_no_old_action_behind():
    """lerobot#1116: the queue outlived the reset, and the next episode began with the last one's actions."""
    run = follow_a_line([0] * 5)
    late = slide(run.now_ns, run.commands[-1].position, SPEED, base=run.player.cursor, seq=99)
    run.player.epoch(1, 1, run.now_ns)
    run.ticks(10)
    stopped = run.commands[-1].position
    assert run.player.offer(late, run.now_ns).reason.value == "old_epoch"
    assert (run.ticks(50).position == stopped).all()


def test_a_stop_leaves_no_queued_frame_playing():
    """pidog-embodiment#25: frames that were queued went on after the stop."""
    run = follow_a_line([0] * 5)
    run.player.stop("operator")
    assert (run.ticks(10).velocity == 0).all() and run.player.cursor.session == 0
    at_rest = run.commands[-1].position
    assert (run.ticks(100).position == at_rest).all()


def test_one_chunk_and_then_silence_is_not_the_end():
    """lerobot#2356: one chunk ran, then nothing for 20 s. A gap is a stop, and the next chunk is played."""
    run = follow_a_line([0] * 3)
    run.ticks(1_000)
    assert run.player.state is State.HOLDING
    accepted(run.player.offer(slide(run.now_ns, run.commands[-1].position, SPEED, seq=50), run.now_ns))
    np.testing.assert_allclose(run.ticks(24).velocity, SPEED, atol=1e-6)


def test_the_arm_does_not_step_back_at_the_start_of_a_chunk():
    """Isaac-GR00T#272: each horizon began with its first steps, which the arm had already passed."""
    run = follow_a_line([100] * 20)
    forward = np.diff(run.positions(), axis=0) * np.sign(SPEED)
    assert (forward >= -1e-12).all()


def test_re_anchoring_does_not_draw_a_saw_tooth():
    """almond-bot/axol#191: 20 to 70 mrad five times a second. Here chunks start where the arm was: under 1 mrad."""
    run = follow_a_line([60, 140] * 10)
    path = run.positions()[50:, 0]
    line = np.polyval(np.polyfit(np.arange(len(path)), path, 1), np.arange(len(path)))
    assert np.abs(path - line).max() < 1e-3


def test_a_chunk_that_nobody_replaces_expires():
    """almond-bot/axol#191 asks for it: a long chunk of a dead policy is not driven to its end."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns, speed=(0.1, 0, 0), steps=1_000), run.now_ns))
    assert run.ticks(30).state is State.HOLDING and run.player.counters["chunk_expired"] == 1


def test_the_motion_does_not_depend_on_when_in_a_tick_a_chunk_came():
    """strands-labs/robots#725: the delay was wall-clock time, so seeded runs differed."""
    at_once, later = follow_a_line([40, 100] * 8), follow_a_line([40, 100] * 8, offer_lag_ms=17)
    assert np.array_equal(at_once.positions()[5:], later.positions()[5:])


def test_a_late_policy_stops_the_arm_smoothly_and_goes_on():
    """openpi#393: the arm jerked and stopped when inference took longer than a frame."""
    run = Run(active_player())
    for seq in range(6):
        where = run.commands[-1].position if run.commands else HOME
        accepted(run.player.offer(slide(run.now_ns, where, (1.5, 0, 0), steps=8, seq=seq), run.now_ns))
        run.ticks(12)
    assert_limits(run.positions(), run.velocities())
    assert run.player.counters["ran_out"] == 6


def test_no_policy_can_drive_the_arm_into_itself_faster_than_allowed():
    """physical-ai-studio#108 asks for a layer against `suicidal robots`: random targets at every step stay limited."""
    run = Run(active_player(start_distance=100.0))  # else it were all one slow approach
    noise = np.random.default_rng(3)
    for seq in range(20):
        chunk = Chunk(NAMES, noise.uniform(-50, 50, (50, 3)), run.now_ns, 20 * MS, session=1, seq=seq,
                      velocities=noise.uniform(-1e3, 1e3, (50, 3)))
        accepted(run.player.offer(chunk, run.now_ns))
        run.ticks(5)
    run.ticks(40)
    assert_limits(run.positions(), run.velocities())
    assert np.abs(run.velocities()).max() > LIMITS.velocity[0] / 2  # it did try


def test_a_stream_of_windows_has_no_fixed_time_from_start():
    """ros2_controllers#1579: with a fixed time_from_start each message restarts the same motion. Ours share a grid."""
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns, speed=SPEED), run.now_ns))
    said = {}
    for _ in range(8):
        run.ticks(1)
        for point in run.player.window(run.now_ns)[:10]:
            assert (point.time_ns - START_NS) % TICK_NS == 0
            assert np.array_equal(said.setdefault(point.time_ns, point.position), point.position)
