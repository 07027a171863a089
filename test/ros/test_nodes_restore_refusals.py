"""A restore that is refused, over real DDS: why, and that everything goes on as if nobody had asked."""

import os

import pytest
from capsule_operator import listed, restore, run_on, snapshot
from puppet import contract
from rig import Rig


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """A snapshot's file of another contract."""
    folder = tmp_path_factory.mktemp("stranger")
    other = contract(folder / "other.contract.yaml", {", deadline]": "]", "wrist_roll: 2.0": "wrist_roll: 1.9"})
    with Rig(other, folder=folder / "capsules") as rig:
        rig.start()
        return snapshot(rig, to_disk=True)[0].path


@pytest.fixture(scope="module")
def rig(stranger):
    """One rig for all that is refused: nothing changes in it."""
    with Rig() as rig:
        rig.start()
        yield rig


def damaged(rig, stranger):
    path = rig.folder / "damaged.capsule.safetensors"
    if not path.exists():
        data = bytearray(open(snapshot(rig, to_disk=True)[0].path, "rb").read())
        data[-1] ^= 1
        path.write_bytes(data)
    return {"file": str(path)}


def pipe(rig, stranger):
    path = rig.folder.parent / "pipe"
    os.mkfifo(path)
    return {"file": str(path)}


REFUSED = {
    "an unknown id": (lambda rig, stranger: {"id": "0123456789"}, ["0123456789", "list"]),
    "too few digits": (lambda rig, stranger: {"id": listed(rig)[0]["id"][:5]}, ["at least 6"]),
    "further than the ring reaches": (lambda rig, stranger: {"steps_back": 99}, ["99", "at most"]),
    "another contract's file": (lambda rig, stranger: {"file": stranger}, ["belongs to the contract", "load the contract"]),
    "a damaged file": (damaged, ["damaged"]),
    "a file that is none": (lambda rig, stranger: {"file": "/nowhere/at.all"}, ["/nowhere/at.all", "No such file"]),
    "a folder": (lambda rig, stranger: {"file": str(rig.folder.parent)}, ["not a regular file"]),
    "a pipe, which would be waited for": (pipe, ["not a regular file"]),
    "two at once": (lambda rig, stranger: {"file": stranger, "steps_back": 1}, ["file", "steps_back", "one of"]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_restore_says_why_and_changes_nothing(rig, stranger, what):
    """No epoch, no stop, no gap in the line of capsules: the arm goes on as if nobody had asked."""
    request, words = REFUSED[what][0](rig, stranger), REFUSED[what][1]
    epoch, first = rig.epochs[-1].epoch, len(rig.chunks) - 1
    answer = restore(rig, **request)
    assert not answer.accepted and answer.id == "" and answer.epoch == epoch
    for word in words:
        assert word in answer.message, answer.message
    run_on(rig, 3)
    chunks = rig.chunks[first:]
    assert [c.parent_capsule_id for c in chunks[1:]] == [c.capsule_id for c in chunks[:-1]]
    assert {c.epoch for c in chunks} == {epoch} and rig.epochs[-1].epoch == epoch
    assert not any(e.kind == "restore" for e in rig.events)
