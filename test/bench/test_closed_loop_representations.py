"""A policy of another representation in the in-process loop: the arm must do what the policy means, whatever the latency."""

from types import SimpleNamespace

import numpy as np
import pytest
from servo_dialects import DeltaServo, HesitantServo

from flashrt_ros import policies
from flashrt_ros.bench.closed_loop import ClosedLoop
from flashrt_ros.contract.load import load
from flashrt_ros.resources import find
from flashrt_ros.sim.robot import MS

PATH = find("config/color_servo.contract.yaml")


@pytest.mark.parametrize("latency_ms", [0, 40, 250])
def test_deltas_become_the_positions_that_the_policy_means(monkeypatch, latency_ms):
    """A whole episode. The arm moves while a chunk is on its way, at 250 ms by a quarter of a second: deltas that were added to
    where it has got to would do that motion twice."""
    made = SimpleNamespace(policy=None, decisions=0)

    def make(choice, device):
        made.policy = DeltaServo(choice, device)
        return made.policy

    def watch(episode, chunk):
        made.decisions += 1
        np.testing.assert_allclose(chunk, made.policy.said, atol=1e-6)

    monkeypatch.setattr(policies, "load", make)
    loop = ClosedLoop(load(PATH, {"outputs[0].representation": "joint_delta"}), latency=latency_ms * MS)
    outcome = loop.run("pick", 10_003, watch=watch)
    loop.close()
    assert outcome.success and outcome.refused == 0 and made.decisions == outcome.decisions


def test_a_gripper_that_hesitates_closes_once(monkeypatch):
    """It closes around the cube and stays so, though every second row lies nearer to the other side."""
    monkeypatch.setattr(policies, "load", HesitantServo)
    loop = ClosedLoop(load(PATH, {"outputs[1].gripper": "{close_at: 0.8, open_at: 0.2, closed: 0.026, open: 0.08}"}))
    told = []
    outcome = loop.run("pick", 10_003, watch=lambda episode, chunk: told.append(chunk[0, 6]))
    loop.close()
    assert outcome.success and outcome.refused == 0
    assert set(told) == {0.026, 0.08} and np.count_nonzero(np.diff(told)) == 1
