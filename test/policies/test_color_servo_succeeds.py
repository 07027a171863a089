"""color_servo in closed loop, from pixels alone, through engine, shipped contract, player and emulated controllers."""

import pytest
from color_servo_scenes import CONTRACT

from flashrt_ros.bench.closed_loop import ClosedLoop
from flashrt_ros.contract.load import load


@pytest.fixture(scope="module")
def loop():
    loop = ClosedLoop(load(CONTRACT))
    yield loop
    loop.close()


@pytest.mark.parametrize("task, seed", [("pick", 100), ("pick", 101), ("place", 102), ("place", 103)])
def test_a_task_succeeds_with_vision_refreshed_at_every_second_decision(loop, task, seed):
    """The contract's schedule lets vision be 300 ms old; the policy claims to be built for that."""
    outcome = loop.run(task, seed)
    assert outcome.success and outcome.refused == 0, outcome


def test_the_wrong_instruction_moves_the_wrong_cube(loop):
    """Success under any instruction would mean that the text is not what steers."""
    outcome = loop.run("pick up the red cube", 100, told="pick up the blue cube")
    assert not outcome.success and "the blue cube was moved" in outcome.reason
