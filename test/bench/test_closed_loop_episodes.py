"""The in-process loop behind `flashrt eval`: all parts but ROS, in simulated time."""

import numpy as np
import pytest

from flashrt_ros.bench.closed_loop import ClosedLoop
from flashrt_ros.bench.evaluate import told_wrongly
from flashrt_ros.policies.instruction import parse
from flashrt_ros.resources import find
from flashrt_ros.sim.layout import draw_instruction

CONTRACT = find("config/color_servo.contract.yaml")


@pytest.fixture(scope="module")
def loop():
    return ClosedLoop(CONTRACT)


@pytest.mark.parametrize("kind", ["pick", "place", "belt"])
def test_the_expert_succeeds_through_player_and_controller(loop, kind):
    """With perfect perception a failure would be the loop's own: a refused chunk, a late entry, a rejected window."""
    episode = loop.run(kind, 10_001, use_expert=True)
    assert episode.success and episode.refused == 0, episode


@pytest.mark.parametrize("kind", ["pick", "place"])
def test_the_policy_succeeds_from_pixels(loop, kind):
    episode = loop.run(kind, 10_002)
    assert episode.success and episode.refused == 0, episode


def test_an_episode_repeats_to_the_last_decision(loop):
    """Without that no comparison of two settings on paired scenes means anything."""
    assert loop.run("pick", 10_003) == loop.run("pick", 10_003)


def test_a_policy_that_is_told_another_colour_fails_the_scored_one(loop):
    """Else the score would not depend on the instruction."""
    told = told_wrongly(draw_instruction("pick", 10_004), 10_004)
    assert parse(told).colour != draw_instruction("pick", 10_004).colour
    assert not loop.run("pick", 10_004, told).success


def test_a_blind_policy_does_not_move_the_arm_and_fails():
    """Black images: success would mean that something else than pixels is read."""
    episode = ClosedLoop(CONTRACT, see=np.zeros_like).run("pick", 10_005)
    assert not episode.success and episode.refused == 0
