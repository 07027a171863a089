"""The drill of faults with real processes: one scene without and with faults, from the policy's process to the verdict."""

import os

import pytest

from flashrt_ros.capsule.rollback import TIME
from flashrt_ros.resources import DEFAULT_CONTRACT, find
from flashrt_ros.ros.fault_drill import BOXES, SPEED, replayed, roomy
from flashrt_ros.ros.fault_plan import FROZEN, GUARD, match
from flashrt_ros.ros.fault_stage import FaultStage
from flashrt_ros.ros.fault_trial import LATE, Report, table
from flashrt_ros.ros.processes import NodeProcesses

PLACING = 1  # index of a pair whose task takes long enough for every cause


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """How many trips a busy machine adds is not ours: the tests look at those that must be there."""
    out = tmp_path_factory.mktemp("faults")
    boxes = out / BOXES
    contract = roomy(find(DEFAULT_CONTRACT), boxes, out)
    with NodeProcesses(dict(os.environ) | {"ROS_LOG_DIR": str(out)}, out) as nodes, FaultStage(nodes, contract, 0, SPEED) as stage:
        stage.ready()
        episodes = tuple(stage.episode(10_001, PLACING, faults) for faults in (False, True))
        counted, matching = stage.counted(), match(stage.recorder.planted, stage.recorder.found)
    return Report(episodes, matching, counted, replayed(boxes))


def test_every_fault_trips_its_guard_and_only_time_trips_unasked(report):
    matching = report.matching
    assert len(matching.pairs) >= 3 and matching.missed == ()
    assert {found.guard for found in matching.spare} <= set(TIME)
    assert dict(report.counted) == dict(matching.trips())  # what the policy counts and what it tells are two things


def test_no_command_breaks_a_limit(report):
    """The arm is commanded in both episodes. How late a window comes, and with it the step at which it takes over, is the machine's."""
    assert all(episode.windows > 50 and episode.missed == 0 for episode in report.episodes)
    assert [violation for episode in report.episodes for violation in episode.violations if violation.rule not in LATE] == []


def test_every_stopped_decision_comes_out_the_same(report):
    """From its file alone, in another process than the one that made it: this one."""
    stopped = [GUARD[fault.cause] for fault, _ in report.matching.pairs if fault.cause != FROZEN]
    assert sum(report.boxes.written.values()) >= len(stopped) > 0
    assert report.boxes.differ == () and dict(report.boxes.same) == dict(report.boxes.written)
    assert table(report)
