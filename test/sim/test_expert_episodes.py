"""The expert does every task through the emulated controller; what does not do the task does not succeed."""

import dataclasses

import numpy as np
import pytest

from flashrt_ros.policies.pick_servo import chunk
from flashrt_ros.policies.tabletop_arm import HOME
from flashrt_ros.sim.episode import run_episode
from flashrt_ros.sim.expert import decide, privileged_belief
from flashrt_ros.sim.jtc import JtcError
from flashrt_ros.sim.world import World


@pytest.fixture(scope="module")
def world():
    return World()


@pytest.mark.parametrize("kind", ["pick", "place", "belt"])
def test_the_expert_succeeds(world, kind):
    """Five seeds of each task, none disturbing another cube by more than a millimetre, in well under the limit."""
    for seed in range(1000, 1005):
        result = run_episode(world, kind, seed, decide)
        assert result.score.success, f"{kind} {seed}: {result.score.reason}"
        assert max(result.score.moved.values()) < 0.001
        assert 1_000_000_000 < result.duration_ns < 6_000_000_000
        assert result.decisions == round(result.duration_ns / 100_000_000)


def test_the_servo_bears_wrong_beliefs(world):
    """Camera-based perception is off by some millimetres, differently at every look."""
    for seed in range(2000, 2004):
        rng = np.random.default_rng(seed)
        bias = np.append(rng.uniform(-0.005, 0.005, 2), 0)

        def noisy(world):
            belief = privileged_belief(world.instruction, world.objects())
            cube = belief.cube + bias + np.append(rng.normal(0, 0.0025, 2), 0)
            belief = dataclasses.replace(belief, cube=cube, yaw=belief.yaw + rng.normal(0, 0.05))
            position, velocity = world.joints()
            return chunk(belief, position, velocity=velocity)

        assert run_episode(world, "place", seed, noisy).score.success


def test_a_cube_lost_on_the_way_is_fetched_again(world):
    """Markov: nothing remembers that the cube was once held, so losing it is a new approach, not the end."""
    world.reset("place", 7)

    def dropping(world, calls=iter(range(1000))):
        rows = decide(world)
        if 18 <= next(calls) < 22:
            rows[:, 6] = HOME[6]
        return rows

    result = run_episode(world, "place", 7, dropping)
    assert result.score.success
    assert result.duration_ns > run_episode(world, "place", 7, decide).duration_ns + 500_000_000


def test_an_arm_at_rest_succeeds_at_nothing(world):
    """The score is earned by motion; the limit ends the episode."""
    for kind in ("pick", "place", "belt"):
        result = run_episode(world, kind, 1, lambda world: np.tile(HOME, (4, 1)), limit_ns=1_000_000_000)
        assert not result.score.success and result.duration_ns == 1_000_000_000 and result.decisions == 10


def test_the_wrong_cube_is_no_success(world):
    """The expert told another colour than the scorer: a success would mean that colours do not matter."""
    instruction = world.reset("pick", 3)
    other = dataclasses.replace(instruction, colour=next(c for c in world.layout.cubes if c != instruction.colour))

    def astray(world):
        position, velocity = world.joints()
        return chunk(privileged_belief(other, world.objects()), position, velocity=velocity)

    result = run_episode(world, instruction, 3, astray, limit_ns=4_000_000_000)
    assert not result.score.success and f"{other.colour} cube was moved" in result.score.reason


def test_a_refused_chunk_is_an_error_not_a_silence(world):
    """A chunk with too few joints would otherwise leave the arm standing for the whole episode."""
    with pytest.raises(JtcError, match="decision 0"):
        run_episode(world, "pick", 1, lambda world: np.zeros((4, 6)))
