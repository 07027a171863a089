"""tabletop_vla in closed loop, in scenes that no training saw, through engine, contract, player and emulated controllers.

A few episodes, to notice that something broke. How often it succeeds, with intervals, is in the README and docs/evaluation.md.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from flashrt_ros.bench.closed_loop import ClosedLoop
from flashrt_ros.contract.load import load
from flashrt_ros.resources import find
from flashrt_ros.sim.robot import MS

CONTRACT = find("config/tabletop_vla.contract.yaml")
SECONDS = 6  # its slowest task takes 5; waiting for failures longer than that is what would take time here


class Late(Exception):
    """The episode took too long for this test."""


def done(loop: ClosedLoop, task: str, seed: int, told: str | None = None) -> bool:
    """Whether it succeeds within SECONDS; healthily, for nothing may be refused."""
    def watch(episode, chunk) -> None:
        if episode.now_ns > SECONDS * 1000 * MS:
            raise Late

    try:
        outcome = loop.run(task, seed, told, watch=watch)
    except Late:
        return False
    assert outcome.refused == 0, outcome
    return outcome.success


@pytest.fixture(scope="module")
def loop() -> Iterator[ClosedLoop]:
    loop = ClosedLoop(load(CONTRACT))
    yield loop
    loop.close()


def test_the_shipped_contract_does_the_tasks(loop):
    """Two new scenes of each kind, with vision at 5 Hz beside the actions; one miss is within what it promises."""
    outcomes = {(kind, seed): done(loop, kind, seed) for kind in ("pick", "place", "belt") for seed in (10_000, 10_001)}
    assert sum(outcomes.values()) >= 5, outcomes


def test_it_follows_the_words(loop):
    """Success under any instruction would mean that the text is not what steers. It does as it is told: the cube that was
    named to it is the one that moves."""
    outcome = loop.run("pick up the red cube", 10_000, told="pick up the blue cube")
    assert not outcome.success and "the blue cube was moved" in outcome.reason


def test_it_needs_its_eyes():
    """A scene that can be done blind would say nothing about vision."""
    blind = ClosedLoop(load(CONTRACT), see=np.zeros_like)
    assert not done(blind, "pick", 10_000)
    blind.close()


def test_training_on_stale_vision_pays_on_the_belt():
    """With vision at 1.25 Hz, on a belt that stops and goes: the weights that were trained on fresh vision only are why
    verify refuses such a ratio. The first four scenes; the rates, with intervals, are in the README."""
    every_8 = {"stages.vision.every": "8", "policy.allow_stale": "true"}
    succeeded = {}
    for weights in ("builtin", "builtin-fresh"):
        loop = ClosedLoop(load(CONTRACT, every_8 | {"policy.checkpoint": weights}))
        succeeded[weights] = sum(done(loop, "belt", seed) for seed in range(10_000, 10_004))
        loop.close()
    assert succeeded["builtin"] > succeeded["builtin-fresh"], succeeded
