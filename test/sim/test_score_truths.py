"""What counts as success, and every way to miss it. The scorer is fed positions by hand: no physics in between."""

from itertools import zip_longest

import numpy as np
import pytest

from flashrt_ros.policies.instruction import Instruction
from flashrt_ros.sim.score import Scorer

STEP_S = 0.1
STARTS = {
    "red": np.array([0.30, 0.10, 0.02]),
    "green": np.array([0.30, -0.10, 0.02]),
    "blue": np.array([0.43, 0.20, 0.03]),
    "yellow": np.array([0.22, 0.0, 0.02]),
}
BINS = {"red": np.array([0.57, -0.2, 0.0]), "blue": np.array([0.57, 0.2, 0.0])}


def scored(instruction, frames, touched=True, belt=()):
    """frames: a list of {colour: displacement}; each lasts STEP_S while the belt (blue rides on it) runs by belt[k]."""
    scorer = Scorer(instruction, STARTS, frozenset({"blue"}), BINS)
    travel = 0.0
    for moves, run in zip_longest(frames, belt, fillvalue=0.0):
        travel += run
        cubes = {c: p + np.array([0, travel if c == "blue" else 0, 0]) + moves.get(c, 0) for c, p in STARTS.items()}
        scorer.update(STEP_S, cubes, travel, touched)
    return scorer.score()


UP = {"red": np.array([0, 0, 0.051])}
PICK = Instruction("pick", "red")
PLACE = Instruction("place", "red", "blue")
IN_BLUE_BIN = {"red": BINS["blue"] + (0.01, -0.02, 0.024) - STARTS["red"]}


def test_half_a_second_up_is_success():
    """And stays one when the cube is put down again."""
    assert scored(PICK, [UP] * 5).success
    result = scored(PICK, [UP] * 5 + [{}])
    assert result.success and result.lifted_s == 0


@pytest.mark.parametrize("frames", [[UP] * 4, [UP] * 4 + [{}] + [UP] * 4, [{"red": np.array([0, 0, 0.049])}] * 9])
def test_too_short_with_a_break_or_too_low_is_none(frames):
    """0.4 s; twice 0.4 s; 49 mm. The reason names what is needed."""
    result = scored(PICK, frames)
    assert not result.success and "needed: 0.5 s" in result.reason


def test_lifting_another_cube_is_a_failure_with_its_name():
    """The wrong cube in the air is a moved bystander."""
    result = scored(PICK, [{"green": np.array([0, 0, 0.06])}] * 9)
    assert not result.success and "green cube was moved by 0.060 m" in result.reason


def test_a_bystander_counts_with_its_furthest_excursion():
    """Pushed away and back again is still pushed; 29 mm are forgiven."""
    shoved = scored(PICK, [{"yellow": np.array([0.031, 0, 0])}] + [UP] * 6)
    assert not shoved.success and shoved.moved["yellow"] == pytest.approx(0.031)
    assert scored(PICK, [{"yellow": np.array([0.029, 0, 0])}] + [UP] * 6).success


def test_what_the_belt_carries_has_not_moved():
    """A bystander on the belt is judged against the belt, running or resting: one that is held back while it runs, or
    pushed on while it rests, has been moved."""
    belt_task, stop_and_go = Instruction("belt", "red"), (0.02, 0.02, 0, 0, 0.02, 0.02)
    assert scored(belt_task, [UP] * 6, belt=stop_and_go).moved["blue"] == pytest.approx(0)
    held_back = [{**UP, "blue": np.array([0, -travel, 0])} for travel in np.cumsum(stop_and_go)]
    assert "blue cube was moved" in scored(belt_task, held_back, belt=stop_and_go).reason
    pushed_on = [{**UP, "blue": np.array([0, 0.02 * k, 0])} for k in (0, 0, 1, 2, 2, 2)]
    assert "blue cube was moved by 0.040 m" in scored(belt_task, pushed_on, belt=stop_and_go).reason


def test_released_in_the_named_bin_is_success():
    """Lying in it, with no finger on it."""
    result = scored(PLACE, [IN_BLUE_BIN], touched=False)
    assert result.success and result.in_bin


@pytest.mark.parametrize(
    "frame, touched",
    [
        (IN_BLUE_BIN, True),
        ({"red": IN_BLUE_BIN["red"] + (0, 0, 0.03)}, False),
        ({"red": IN_BLUE_BIN["red"] + (0.05, 0, 0)}, False),
        ({"red": BINS["red"] + (0, 0, 0.024) - STARTS["red"]}, False),
        ({}, False),
    ],
    ids=["still held", "above the walls", "beside the bin", "in another bin", "where it was"],
)
def test_not_released_in_the_named_bin_is_none(frame, touched):
    """Each of the near misses."""
    result = scored(PLACE, [frame], touched)
    assert not result.success and "is not in the blue bin" in result.reason


def test_lifting_alone_does_not_place():
    """The criterion of one task is not that of another."""
    assert not scored(PLACE, [UP] * 9).success
