"""What an operator has kept stays as it was, as much of it as there is room for, and is found by the beginning of its id."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from capsule_cases import bits
from hypothesis import given
from hypothesis import strategies as st
from maker_rig import Rig, guarded

from flashrt_ros.capsule.checks import CapsuleRefused
from flashrt_ros.capsule.file import load
from flashrt_ros.capsule.shelf import LEAST_DIGITS, Shelf, find


class Outcomes:
    """Of snapshots, in the order in which they are told."""

    def __init__(self):
        self.problems, self._told = [], threading.Semaphore(0)

    def __call__(self, problem):
        self.problems.append(problem)
        self._told.release()

    def wait(self, count=1):
        """The last of `count` more outcomes."""
        for _ in range(count):
            assert self._told.acquire(timeout=60)
        return self.problems[-1]


@pytest.fixture
def rig():
    return Rig(guarded(depth=3))


@pytest.fixture
def shelf(rig, tmp_path):
    shelf = Shelf(rig.engine, tmp_path / "new" / "folder", limit=2)
    yield shelf
    shelf.close()


def test_a_kept_capsule_is_the_boundary_whatever_is_decided_afterwards(rig, shelf):
    """It is sealed beside the decisions, from memory that the engine goes on to use."""
    for k in range(3):
        rig.make(k)
    capsule, told = rig.maker.ring.capsules[-1], Outcomes()
    memory = rig.maker.ring.memory(capsule)
    then = {name: bits(region.view(memory)) for name, region in rig.engine.slab.regions.items()}
    shelf.keep(rig.maker.ring, capsule, None, told)
    for k in range(3, 9):
        rig.make(k)
    assert told.wait() == ""
    [stored] = shelf.capsules
    assert stored.record == capsule.record and {name: bits(tensor) for name, tensor in stored.tensors.items()} == then
    stored.verify()


def test_the_oldest_gives_way_and_one_that_is_kept_again_is_the_newest(rig, shelf):
    """Host memory is bounded; and what was asked for last is what is wanted."""
    ids, told = [], Outcomes()
    for k in range(3):
        rig.make(k)
        capsule = rig.maker.ring.capsules[-1]
        ids.append(capsule.record.id)
        shelf.keep(rig.maker.ring, capsule, None, told)
        assert told.wait() == ""
    assert [stored.record.id for stored in shelf.capsules] == ids[1:]
    shelf.keep(rig.maker.ring, rig.maker.ring.capsules[1], None, told)
    assert told.wait() == "" and [stored.record.id for stored in shelf.capsules] == [ids[2], ids[1]]


def test_a_file_is_whole_when_its_outcome_is_told(rig, shelf):
    """Somebody copies it away at that moment."""
    rig.make(0)
    capsule, told = rig.maker.ring.capsules[-1], Outcomes()
    path = shelf.path(capsule.record)
    shelf.keep(rig.maker.ring, capsule, path, lambda problem: told(problem or load(path)[0].record.id))
    assert told.wait() == capsule.record.id and path.is_absolute()


def test_a_capsule_that_has_left_the_ring_is_refused(rig, shelf):
    """Its slot holds another one by now: it would be kept under a wrong id."""
    for k in range(4):
        rig.make(k)
    gone, told = rig.maker.ring.capsules[0], Outcomes()
    rig.make(4)
    shelf.keep(rig.maker.ring, gone, None, told)
    assert "not in the ring any more" in told.wait() and shelf.capsules == ()


def test_closing_keeps_what_was_taken(rig, tmp_path):
    """An operator asks, and ends the node."""
    shelf, told = Shelf(rig.engine, tmp_path), Outcomes()
    rig.make(0)
    capsule = rig.maker.ring.capsules[-1]
    shelf.keep(rig.maker.ring, capsule, shelf.path(capsule.record), told)
    shelf.close()
    assert told.problems == [""] and load(shelf.path(capsule.record))[0].record.id == capsule.record.id


def test_snapshots_without_room_are_refused_and_room_comes_back(rig, shelf):
    """The way of a decision never waits for a disk: what does not fit is said so, at once."""
    rig.make(0)
    ring, writing, told = rig.maker.ring, threading.Event(), Outcomes()

    def slow(problem):
        assert writing.wait(60)
        told(problem)

    shelf.keep(ring, ring.capsules[-1], None, slow)  # sealed, and its thread is busy with telling
    outcomes = Outcomes()
    for _ in range(4):
        shelf.keep(ring, ring.capsules[-1], None, outcomes)
    assert any("faster" in problem for problem in outcomes.problems)
    writing.set()
    outcomes.wait(4)
    assert told.wait() == ""
    shelf.keep(ring, ring.capsules[-1], None, told)
    assert told.wait() == ""


def capsules_of(ids):
    """All that is looked at of them."""
    return [SimpleNamespace(record=SimpleNamespace(id=id)) for id in ids]


@given(ids=st.lists(st.text("0123456789abcdef", min_size=64, max_size=64), min_size=1, max_size=9, unique=True), data=st.data())
def test_a_beginning_finds_its_capsule_or_none(ids, data):
    """Never the wrong one: what is restored moves an arm."""
    capsules = capsules_of(ids)
    digits = data.draw(st.integers(0, 64).map(lambda n: data.draw(st.sampled_from(ids))[:n]))
    matching = [c for c in capsules if c.record.id.startswith(digits)]
    if len(digits) >= LEAST_DIGITS and len(matching) == 1:
        assert find(digits, capsules) is matching[0] and find(f" {digits.upper()} ", capsules) is matching[0]
    else:
        with pytest.raises(CapsuleRefused):
            find(digits, capsules)


def test_an_ambiguous_beginning_names_the_candidates():
    with pytest.raises(CapsuleRefused, match="give more digits") as refused:
        find("aaaaaa", capsules_of(["aaaaaa1" + "0" * 57, "aaaaaa2" + "0" * 57, "b" * 64]))
    assert "aaaaaa1" in str(refused.value) and "aaaaaa2" in str(refused.value) and "bbb" not in str(refused.value)


def test_of_one_capsule_in_two_tiers_the_later_is_found():
    """The one in host memory, which no decision pushes out before the next boundary."""
    ring, kept = capsules_of(["a" * 64] * 2)
    assert find("aaaaaaaa", [ring, kept]) is kept
