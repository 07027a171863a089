"""The in-process loop behind `flashrt eval`: all parts but ROS, in simulated time."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from flashrt_ros.bench import closed_loop
from flashrt_ros.bench.closed_loop import MEASURED, ClosedLoop, Outcome
from flashrt_ros.bench.jobs import told_wrongly
from flashrt_ros.contract.load import load
from flashrt_ros.policies.instruction import parse
from flashrt_ros.policies.tabletop_arm import CAMERAS
from flashrt_ros.resources import find
from flashrt_ros.sim.layout import draw_instruction
from flashrt_ros.sim.robot import MS

CONTRACT = load(find("config/color_servo.contract.yaml"))


@pytest.fixture(scope="module")
def loop():
    loop = ClosedLoop(CONTRACT)
    yield loop
    loop.close()


def record(loop: ClosedLoop, *args, **options) -> tuple[Outcome, list]:
    """The outcome without its one wall-clock figure, and per decision its index and the bits of joints and chunk."""
    seen = []
    outcome = loop.run(*args, watch=lambda episode, chunk: seen.append(
        (episode.index, episode.joints.tobytes(), chunk.tobytes())), **options)
    return replace(outcome, decision_ms=0.0), seen


@pytest.mark.parametrize("kind", ["pick", "place", "belt"])
def test_the_expert_succeeds_through_player_and_controller(loop, kind):
    """With perfect perception a failure would be the loop's own: a refused chunk, a late entry, a rejected window."""
    outcome = loop.run(kind, 10_001, use_expert=True)
    assert outcome.success and outcome.refused == 0, outcome


def test_an_episode_repeats_to_the_last_bit(loop):
    """Also after another one, and in another loop: without that no comparison of two settings on paired scenes means
    anything."""
    outcome, seen = record(loop, "pick", 10_003)
    assert outcome.success and outcome.refused == 0
    loop.run("place", 10_004, use_expert=True)
    assert record(loop, "pick", 10_003) == (outcome, seen)
    other = ClosedLoop(CONTRACT)
    assert record(other, "pick", 10_003) == (outcome, seen)
    other.close()


@pytest.mark.parametrize("kind", ["pick", "belt"])
def test_the_mean_of_an_experts_chunks_succeeds_as_well_and_is_smoother(loop, kind):
    """The same scene under the other strategy. One that did not reach the player, or averaged moments that are not the same,
    would show here."""
    averaging = ClosedLoop(CONTRACT, strategy="ensemble")
    latest, ensemble = (each.run(kind, 10_001, use_expert=True) for each in (loop, averaging))
    averaging.close()
    assert latest.success and ensemble.success and ensemble.refused == 0
    assert 0 < ensemble.jerk_rad_s3 < latest.jerk_rad_s3 and min(ensemble.mean_jump_rad, latest.mean_jump_rad) > 0


def test_an_outcome_tells_what_was_run(loop):
    """Every decision is watched with its chunk, and counted."""
    shapes = []
    outcome = loop.run("place", 10_002, use_expert=True, watch=lambda episode, chunk: shapes.append(chunk.shape))
    assert shapes == [(32, 7)] * outcome.decisions and outcome.decisions > 10
    assert outcome.task == outcome.told == draw_instruction("place", 10_002).text and outcome.seed == 10_002
    assert outcome.seconds == pytest.approx(outcome.decisions * 0.1) and outcome.decision_ms > 0


def test_a_measured_latency_is_the_time_that_a_decision_took(monkeypatch):
    """On a clock that lets every decision take 130 ms the episode is the one of a latency of 130 ms: every second moment of
    the grid is missed, as on a machine that slow."""
    fixed, measured = ClosedLoop(CONTRACT, latency=130 * MS), ClosedLoop(CONTRACT, latency=MEASURED)
    outcome, seen = record(fixed, "pick", 10_006)
    assert [index for index, *_ in seen] == list(range(0, 2 * outcome.decisions, 2))
    ticks = itertools.count(step=130 * MS)
    monkeypatch.setattr(closed_loop, "time", SimpleNamespace(perf_counter_ns=lambda: next(ticks)))
    assert record(measured, "pick", 10_006) == (outcome, seen)
    assert measured.run("pick", 10_006, use_expert=True).decision_ms == 130.0
    for each in (fixed, measured):
        each.close()


def test_a_policy_that_is_told_another_colour_fails_the_scored_one(loop):
    """Else the score would not depend on the instruction."""
    instruction = draw_instruction("pick", 10_004)
    told = told_wrongly(instruction, 10_004)
    assert parse(told).colour != instruction.colour
    outcome = loop.run("pick", 10_004, told)
    assert not outcome.success and (outcome.task, outcome.told) == (instruction.text, told)


def test_what_becomes_of_a_frame_is_all_that_the_policy_sees():
    """Every frame of every camera passes through `see`: a control that blinds one camera only would prove nothing."""
    passed = []
    blind = ClosedLoop(CONTRACT, see=lambda image: passed.append(image.shape) or np.zeros_like(image))
    chunks = []
    outcome = blind.run("pick", 10_005, watch=lambda episode, chunk: chunks.append(chunk - episode.joints))
    blind.close()
    assert passed == [(96, 96, 3)] * len(CAMERAS) * outcome.decisions
    assert not outcome.success and outcome.refused == 0 and np.abs(chunks).max() < 1e-6


def test_decisions_without_a_chunk_are_counted_as_refused():
    """Frames older than the contract allows: the arm rests, and the outcome says that it was not the policy's choice. The
    first frame alone is as new as its decision."""
    inputs = tuple(replace(i, max_age_ms=10.0) if i.image else i for i in CONTRACT.inputs)
    stale = ClosedLoop(replace(CONTRACT, inputs=inputs))
    outcome = stale.run("pick", 10_005)
    stale.close()
    assert not outcome.success and outcome.refused == outcome.decisions - 1 == 119
