"""Chunks that are wrong, over real DDS: none of them is ever published; what follows, what is told of it, and how it ends."""

from types import SimpleNamespace

import numpy as np
import pytest
from capsule_operator import run_on
from faulty_servo import FAR, NAN, RAISE, installed
from rig import Rig
from std_srvs.srv import Trigger

from flashrt_ros.capsule.file import load
from flashrt_ros.msg import ExecutionState, PipelineEvent, PipelineStatus
from flashrt_ros.ros import decider, policy_node
from flashrt_ros.ros.qos import EVENTS
from flashrt_ros.srv import RestoreCapsule, SetTask

MAX_CONSECUTIVE = 3  # in the demo's contract


@pytest.fixture
def stopwatch(monkeypatch):
    """No time passes while the policy thinks: whether a retry fits its deadline must not hang on the test's machine."""
    for module in (policy_node, decider):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic_ns=lambda: 0))


@pytest.fixture
def servos(monkeypatch):
    return installed(monkeypatch)


@pytest.fixture
def rig(servos, stopwatch):
    with Rig() as rig:
        rig.start()
        yield rig


def trips(rig):
    status = rig.status
    return {guard: n for guard, n in zip(status.guard_names, status.guard_trips, strict=True) if n}


def told(rig, *kinds, count):
    """The events of these kinds, when so many have come."""
    rig.run_until(lambda: sum(e.kind in kinds for e in rig.events) >= count, f"{count} events of {kinds}")
    return [(e.kind, e.cause) for e in rig.events if e.kind in kinds]


def until_state(rig, state):
    rig.run_until(lambda: rig.status.state == state, f"the status {state}")


def until_fault(rig, servos):
    servos[0].faults += [NAN] * 2 * MAX_CONSECUTIVE
    until_state(rig, PipelineStatus.FAULT)


@pytest.mark.parametrize(("fault", "cause"), [(NAN, "nonfinite"), (FAR, "position"), (RAISE, "stage_error")])
def test_a_wrong_chunk_is_made_again_from_the_last_good_belief(rig, servos, fault, cause):
    """One hiccup costs nothing that can be seen: same decision, epoch and place in the order, next attempt; the arm plays on."""
    last = rig.chunks[-1]
    count = len(rig.chunks)
    servos[0].faults += [fault]
    run_on(rig, 3)
    again, after = rig.chunks[count], rig.chunks[count + 1]
    assert (again.attempt, again.epoch, again.seq) == (1, last.epoch, last.seq + 1) and again.parent_capsule_id == last.capsule_id
    assert (after.attempt, after.parent_capsule_id) == (0, again.capsule_id)
    assert told(rig, "trip", count=1) == [("trip", cause)]
    [event] = rig.events
    assert (event.kind, event.cause, event.decision, event.attempt) == ("trip", cause, again.decision, 0)
    assert (event.session, event.epoch) == (again.session, again.epoch) and event.detail
    assert rig.status.state == PipelineStatus.RUNNING and rig.epochs[-1].epoch == last.epoch
    assert {s.state for s in rig.states[-10:]} == {ExecutionState.PLAYING}
    assert all(np.abs(chunk.position).max() < 10 for chunk in rig.chunks)
    rig.run_until(lambda: trips(rig), "a status that counts")
    assert trips(rig) == {cause: 1}
    assert {s.name: s.errors for s in rig.status.stages if s.errors} == ({"action": 1} if fault == RAISE else {})


def test_three_in_a_row_hold_until_a_chunk_passes(rig, servos):
    """No retries any more, but decisions go on: whatever was wrong may pass."""
    last = rig.chunks[-1]
    servos[0].faults += [NAN] * (MAX_CONSECUTIVE + 1)
    run_on(rig, 2)
    events = told(rig, "trip", "hold", "fault", count=5)
    assert events == [("trip", "nonfinite")] * 3 + [("hold", "nonfinite"), ("trip", "nonfinite")]
    assert [e.attempt for e in rig.events if e.kind == "trip"] == [0, 1, 2, 0]
    assert any(s.state == PipelineStatus.HOLD and "nan" in s.reason for s in rig.statuses)
    first = next(c for c in rig.chunks if c.seq == last.seq + 1)
    assert (first.attempt, first.epoch, first.decision) == (0, last.epoch, last.decision + 3)
    assert first.parent_capsule_id == last.capsule_id
    until_state(rig, PipelineStatus.RUNNING)
    rig.run_until(lambda: trips(rig) == {"nonfinite": 4}, "a status that counts all")


def test_a_policy_that_stays_wrong_is_stopped_until_reset(rig, servos):
    """Nobody is helped by a robot that tries for ever; an operator looks, and resets."""
    until_fault(rig, servos)
    assert told(rig, "hold", "fault", count=2) == [("hold", "nonfinite"), ("fault", "nonfinite")]
    assert "nan" in rig.status.reason and "reset" in rig.status.reason
    count, decisions, epoch = len(rig.chunks), rig.status.decisions, rig.epochs[-1].epoch
    rig.run_until(lambda: rig.states[-1].state == ExecutionState.HOLDING and not any(rig.states[-1].velocity), "the arm to rest")
    assert rig.call(Trigger, "policy/reset").success
    rig.run_until(lambda: rig.status.state == PipelineStatus.RUNNING, "decisions again")
    assert rig.chunks[count].epoch == epoch + 1 and rig.chunks[count].parent_capsule_id == ""
    assert decisions < rig.chunks[count].decision
    rig.run_until(lambda: rig.states[-1].state == ExecutionState.PLAYING and rig.states[-1].epoch == epoch + 1, "motion")
    assert told(rig, "reset", count=1) == [("reset", "")]


def test_only_a_reset_leads_out_of_a_fault(rig, servos):
    """Another task, or none, must not hide that the policy is out of order; and to go back to a belief that the reset then forgets
    would only seem to help."""
    until_fault(rig, servos)
    epoch = rig.epochs[-1].epoch
    answer = rig.call(RestoreCapsule, "policy/restore")
    assert not answer.accepted and "reset first" in answer.message and rig.epochs[-1].epoch == epoch
    for text in ("", "pick up the blue cube", ""):
        assert rig.call(SetTask, "policy/set_task", SetTask.Request(text=text)).accepted
        count = len(rig.statuses)
        rig.run_until(lambda: len(rig.statuses) > count, "another status")
        assert rig.status.state == PipelineStatus.FAULT and "nan" in rig.status.reason
    assert rig.call(Trigger, "policy/reset").success
    until_state(rig, PipelineStatus.IDLE)
    assert rig.status.reason == "no task is given"


def test_a_restore_after_a_reset_is_taken_though_no_decision_has_come_between(rig, servos):
    """The way out of a fault back to a belief that was good is two calls, one right after the other."""
    good = rig.chunks[-1].capsule_id
    until_fault(rig, servos)
    assert rig.call(Trigger, "policy/reset").success
    answer = rig.call(Trigger, "policy/rollback")
    assert answer.success and good in answer.message
    count = len(rig.chunks)
    run_on(rig, 1)
    assert rig.chunks[count].parent_capsule_id == good


def test_a_blind_policy_holds_and_needs_nobody_when_it_sees_again(rig):
    """Time trips alone are no fault: a camera that comes back is no reason to call an operator."""
    rig.silent = True
    until_state(rig, PipelineStatus.HOLD)
    rig.run_until(lambda: trips(rig).get("age", 0) > 3 * MAX_CONSECUTIVE, "many trips")
    assert set(trips(rig)) == {"age"} and rig.status.state == PipelineStatus.HOLD
    rig.silent = False
    until_state(rig, PipelineStatus.RUNNING)
    assert told(rig, "hold", "fault", count=1) == [("hold", "age")]


def test_whoever_comes_later_hears_what_happened(rig, servos):
    """The operator's screen is opened because something happened, and so afterwards."""
    servos[0].faults += [NAN, FAR]
    run_on(rig, 1)
    assert rig.call(Trigger, "policy/rollback").success
    events = told(rig, "trip", "restore", count=3)
    late = []
    rig.robot.create_subscription(PipelineEvent, "policy/events", late.append, EVENTS)
    rig.until(lambda: len(late) >= len(rig.events), "the events for a late joiner")
    assert late == rig.events and events == [("trip", "nonfinite"), ("trip", "position"), ("restore", "")]


def test_the_status_tells_of_black_boxes(rig, servos):
    """Where the evidence lies is asked for after the fact, by somebody who has a status in front of him."""
    assert (rig.status.black_boxes, rig.status.black_boxes_lost, rig.status.black_box) == (0, 0, "")
    servos[0].faults += [NAN, FAR]
    rig.run_until(lambda: rig.status.black_boxes == 2, "both files")
    assert rig.status.black_boxes_lost == 0 and not any("black box" in warning for warning in rig.status.warnings)
    assert sorted(str(path) for path in rig.folder.iterdir())[-1] == rig.status.black_box
    assert load(rig.folder / rig.status.black_box)[1].guard == "position"


def test_evidence_that_can_not_be_written_is_counted_and_the_reason_told(servos, stopwatch, tmp_path):
    """Else the first question after an incident is why there is nothing; and no decision is lost for it."""
    (tmp_path / "file").write_text("")
    with Rig(folder=tmp_path / "file" / "below") as rig:
        rig.start()
        servos[0].faults += [NAN]
        rig.run_until(lambda: rig.status.black_boxes_lost == 1, "the count")
        assert any("black box" in warning and str(tmp_path / "file") in warning for warning in rig.status.warnings)
        assert rig.status.state == PipelineStatus.RUNNING and rig.status.black_boxes == 0
