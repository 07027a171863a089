"""color_servo in closed loop, from pixels alone, through engine, shipped contract and emulated controller."""

import pytest
from color_servo_scenes import episode

from flashrt_ros.sim.world import World


@pytest.fixture(scope="module")
def world():
    world = World((96, 96))
    yield world
    world.close()


@pytest.mark.parametrize("task, seed", [("pick", 100), ("pick", 101), ("place", 102), ("place", 103)])
def test_a_task_succeeds_with_vision_refreshed_at_every_second_decision(world, task, seed):
    """The contract's schedule lets vision be 300 ms old; the policy claims to be built for that."""
    result = episode(world, task, seed)
    assert result.score.success, result.score.reason


def test_black_images_move_nothing(world):
    """Success without pixels would mean that something other than the cameras tells where the cube is."""
    result = episode(world, "pick", 100, black=True, limit_s=3.0)
    assert not result.score.success and max(result.score.moved.values()) < 1e-3


def test_the_wrong_instruction_moves_the_wrong_cube(world):
    """Success under any instruction would mean that the text is not what steers."""
    result = episode(world, "pick up the red cube", 100, told="pick up the blue cube", limit_s=4.0)
    assert not result.score.success and result.score.moved["blue"] > 0.05
