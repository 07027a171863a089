"""Robot and episodes in simulated time: when a chunk arrives, where it is entered, and what the arm does meanwhile.

Off by one tick of the player, every evaluation would flatter or punish latency, and training would teach the wrong age.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flashrt_ros.chunk.chunk import ChunkError, Cursor
from flashrt_ros.policies.tabletop_arm import HOME, JOINTS
from flashrt_ros.sim.episode import Episode
from flashrt_ros.sim.robot import ARM_LIMITS, MS, TICK_NS, Robot
from flashrt_ros.sim.world import CONTROL_NS

REST = np.tile(HOME, (64, 1))


class NotingRobot(Robot):
    """Notes of every chunk offered: (when, when it was decided, where the player was then)."""

    def reset(self, task, seed):
        self.offers: list[tuple[int, int, Cursor]] = []
        return super().reset(task, seed)

    def offer(self, positions, decided_ns, base, *more):
        self.offers.append((self.elapsed_ns, decided_ns, base))
        return super().offer(positions, decided_ns, base, *more)


@pytest.fixture(scope="module")
def robot():
    return NotingRobot()


def motion(t_ns: np.ndarray | int) -> np.ndarray:
    """Joint targets [..., 7] for times: the arm swings at up to 0.5 rad/s, 10 mrad per tick, while the fingers close."""
    swing = 1 - np.cos(2e-9 * np.asarray(t_ns))
    return HOME + swing[..., None] * np.array([0.25, 0, 0, 0, 0, -0.25, -0.01])


@given(period_ms=st.integers(34, 120), latency_ms=st.integers(0, 150), step_ms=st.integers(10, 40),
       offset_ms=st.integers(-40, 40))
@example(period_ms=100, latency_ms=0, step_ms=20, offset_ms=0)
@example(period_ms=100, latency_ms=40, step_ms=20, offset_ms=0)
@example(period_ms=100, latency_ms=150, step_ms=20, offset_ms=0)
@example(period_ms=36, latency_ms=60, step_ms=20, offset_ms=20)
@settings(max_examples=15)
def test_whatever_the_latency_the_arm_is_where_its_chunks_say_for_now(robot, period_ms, latency_ms, step_ms, offset_ms):
    """All chunks follow one motion in absolute time; then so must the arm, and a cursor's step is the time since its chunk's
    step 0. 3 mrad is what the servos trail by and less than a third of a tick of this motion."""
    offset_ns = min(offset_ms, latency_ms) * MS  # a chunk that starts later than it arrives is entered early, at step 0
    episode = Episode(robot, "pick", 0, period_ns=period_ms * MS, render=False)
    while episode.now_ns < 1200 * MS:
        now_ns, cursor = episode.now_ns, robot.cursor
        assert 0 <= cursor.lag_ns < TICK_NS
        if cursor.session:
            decided_ns = robot.offers[cursor.seq - 1][1]
            assert cursor.step * step_ms * MS == pytest.approx(now_ns - cursor.lag_ns - decided_ns - offset_ns, abs=1)
        if now_ns > (latency_ms + 400) * MS:
            np.testing.assert_allclose(episode.joints, motion(now_ns), atol=0.003)
        rows = now_ns + offset_ns + np.arange(64) * step_ms * MS
        episode.act(motion(rows), latency_ms * MS, step_ms * MS, offset_ns)
    assert robot.refused == 0 and cursor.session


@pytest.mark.parametrize("latency_ms, moments", [(0, 1), (40, 1), (100, 1), (101, 2), (250, 3)])
def test_a_slow_decision_misses_the_moments_that_pass_and_its_chunk_comes_when_it_is_done(robot, latency_ms, moments):
    """250 ms: the next decision is the third of the grid, and the player plays on without news for 250 ms each time."""
    episode = Episode(robot, "pick", 0, render=False)
    for k in range(4):
        assert (episode.index, episode.decisions) == (k * moments, k)
        assert episode.now_ns == robot.elapsed_ns == k * moments * 100 * MS
        episode.act(REST, latency_ms * MS)
    for k, (offered_ns, decided_ns, _) in enumerate(robot.offers):
        assert decided_ns == k * moments * 100 * MS
        assert 0 <= offered_ns - decided_ns - latency_ms * MS < CONTROL_NS
    assert len(robot.offers) == 4 and robot.refused == 0


@pytest.mark.parametrize("latency_ms, tick, step", [(0, 5, 5), (40, 3, 5), (80, 1, 5)])
def test_a_chunks_base_says_what_was_consumed_of_the_one_before(robot, latency_ms, tick, step):
    """At 100 ms the arm is at step 5 of the first chunk, of which it has played what came after its arrival."""
    episode = Episode(robot, "pick", 0, render=False)
    episode.act(REST, latency_ms * MS)
    episode.act(REST, latency_ms * MS)
    first, second = (base for _, _, base in robot.offers)
    assert first.session == 0 and first.player == 1
    assert second == Cursor(player=1, tick=tick, session=1, epoch=1, seq=1, step=step)


def test_ticks_in_which_nothing_was_played_are_not_consumed(robot):
    """Decided every 300 ms and 250 ms under way, a chunk expires (500 ms) before the next one arrives. The arm stops for
    those three ticks, and the next chunk is entered so much earlier: what the arm did counts, not the clock."""
    episode = Episode(robot, "pick", 0, render=False)
    for _ in range(3):
        episode.act(REST, 250 * MS)
    bases = [(base.seq, base.tick, base.step) for _, _, base in robot.offers]
    assert bases == [(0, 0, 0), (1, 2, 15), (2, 14, 12)]


def test_a_decision_without_a_chunk_leaves_the_old_one_playing_to_its_end(robot):
    """A gap in the decisions is a late chunk, not a fault: the arm goes on for the chunk's life, then rests."""
    episode = Episode(robot, "pick", 0, render=False)
    episode.act(motion(np.arange(64) * 20 * MS))
    for _ in range(3):
        episode.act(None)
    np.testing.assert_allclose(episode.joints, motion(400 * MS), atol=0.003)
    for _ in range(6):
        episode.act(None)
    assert robot.cursor.session == 0 and episode.decisions == 10 and len(robot.offers) == 1 and robot.refused == 0
    rest = episode.joints
    episode.act(None)
    np.testing.assert_allclose(episode.joints, rest, atol=1e-4)


def test_a_chunk_of_the_wrong_shape_is_an_error_at_once(robot):
    """It is a bug in whoever decides; counted, it would leave the arm standing for a whole evaluation."""
    with pytest.raises(ChunkError, match=r"shape \(4, 6\)"):
        Episode(robot, "pick", 1, render=False).act(np.zeros((4, 6)))


@pytest.mark.parametrize("chunk", [np.where(np.arange(7) == 3, np.nan, REST), REST[:1]], ids=["not a number", "one row"])
def test_a_chunk_that_the_player_refuses_is_counted_and_moves_nothing(robot, chunk):
    """A policy may well say this, so the episode goes on; the count is what tells it from a policy that rests."""
    episode = Episode(robot, "pick", 1, render=False)
    for _ in range(5):
        episode.act(chunk)
    assert robot.refused == episode.decisions == 5 and robot.cursor.session == 0
    np.testing.assert_allclose(episode.joints, HOME, atol=1e-3)


def test_the_player_keeps_to_the_limits_that_the_robot_was_given():
    """A contract's limits, not only the arm's own: chunks that ask for 1 rad/s are played at the 0.25 rad/s allowed."""
    slow = Robot(replace(ARM_LIMITS, velocity=np.full(len(JOINTS), 0.25)))
    episode = Episode(slow, "pick", 0, render=False)
    for _ in range(10):
        before = episode.joints[0]
        episode.act(episode.joints + np.arange(32)[:, None] * 0.02 * np.eye(7)[0])
        assert episode.joints[0] - before < 0.026
    assert episode.joints[0] - before == pytest.approx(0.025, abs=0.001)
    slow.close()


@given(st.lists(st.integers(0, 120 * MS), min_size=1, max_size=5))
@settings(max_examples=20)
def test_time_is_advanced_to_the_first_control_update_not_before(robot, spans_ns):
    """Nor beyond: two who advance to the same moment, in however many parts, see the same moment."""
    robot.reset("pick", 2)
    until_ns = 0
    for span_ns in spans_ns:
        until_ns += span_ns
        robot.advance(until_ns)
        assert 0 <= robot.elapsed_ns - until_ns < CONTROL_NS
    robot.advance(until_ns // 2)
    assert robot.elapsed_ns - until_ns < CONTROL_NS


def test_a_reset_forgets_the_episode_before(robot):
    """Its chunk, counts and motion; the world's clock alone goes on, as the robot's must."""
    episode = Episode(robot, "pick", 0, render=False)
    episode.act(np.full((2, 7), np.nan))
    for _ in range(4):
        episode.act(motion(episode.now_ns + np.arange(64) * 20 * MS))
    assert len(robot.jumps) == 3 and len(robot.commands) == 25
    assert robot.refused == 1 and robot.cursor.session == 1 and np.abs(robot.world.joints()[0] - HOME).max() > 0.05
    time_ns = robot.world.time_ns
    assert robot.reset("pick up the red cube", 5).text == "pick up the red cube"
    assert robot.refused == 0 and robot.elapsed_ns == 0 and robot.cursor == Cursor(player=1)
    assert robot.jumps == robot.commands == []
    assert robot.world.time_ns == time_ns
    np.testing.assert_array_equal(robot.world.joints()[0], HOME)
    robot.advance(200 * MS)
    np.testing.assert_allclose(robot.world.joints()[0], HOME, atol=1e-3)
