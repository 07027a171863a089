"""The expert does every task through player and emulated controllers; what does not do the task does not succeed."""

import dataclasses

import numpy as np
import pytest

from flashrt_ros.policies.pick_servo import chunk
from flashrt_ros.policies.tabletop_arm import HOME
from flashrt_ros.sim.episode import Episode, run_episode
from flashrt_ros.sim.expert import decide, privileged_belief
from flashrt_ros.sim.robot import MS, Robot
from flashrt_ros.sim.score import MOVED_M


@pytest.fixture(scope="module")
def robot():
    return Robot()


def expert(episode: Episode) -> np.ndarray:
    return decide(episode.robot.world)


def run(robot: Robot, task, seed: int, decide=expert, **options) -> Episode:
    """decide looks at no image, so none is rendered."""
    return run_episode(robot, task, seed, decide, render=False, **options)


@pytest.mark.parametrize("kind", ["pick", "place", "belt"])
def test_the_expert_succeeds(robot, kind):
    """Five seeds of each task, in well under the limit, no other cube touched (on the belt they slip by a millimetre when
    it starts and stops) and nothing refused on the way."""
    for seed in range(1000, 1005):
        episode = run(robot, kind, seed)
        score = episode.score()
        assert score.success and episode.over, f"{kind} {seed}: {score.reason}"
        assert max(score.moved.values()) < (0.002 if kind == "belt" else 0.001)
        assert 1_000 * MS < episode.now_ns < 6_000 * MS
        assert episode.decisions == episode.index == episode.now_ns / (100 * MS)
        assert robot.refused == 0


@pytest.mark.parametrize("latency_ms", [0, 100])
def test_latency_up_to_a_period_costs_the_expert_no_task(robot, latency_ms):
    """The chunks bridge it: this is what chunks, their stamps and the player's entry by consumed steps are for."""
    for kind in ("pick", "place", "belt"):
        episode = run(robot, kind, 1005, latency_ns=latency_ms * MS)
        assert episode.score().success and robot.refused == 0 and episode.now_ns < 6_000 * MS, f"{kind}: {episode.score()}"


def test_the_belt_tells_fast_decisions_from_slow_ones(robot):
    """The belt stops and goes within the time that a slow decision takes, so perfect eyes do not help. Without such a task
    no success rate would depend on how fast the pipeline is."""
    done = {latency_ms: sum(run(robot, "belt", seed, latency_ns=latency_ms * MS, limit_ns=5_000 * MS).score().success
                            for seed in range(4)) for latency_ms in (40, 250)}
    assert done[40] == 4 and done[250] <= 1


def test_the_servo_bears_wrong_beliefs(robot):
    """Camera-based perception is off by some millimetres, differently at every look."""
    for seed in range(2000, 2004):
        rng = np.random.default_rng(seed)
        bias = np.append(rng.uniform(-0.005, 0.005, 2), 0)

        def noisy(episode: Episode) -> np.ndarray:
            world = episode.robot.world
            belief = privileged_belief(world.instruction, world.objects())
            cube = belief.cube + bias + np.append(rng.normal(0, 0.0025, 2), 0)
            belief = dataclasses.replace(belief, cube=cube, yaw=belief.yaw + rng.normal(0, 0.05))
            position, velocity = world.joints()
            return chunk(belief, position, velocity=velocity)

        assert run(robot, "place", seed, noisy).score().success


def test_a_cube_lost_on_the_way_is_fetched_again(robot):
    """Markov: nothing remembers that the cube was once held, so losing it is a new approach, not the end."""
    heights = []

    def dropping(episode: Episode) -> np.ndarray:
        world = episode.robot.world
        heights.append(world.objects().cubes[episode.instruction.colour].position[2])
        rows = expert(episode)
        if 18 <= episode.index < 23:
            rows[:, 6] = HOME[6]
        return rows

    episode = run(robot, "place", 7, dropping)
    assert max(heights[:23]) > 0.05 and min(heights[23:30]) < 0.025, "it was to be lifted, and dropped"
    assert episode.score().success
    assert episode.now_ns > run(robot, "place", 7).now_ns + 500 * MS


@pytest.mark.parametrize("kind", ["pick", "place", "belt"])
@pytest.mark.parametrize("chunk", [np.tile(HOME, (32, 1)), None], ids=["home", "no chunk"])
def test_an_arm_at_rest_succeeds_at_nothing(robot, kind, chunk):
    """The score is earned by motion; the limit ends the episode."""
    episode = run(robot, kind, 1, lambda episode: chunk, limit_ns=1_000 * MS)
    assert episode.over and not episode.score().success
    assert episode.now_ns == 1_000 * MS and episode.decisions == 10 and robot.refused == 0


def test_the_wrong_cube_is_no_success_and_ends_the_episode(robot):
    """The expert told another colour than the scorer: a success would mean that colours do not matter. A cube that was
    moved stays moved, so there is nothing to wait for."""
    instruction = robot.reset("pick", 3)
    other = dataclasses.replace(instruction, colour=next(c for c in robot.world.layout.cubes if c != instruction.colour))

    def astray(episode: Episode) -> np.ndarray:
        assert max(episode.score().moved.values()) <= MOVED_M
        position, velocity = episode.robot.world.joints()
        return chunk(privileged_belief(other, episode.robot.world.objects()), position, velocity=velocity)

    episode = run(robot, instruction, 3, astray)
    assert not episode.score().success and f"{other.colour} cube was moved" in episode.score().reason
    assert episode.now_ns < 4_000 * MS
