"""What a drill of faults concludes: whoever reads its exit status relies on each bar."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from flashrt_ros.bench.windows import Violation, Window
from flashrt_ros.capsule.rollback import AGE, NONFINITE, POSITION
from flashrt_ros.contract.load import load
from flashrt_ros.player.limits import Limits
from flashrt_ros.resources import DEFAULT_CONTRACT, find
from flashrt_ros.ros.drill_trial import DrillError
from flashrt_ros.ros.fault_drill import BOXES, drill, roomy
from flashrt_ros.ros.fault_plan import FROZEN, LIMIT, NAN, Found, Planted, match
from flashrt_ros.ros.fault_trial import BlackBoxes, Episode, Report, judge, table

FAULTS = [Planted(NAN, 1, 2, 10), Planted(LIMIT, 1, 2, 17), Planted(FROZEN, 1, 2, 25)]
TRIPS = [Found(NONFINITE, 1, 2, 10, 0, "joint"), Found(POSITION, 1, 2, 17, 0, "joint"), Found(AGE, 1, 2, 25, 0, "input")]
BOX = BlackBoxes({NONFINITE: 1, POSITION: 1}, {NONFINITE: 1, POSITION: 1}, ())


def episode(index, faults, success=True, violations=(), missed=0):
    return Episode(index, 10_000 + index, "pick up the red cube", faults, success, 4.2, 100, 2000, missed, violations)


def report(trips=TRIPS, counted=None, boxes=BOX, lost=0, **of_the_last):
    """Ten pairs; in the first `lost` of them the episode with faults did not succeed."""
    episodes = [episode(i, faults, not (faults and i < lost)) for i in range(10) for faults in (False, True)]
    episodes[-1] = episode(9, True, **of_the_last)
    matching = match(FAULTS, trips)
    return Report(tuple(episodes), matching, dict(matching.trips()) if counted is None else counted, boxes)


def shown(of):
    console = Console(width=140, file=io.StringIO())
    console.print(table(of))
    return console.file.getvalue()


def test_a_healthy_drill_passes_and_can_be_written_down():
    good = report()
    assert all(good.bars.values()) and "FAILS" not in shown(good)
    numbers = json.loads(json.dumps(good.figures()))
    assert numbers["causes"][NAN] == {"guard": NONFINITE, "planted": 1, "matched": 1, "counted": 1, "black_boxes": 1, "same": 1}
    assert numbers["pairs"] == numbers["success_with"] == numbers["success_without"] == 10 and numbers["windows"] == 2000


BROKEN = Violation("position", 5, "elbow", 3.0, 2.7)
LATE = Violation("velocity_step", 5, "elbow", 0.3, 0.2)


@pytest.mark.parametrize(("bad", "bar"), [
    (dict(violations=(BROKEN,)), "outside"), (dict(violations=(LATE,)), "step"), (dict(missed=1), "all were seen"),
    (dict(trips=TRIPS[1:], counted={POSITION: 1, AGE: 1}), "one trip"),
    (dict(trips=[*TRIPS, replace(TRIPS[0], attempt=1)]), "one trip"), (dict(counted={NONFINITE: 1, POSITION: 1, AGE: 2}), "status"),
    (dict(lost=2), "success"), (dict(boxes=replace(BOX, written={NONFINITE: 1})), "in the black box"),
    (dict(boxes=replace(BOX, differ=("file: differs",))), "bit for bit"),
])
def test_each_bar_fails_by_itself(bad, bar):
    failed = [said for said, held in report(**bad).bars.items() if not held]
    assert len(failed) == 1 and bar in failed[0]
    assert f"FAILS: {failed[0]}" in shown(report(**bad)).replace("\n", " ")


def test_one_episode_in_ten_may_be_lost():
    assert all(report(lost=1).bars.values())


def test_every_output_is_judged_by_its_own_joints_limits():
    limits = Limits(("a", "b"), np.array([-1.0, 0.0]), np.array([1.0, 0.1]), np.array([2.0, 0.2]), np.array([8.0, 1.0]))
    window = Window(0, np.array([0, 20_000_000]), np.full((2, 1), 0.5), np.zeros((2, 1)))
    columns = {"arm": np.array([0]), "gripper": np.array([1]), "silent": np.array([1])}
    (found,) = judge({"arm": [window], "gripper": [window], "silent": []}, columns, limits)
    assert (found.rule, found.joint, found.allowed) == ("position", "b", 0.1)


def test_the_drills_contract_is_the_given_one_with_more_time(tmp_path):
    original, roomier = load(find(DEFAULT_CONTRACT)), load(roomy(find(DEFAULT_CONTRACT), tmp_path / BOXES, tmp_path))
    assert roomier.deadline_ms == 1000 / roomier.rate_hz > original.deadline_ms and roomier.rollback.black_box == str(tmp_path / BOXES)
    assert {i.name: i.max_age_ms for i in roomier.inputs} == {"scene": 250, "wrist": 250, "joints": 150, "task": None}
    vision_s = [next(r.every / c.rate_hz for r in c.refresh if r.every and r.stage == "vision") for c in (original, roomier)]
    assert vision_s[0] == vision_s[1]
    for same in ("limits", "outputs", "policy"):
        assert getattr(roomier, same) == getattr(original, same)
    assert roomier.rollback.guards == original.rollback.guards


def test_a_drill_that_could_not_tell_is_refused(tmp_path):
    """No episode at all would pass every bar, and another run's files would be counted as this one's."""
    with pytest.raises(DrillError, match="episodes is 0; it must be at least 1"):
        drill(0, 0, None, tmp_path, None)
    (tmp_path / BOXES).mkdir()
    (tmp_path / BOXES / "20261201T000000.0_1_1_1_0_age.capsule.safetensors").touch()
    with pytest.raises(DrillError, match="holds black boxes of another run"):
        drill(1, 0, None, tmp_path, None)
