"""An operator keeps capsules and goes back to them, over real DDS. What is refused stands in test_nodes_restore_refusals.py."""

import copy

import pytest
from capsule_operator import first_of, listed, restore, run_on, snapshot
from lifecycle_msgs.msg import Transition
from rig import MS, TASK, Rig
from safetensors import safe_open
from std_srvs.srv import Trigger

from flashrt_ros.capsule.file import load
from flashrt_ros.msg import ExecutionState
from flashrt_ros.ros.convert import to_ns
from flashrt_ros.srv import RestoreCapsule, SetTask, SnapshotCapsule

DEPTH = 8  # of the ring, in the demo's contract
OTHER_TASK = "pick up the blue cube"


@pytest.fixture
def rig():
    with Rig() as rig:
        rig.start()
        yield rig


def test_a_snapshot_outlives_the_ring(rig):
    """What is to be gone back to in ten minutes must not be pushed out by the next eight decisions."""
    answer, event = snapshot(rig)
    assert answer.id in [chunk.capsule_id for chunk in rig.chunks] and answer.path == event.path == ""
    assert (event.session, event.epoch, event.detail) == (rig.chunks[-1].session, rig.chunks[-1].epoch, "kept in memory")
    run_on(rig, DEPTH + 1)
    assert [c["tier"] for c in listed(rig) if c["id"] == answer.id] == ["kept"]
    assert restore(rig, id=answer.id).accepted


def test_a_snapshot_on_disk_is_a_file_that_anybody_can_read(rig):
    """The event comes when the file is whole: whoever copies it away then has all of it."""
    answer, event = snapshot(rig, to_disk=True)
    assert event.path == answer.path and [str(path) for path in rig.folder.iterdir()] == [answer.path]
    with safe_open(answer.path, framework="np") as file:
        assert "belief" in file.keys()
    stored, evidence = load(rig.folder / answer.path)
    assert stored.record.id == answer.id and stored.record.outside.task == TASK and evidence is None


def by_id(rig):
    return {"id": snapshot(rig)[0].id}


def by_first_digits(rig):
    return {"id": listed(rig)[0]["id"][:8].upper()}


def by_steps(rig):
    return {"steps_back": 2}


def by_file(rig):
    return {"file": snapshot(rig, to_disk=True)[0].path}


def by_nothing(rig):
    return {}


@pytest.mark.parametrize("how", [by_id, by_first_digits, by_steps, by_file, by_nothing])
def test_a_restore_begins_a_new_epoch_from_the_capsule(rig, how):
    """The chunks after it descend from the capsule, those before it are left by a stop and never played again."""
    run_on(rig, 3)
    request, epoch = how(rig), rig.epochs[-1].epoch
    old = copy.deepcopy(rig.chunks[-1])
    answer = restore(rig, **request)
    assert answer.accepted and answer.message == "" and answer.epoch == epoch + 1
    assert len(answer.id) == 64 and (not request.get("id") or answer.id.startswith(request["id"].lower()))
    first, second = first_of(rig, epoch + 1)
    assert first.parent_capsule_id == answer.id and second.parent_capsule_id == first.capsule_id
    assert first.seq > old.seq and first.session == old.session and first.decision > old.decision
    assert (rig.epochs[-1].reason, rig.epochs[-1].epoch) == ("restore", epoch + 1)
    rig.run_until(lambda: any(e.kind == "restore" for e in rig.events), "the event")
    [event] = [e for e in rig.events if e.kind == "restore"]
    assert event.detail.startswith("back at decision") and event.capsule_id == answer.id

    def played():
        return [state.epoch for state in rig.states if state.state == ExecutionState.PLAYING]

    rig.run_until(lambda: played()[-1] == epoch + 1, "the new epoch to play")
    assert played() == sorted(played())

    def offer_the_old_plan():
        old.seq += 1000
        rig.chunk_topic.publish(old)
        rig.advance()

    rig.until(lambda: "old_epoch" in rig.states[-1].refusal_causes, "a refusal of the old epoch", step=offer_the_old_plan)
    assert played() == sorted(played())


def test_steps_back_count_good_decisions(rig):
    """0 is the newest: what an operator saw two chunks ago is 2."""
    run_on(rig, DEPTH)
    ring = [c["id"] for c in listed(rig)]
    answer = rig.call(RestoreCapsule, "policy/restore", RestoreCapsule.Request(steps_back=2))
    assert answer.id == ring[-3]


def test_rollback_is_the_newest_good_one(rig):
    epoch = rig.epochs[-1].epoch
    newest = listed(rig)[-1]["id"]
    answer = rig.call(Trigger, "policy/rollback")
    assert answer.success and newest in answer.message and f"epoch {epoch + 1}" in answer.message
    assert first_of(rig, epoch + 1)[0].parent_capsule_id == newest


def test_the_list_tells_whose_each_capsule_is(rig):
    """Oldest first, a chain of parents; as the chunks say, which carry the same ids."""
    run_on(rig, DEPTH + 2)
    snapshot(rig)
    capsules = listed(rig)
    assert [c["tier"] for c in capsules] == ["ring"] * DEPTH + ["kept"]
    ring = capsules[:-1]
    assert [c["parent"] for c in ring[1:]] == [c["id"] for c in ring[:-1]]
    chunks = {chunk.capsule_id: chunk for chunk in rig.chunks}
    for capsule in capsules:
        chunk = chunks[capsule["id"]]
        for field in ("session", "epoch", "seq", "decision"):
            assert capsule[field] == getattr(chunk, field)
        assert capsule["stamp"] == chunk.decision_stamp and capsule["task"] == TASK
        assert capsule["parent"] == chunk.parent_capsule_id


def test_a_capsule_of_another_task_is_refused(rig):
    """The task that was given since stands; a belief about the red cube must not guide the arm to it."""
    kept = snapshot(rig)[0].id
    given = rig.call(SetTask, "policy/set_task", SetTask.Request(text=OTHER_TASK))
    assert given.accepted
    for request in ({"id": kept}, {}):
        answer = rig.call(RestoreCapsule, "policy/restore", RestoreCapsule.Request(**request))
        assert not answer.accepted and TASK in answer.message and OTHER_TASK in answer.message
        assert answer.epoch == given.epoch
    run_on(rig, 2)
    assert rig.chunks[-1].epoch == given.epoch and not any(e.kind == "restore" for e in rig.events)
    assert rig.call(SetTask, "policy/set_task", SetTask.Request(text=TASK), step=rig.advance).accepted
    assert restore(rig, id=kept).accepted


def test_a_restore_overtaken_by_a_reset_is_forgotten_with_the_rest(rig):
    """What is asked for takes effect in the order of asking: after a reset nothing is believed, an older wish included."""
    epoch = rig.chunks[-1].epoch
    assert rig.call(Trigger, "policy/rollback").success
    assert rig.call(Trigger, "policy/reset").success
    first, _ = first_of(rig, epoch + 2)
    assert first.parent_capsule_id == ""


def test_nothing_is_kept_before_a_decision_was_good():
    with Rig(nodes=("policy",)) as rig:
        rig.until(lambda: rig.statuses and rig.status.session, "activation")
        for kind, service in ((SnapshotCapsule, "snapshot"), (RestoreCapsule, "restore")):
            answer = rig.call(kind, f"policy/{service}")
            assert not answer.accepted and "no decision has been good" in answer.message
        assert listed(rig) == [] and rig.epochs[-1].epoch == 1


def test_an_inactive_node_answers_that_it_is_inactive():
    """A client must not wait for an answer in vain, nor believe that something was kept."""
    with Rig(nodes=("policy",), autostart=False) as rig:
        for configured in (False, True):
            if configured:
                assert rig.change(Transition.TRANSITION_CONFIGURE)
            assert not (answer := rig.call(SnapshotCapsule, "policy/snapshot")).accepted and "not active" in answer.message
            answer = rig.call(RestoreCapsule, "policy/restore", RestoreCapsule.Request(id="0123456789"))
            assert not answer.accepted and "not active" in answer.message and answer.epoch == 0
            assert not (answer := rig.call(Trigger, "policy/rollback")).success and "not active" in answer.message
            assert listed(rig) == []


def test_a_kept_capsule_survives_until_cleanup_and_can_be_restored_in_a_later_session(rig):
    """An operator deactivates to change something at the cell, and goes on where the arm was. A snapshot that was asked for just
    before is taken, too."""
    run_on(rig, DEPTH)
    asked = rig.call(SnapshotCapsule, "policy/snapshot")  # no boundary since: time stands still
    assert rig.change(Transition.TRANSITION_DEACTIVATE)
    rig.until(lambda: any(e.kind == "snapshot" and e.detail == "kept in memory" for e in rig.events), "the outcome")
    assert [c["id"] for c in listed(rig)] == [asked.id]
    assert rig.change(Transition.TRANSITION_ACTIVATE)
    session = rig.epochs[-1].session
    run_on(rig, 2)
    last = rig.chunks[-1]
    answer = rig.call(RestoreCapsule, "policy/restore", RestoreCapsule.Request(id=asked.id))
    assert answer.accepted
    first, second = first_of(rig, answer.epoch)
    assert first.parent_capsule_id == asked.id and first.session == last.session == session
    assert [first.decision, second.decision] == [last.decision + 1, last.decision + 2]
    assert rig.change(Transition.TRANSITION_DEACTIVATE) and rig.change(Transition.TRANSITION_CLEANUP)
    assert listed(rig) == []


def test_a_capsule_from_before_a_jump_of_the_clock_can_be_restored(rig):
    """A simulation that was set back has other decisions under the same numbers; to wait for those to come again could take hours."""
    run_on(rig, DEPTH)
    kept = snapshot(rig)[0].id
    rig.now_ns = 400 * MS
    rig.run_until(lambda: rig.epochs[-1].reason == "clock jump", "the announcement")
    run_on(rig, 2)
    last = rig.chunks[-1]
    answer = rig.call(RestoreCapsule, "policy/restore", RestoreCapsule.Request(id=kept))
    first, second = first_of(rig, answer.epoch)
    assert first.parent_capsule_id == kept and [first.decision, second.decision] == [last.decision + 1, last.decision + 2]
    assert all(-100 * MS < to_ns(age) < 1000 * MS for age in first.stage_ages)


def test_a_snapshot_that_can_not_be_written_says_so_and_is_kept(tmp_path):
    """A full or read-only disk must not cost the capsule as well."""
    (tmp_path / "file").write_text("")
    with Rig(folder=tmp_path / "file" / "below") as rig:
        rig.start()
        answer, event = snapshot(rig, to_disk=True)
        assert event.path == "" and "not written" in event.detail and str(tmp_path / "file") in event.detail
        assert restore(rig, id=answer.id).accepted
