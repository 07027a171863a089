"""Worlds in processes: what they make depends on number, seed and chunks alone; and their end leaves nothing behind."""

import multiprocessing
import os
import signal
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import pytest

from flashrt_ros.policies.instruction import HELD_OUT, KINDS
from flashrt_ros.policies.tabletop_arm import HOME
from flashrt_ros.sim.layout import FIRST_EVALUATION_SEED, draw_instruction
from flashrt_ros.train.worlds import KIND_SHARE, Drive, Worlds, WorldsError, draw_task

FRESH = (1,)


def rounds(worlds: Worlds, count: int, policy_share: float = 0.0) -> list[bytes]:
    """The records of the present decision and of the next ones."""
    seen = [worlds.records.tobytes()]
    for _ in range(count):
        worlds.start(policy_share)
        worlds.wait()
        seen.append(worlds.records.tobytes())
    return seen


def gone(name: str) -> bool:
    try:
        SharedMemory(name=name).close()
    except FileNotFoundError:
        return not multiprocessing.active_children()
    return False


def test_tasks_are_drawn_from_training_only():
    """Scenes of evaluation, and the pairs of colours that are held out, would make its success one by heart. All else is
    drawn in its share."""
    rng = np.random.default_rng(0)
    tasks = [draw_task(rng) for _ in range(4000)]
    assert all(0 <= seed < FIRST_EVALUATION_SEED == 10_000 for _, seed in tasks)
    assert all(instruction == draw_instruction(instruction.kind, seed) for instruction, seed in tasks)
    pairs = {(instruction.colour, instruction.bin) for instruction, _ in tasks if instruction.kind == "place"}
    assert len(pairs) == 12 and not pairs & HELD_OUT
    share = {kind: sum(instruction.kind == kind for instruction, _ in tasks) / len(tasks) for kind in KINDS}
    # a quarter of the drawn place instructions is held out, and drawn again
    assert share == pytest.approx({"pick": 0.3 / 0.9, "place": 0.3 / 0.9, "belt": 0.3 / 0.9}, abs=0.03)
    assert sum(KIND_SHARE.values()) == pytest.approx(1)


def test_worlds_repeat_in_however_many_processes():
    """Two legs of one seed are the same training; and a machine with more cores makes the same one sooner."""
    seen, names = [], []
    for processes, each, seed in ((2, 1, 5), (1, 2, 5), (1, 2, 6)):
        with Worlds(processes, each, Drive(seed, FRESH)) as worlds:
            assert (worlds.records["first"] == 1).all() and not worlds.records["ended"].any()
            assert len(multiprocessing.active_children()) == processes
            names.append(worlds._memory.name)
            seen.append(rounds(worlds, 6))
    assert seen[0] == seen[1] and len(set(seen[0])) == 7
    assert not set(seen[2]) & set(seen[0])
    assert all(gone(name) for name in names)


def test_the_policy_takes_over_where_it_is_given_a_share_and_the_expert_labels():
    """The way of DAgger: its chunks are played, in episodes that begin after it has a share; what to do there is the
    expert's to say. A chunk that is not finite is none, as in the player."""
    with Worlds(1, 1, Drive(5, (4,))) as worlds:
        (record,), (chunk,) = worlds.records, worlds.chunks
        chunk[:] = np.nan
        assert record["every"] == 4
        while not record["ended"]:
            rounds(worlds, 1, policy_share=1.0)
        assert record["first"] and record["ended"] > 0 and not record["policy_drove"]
        record["ended"] = 0
        for targets in (np.nan, HOME):
            chunk[:] = targets
            for _ in range(4):
                rounds(worlds, 1, policy_share=0.0)
                assert not record["first"] and np.abs(record["joints"] - HOME).max() < 0.02
                assert np.abs(record["label"] - HOME).max() > 0.1
        while not record["ended"]:
            rounds(worlds, 1, policy_share=0.0)
        assert record["first"] and record["ended"] < 0 and record["policy_drove"]


@pytest.mark.parametrize("when", ["at rest", "at work"])
def test_a_process_that_dies_is_told_and_not_waited_for(when):
    """Too little memory ends a training that way; hours of waiting for a world that is no more would be the end of many."""
    with pytest.raises(WorldsError, match="status -9.*fewer --processes or --worlds"):
        with Worlds(2, 1, Drive(5, FRESH)) as worlds:
            name, (child, *_) = worlds._memory.name, multiprocessing.active_children()
            if when == "at work":
                os.kill(child.pid, signal.SIGSTOP)  # so that it dies with its order in hand
                worlds.start(0.0)
            child.kill()
            child.join()
            if when == "at rest":
                worlds.start(0.0)
            worlds.wait()
    assert gone(name)


def test_what_a_process_cannot_do_is_told_here(monkeypatch):
    """With the world's own words; and nothing stays of worlds that never were."""
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    for display in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(display, raising=False)
    before = set(os.listdir("/dev/shm"))
    with pytest.raises(WorldsError, match="no image can be rendered here.*MUJOCO_GL=egl"):
        Worlds(1, 1, Drive(5, FRESH))
    assert not multiprocessing.active_children()
    assert not {name for name in set(os.listdir("/dev/shm")) - before if name.startswith("psm_")}
