"""An episode is a function of task, seed, latency and decisions, to the bit: else paired comparisons and replays mean nothing."""

import numpy as np
import pytest

from flashrt_ros.policies.tabletop_arm import CAMERAS
from flashrt_ros.sim.episode import Episode, run_episode
from flashrt_ros.sim.expert import decide
from flashrt_ros.sim.robot import MS, Robot
from flashrt_ros.sim.world import CONTROL_NS


@pytest.fixture(scope="module")
def robot():
    robot = Robot()
    yield robot
    robot.close()


def record(robot: Robot, kind: str, seed: int, **options) -> list[bytes]:
    """An expert's episode, as every bit of joints, cubes and chunk at each decision, and of the outcome."""
    seen = []

    def noted(episode: Episode) -> np.ndarray:
        rows = decide(robot.world)
        cubes = [cube.position for cube in robot.world.objects().cubes.values()]
        seen.append(b"".join(a.tobytes() for a in (episode.joints, *cubes, rows)))
        return rows

    episode = run_episode(robot, kind, seed, noted, **options)
    return [*seen, repr((episode.score(), episode.now_ns, episode.index)).encode()]


@pytest.mark.parametrize("kind", ["place", "belt"])
def test_the_same_seed_and_latency_is_the_same_episode(robot, kind):
    """On a robot that has played another episode before as on a new one, with images rendered or not."""
    first = record(robot, kind, 3, render=False)
    record(robot, "pick", 9, render=False)
    assert record(robot, kind, 3, render=False) == first
    other = Robot()
    assert record(other, kind, 3, render=True) == first
    other.close()


def test_latency_and_seed_are_what_tells_episodes_apart(robot):
    """The equality above would also hold for a recording that sees nothing."""
    first = record(robot, "belt", 3, render=False)
    assert record(robot, "belt", 3, render=False, latency_ns=60 * MS) != first
    assert record(robot, "belt", 4, render=False) != first


@pytest.mark.parametrize("lead_ms", [0, 20, 33, 60])
def test_a_decision_sees_the_frame_of_the_moment_that_it_is_told(robot, lead_ms):
    """Age is what the policy is trained and judged under, so a frame is of frames_ns, not of the decision; the joints are
    of the decision. The belt runs, so that no two moments look alike."""
    episode = Episode(robot, "belt", 6, frame_lead_ns=lead_ms * MS)
    witness = Robot()
    witness.reset("belt", 6)
    for _ in range(4):
        lead_ns = lead_ms * MS if episode.index else 0
        assert 0 <= lead_ns - (episode.now_ns - episode.frames_ns) < CONTROL_NS
        witness.advance(episode.frames_ns)
        for camera in CAMERAS:
            np.testing.assert_array_equal(episode.frames[camera], witness.world.render(camera))
        before = episode.frames["scene"]
        witness.advance(episode.now_ns)
        np.testing.assert_array_equal(episode.joints, witness.world.joints()[0])
        episode.act(None, latency_ns=100 * MS)
        assert (episode.frames["scene"] != before).any()
    witness.close()


def test_joints_and_frames_of_a_decision_stay_as_they_were_taken(robot):
    """Whoever records a decision for training keeps these arrays while the world goes on."""
    episode = Episode(robot, "belt", 6)
    kept = [(array, array.copy()) for array in (episode.joints, *episode.frames.values())]
    for _ in range(3):
        episode.act(decide(robot.world))
    for array, copy in kept:
        np.testing.assert_array_equal(array, copy)
