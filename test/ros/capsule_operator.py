"""What an operator asks of the policy node's capsules, with the answers that come while the robot goes on."""

from flashrt_ros.srv import ListCapsules, RestoreCapsule, SnapshotCapsule


def snapshot(rig, **request):
    """The answer, once the event has told the outcome; and the event."""
    answer = rig.call(SnapshotCapsule, "policy/snapshot", SnapshotCapsule.Request(**request), step=rig.advance)
    assert answer.accepted and answer.message == ""

    def outcomes():
        return [e for e in rig.events if e.kind == "snapshot" and e.capsule_id == answer.id]

    rig.run_until(outcomes, "the outcome of the snapshot")
    return answer, outcomes()[-1]


def restore(rig, **request):
    return rig.call(RestoreCapsule, "policy/restore", RestoreCapsule.Request(**request), step=rig.advance)


def listed(rig):
    """Of each capsule now, its fields by name: time stands still."""
    answer = rig.call(ListCapsules, "policy/list_capsules")
    fields = [field.rstrip("s") for field in answer.get_fields_and_field_types()]
    return [dict(zip(fields, values, strict=True)) for values in zip(*(getattr(answer, f + "s") for f in fields), strict=True)]


def run_on(rig, chunks):
    count = len(rig.chunks) + chunks
    rig.run_until(lambda: len(rig.chunks) >= count, f"{chunks} more chunks")


def first_of(rig, epoch):
    """The first chunk of an epoch and the one after it."""
    rig.run_until(lambda: sum(c.epoch == epoch for c in rig.chunks) >= 2, f"two chunks of epoch {epoch}")
    return [c for c in rig.chunks if c.epoch == epoch][:2]
