"""Guards over whole episodes of a policy that is known to be sane: what it does must pass, whatever it changes its mind about,
and what it might do on a broken machine must not."""

import numpy as np
import pytest

from flashrt_ros import policies
from flashrt_ros.capsule.guards import Guards
from flashrt_ros.capsule.rollback import JUMP, POSITION, VELOCITY
from flashrt_ros.contract.load import load
from flashrt_ros.contract.verify import verify
from flashrt_ros.engine.continuation import Commanded
from flashrt_ros.engine.observation import InputValue, Observation
from flashrt_ros.policies.instruction import KINDS
from flashrt_ros.resources import find
from flashrt_ros.sim import expert
from flashrt_ros.sim.episode import Episode
from flashrt_ros.sim.layout import draw_instruction
from flashrt_ros.sim.robot import MS, Robot

CONTRACT = load(find("config/color_servo.contract.yaml"))
EVERY = 10  # decisions between two that are broken on purpose, so that the arm is everywhere by then
BROKEN = {  # what is done to the joints of the arm [H, 6]: of faults that leave every value finite
    "in degrees": np.rad2deg,
    "mirrored": np.negative,
    "of a neighbour": lambda arm: np.roll(arm, 1, axis=1),
    "not written": np.zeros_like,
    "a row of another": lambda arm: np.where(np.arange(len(arm))[:, None] == 20, arm[:, ::-1], arm),
}


@pytest.fixture(scope="module")
def robot():
    robot = Robot()
    yield robot
    robot.close()


@pytest.mark.parametrize("latency_ms", [40, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sane_policy_passes_and_a_broken_machine_does_not(robot, kind, latency_ms):
    """The expert, whose chunks follow cube, belt and arm as they are: what it does at any moment is sane. A late chunk
    makes it turn round, and the guards must not care; the same numbers in a wrong unit, column or sign they must find."""
    guards = Guards(verify(CONTRACT, policies.spec(CONTRACT.policy)))
    episode = Episode(robot, draw_instruction(kind, 10_001), 10_001, render=False)
    judged = 0
    while not episode.over:
        chunk = expert.decide(robot.world)
        seen = Observation(episode.index, episode.now_ns, {"joints": InputValue(episode.joints.astype(np.float32), 1, None)})
        told = robot.command and Commanded(robot.command.position, robot.command.velocity)
        assert guards.judge(chunk, seen, told) is None
        for name, fault in BROKEN.items() if judged % EVERY == 0 else ():
            wrong = chunk.copy()
            wrong[:, :6] = fault(chunk[:, :6])
            trip = guards.judge(wrong, seen, told)
            assert trip is not None and trip.guard in (POSITION, VELOCITY, JUMP), f"{name}: {trip}"
        judged += 1
        episode.act(chunk, latency_ms * MS)
    assert judged > EVERY and episode.score().success
