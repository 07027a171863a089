"""The black box: evidence of every trip, within bounds, and never at the decision's expense."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from capsule_cases import content_of, decided, evidence_of, record_of
from dag_policy import observation
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_ros.capsule.black_box import BlackBox
from flashrt_ros.capsule.file import SUFFIX, load
from flashrt_ros.capsule.stored import seal


@pytest.fixture(scope="module")
def trip():
    """(engine, record, memory) of a boundary and the evidence of the decision after it, still without outputs."""
    engine = decided()
    memory = engine.memory()
    record = record_of(engine.save(memory))
    seen = observation(engine.pipeline, 4)
    return engine, record, memory, replace(evidence_of(engine, seen, engine.decide(seen)), outputs={})


def keep(box: BlackBox, trip) -> None:
    _, record, memory, evidence = trip
    box.keep(record, memory, evidence)


def written(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def fill(folder: Path, trip, count: int, **bounds) -> list[Path]:
    """Keep so many trips, one after another; the files in the order of writing, removed ones too."""
    paths = []
    for _ in range(count):
        box = BlackBox(folder, trip[0], **bounds)
        keep(box, trip)
        box.close()
        assert (box.written, box.lost, box.problem) == (1, 0, "")
        paths.append(box.last)
    return paths


def test_a_trip_becomes_a_file_with_all_that_a_replay_needs(trip, tmp_path):
    """The capsule before the decision, what it saw, and what every stage had written by then."""
    engine, record, memory, evidence = trip
    box = BlackBox(tmp_path / "deep" / "folder", engine)
    assert not (tmp_path / "deep").exists()  # made when it is needed: a robot that never trips has no empty folder
    keep(box, trip)
    box.close()
    assert [box.last] == written(tmp_path / "deep" / "folder") and (box.written, box.lost, box.problem) == (1, 0, "")
    assert box.last.name.endswith(f"_7_2_4_1_nonfinite{SUFFIX}")
    outputs = {name: engine.buffers.tensors[name] for name in engine.pipeline.writer}
    stored = seal(record, engine.slab.views(memory))
    assert content_of(*load(box.last)) == content_of(stored, replace(evidence, outputs=outputs))


def test_the_folder_of_a_user_is_the_users(trip, tmp_path, monkeypatch):
    """The contract's default begins with a tilde, which no system call understands."""
    monkeypatch.setenv("HOME", str(tmp_path))
    box = BlackBox("~/.ros/flashrt", trip[0])
    keep(box, trip)
    box.close()
    assert box.last.parent == tmp_path / ".ros" / "flashrt" and box.last.exists()


@given(count=st.integers(1, 7), limit=st.integers(1, 5), files=st.integers(1, 5))
@settings(max_examples=15)
def test_number_and_size_stay_within_bounds_and_the_newest_remain(trip, tmp_path_factory, count, limit, files):
    """A robot that trips all night must not fill its disk, and the last trip is the one that is asked about."""
    size = fill(tmp_path_factory.mktemp("one"), trip, 1)[0].stat().st_size
    folder = tmp_path_factory.mktemp("bounded")
    paths = fill(folder, trip, count, limit=limit, max_bytes=size * files)
    assert written(folder) == paths[-min(limit, files):]


def test_one_file_is_kept_even_if_it_is_too_large(trip, tmp_path):
    """A bound that is smaller than one capsule would else mean that there never is any evidence."""
    paths = fill(tmp_path, trip, 3, max_bytes=1)
    assert written(tmp_path) == paths[-1:]


def test_the_newest_stays_after_the_clock_was_set_back(trip, tmp_path):
    """A computer without a battery begins in 1970: its files sort before all others, and would be the first to go."""
    old = fill(tmp_path, trip, 2)
    for path in old:
        path.rename(tmp_path / f"2999{path.name[4:]}")
    newest = fill(tmp_path, trip, 2, limit=2)[-1]
    assert newest in written(tmp_path) and len(written(tmp_path)) == 2


def test_nothing_of_others_is_removed(trip, tmp_path):
    """Someone keeps a capsule under a name of its own, or a note, in the same folder."""
    names = [f"the_day_it_fell{SUFFIX}", f"20260101{SUFFIX}", "notes.txt", f".hidden{SUFFIX}.1.part"]
    for name in names:
        (tmp_path / name).write_bytes(bytes(10))
    fill(tmp_path, trip, 3, limit=1)
    assert all((tmp_path / name).exists() for name in names) and len(written(tmp_path)) == 1 + 2


def test_what_a_killed_process_has_left_is_removed_in_the_end(trip, tmp_path):
    """Each kill -9 during a write leaves a part of a file; what another process is writing right now stays."""
    name = fill(tmp_path, trip, 1)[0].name
    left, under_way = tmp_path / f".{name}.1.part", tmp_path / f".{name}.2.part"
    left.touch()
    under_way.touch()
    hours_ago = time.time() - 7200
    os.utime(left, (hours_ago, hours_ago))
    fill(tmp_path, trip, 1)
    assert not left.exists() and under_way.exists()


def test_a_burst_is_counted_and_never_waited_for(trip, tmp_path, monkeypatch):
    """Three trips in a row while the first is still on its way from the device: the third is lost, and the decision goes on."""
    engine = trip[0]
    arrived, fetch = threading.Event(), engine.fetch

    def slowly(pairs):
        fetch(pairs)
        return lambda: arrived.wait(timeout=60)

    monkeypatch.setattr(engine, "fetch", slowly)
    box = BlackBox(tmp_path, engine)
    for _ in range(3):
        keep(box, trip)
    assert (box.written, box.lost) == (0, 1) and "faster than they can be written" in box.problem
    arrived.set()
    box.close()
    assert (box.written, box.lost) == (2, 1) and len(written(tmp_path)) == 2


def test_an_unwritable_folder_costs_the_evidence_and_nothing_else(trip, tmp_path):
    """Here, a file is in its place. The next trip is written as soon as the folder can be made."""
    folder = tmp_path / "flashrt"
    folder.write_text("in the way")
    box = BlackBox(folder, trip[0])
    keep(box, trip)
    box.close()
    assert (box.written, box.lost, box.last) == (0, 1, None) and str(folder) in box.problem and "FileExistsError" in box.problem
    folder.unlink()
    fill(folder, trip, 1)
    assert len(written(folder)) == 1


def test_the_problem_is_gone_when_evidence_is_written_again(trip, tmp_path, monkeypatch):
    """An operator reads the last one in the status: a folder that works again must not go on complaining."""
    folder, engine, fetch = tmp_path / "flashrt", trip[0], trip[0].fetch
    folder.write_text("in the way")

    def mended_after_the_first(pairs):
        fetch(pairs)
        return lambda: folder.unlink() if box.lost else None

    monkeypatch.setattr(engine, "fetch", mended_after_the_first)
    box = BlackBox(folder, engine)
    keep(box, trip)
    keep(box, trip)
    box.close()
    assert (box.written, box.lost, box.problem) == (1, 1, "") and written(folder) == [box.last]


def test_evidence_that_cannot_be_written_down_does_not_end_the_box(trip, tmp_path):
    """Whatever is wrong with one trip's evidence, the next one's is still taken."""
    engine, record, memory, evidence = trip
    box = BlackBox(tmp_path, engine)
    box.keep(record, memory, replace(evidence, detail=object()))
    keep(box, trip)
    box.close()
    assert (box.written, box.lost) == (1, 1) and len(written(tmp_path)) == 1


FULL_DISK = """
import resource, sys
sys.path[:0] = sys.argv[2:]
from test_black_box import *
engine = decided()
memory = engine.memory()
record = record_of(engine.save(memory))
seen = observation(engine.pipeline, 4)
evidence = replace(evidence_of(engine, seen, engine.decide(seen)), outputs={})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
box = BlackBox(sys.argv[1], engine)
box.keep(record, memory, evidence)
box.close()
print(box.written, box.lost, box.last, box.problem)
"""


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    """Not a part either: it would keep the disk full. The disk is one that takes no more than 1000 bytes of a file."""
    here = Path(__file__).parent
    result = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path), str(here), str(here.parent / "engine")],
                            capture_output=True, text=True, check=True)
    assert result.stdout.startswith("0 1 None ") and "File too large" in result.stdout
    assert list(tmp_path.iterdir()) == []
