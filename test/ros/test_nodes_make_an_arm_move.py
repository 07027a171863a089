"""The main path over real DDS: task by topic, images and joints in, chunks, execution state and trajectories out."""

import numpy as np
import pytest
from rig import MS, Rig

from flashrt_ros.msg import ExecutionState, PipelineStatus
from flashrt_ros.policies.tabletop_arm import HOME
from flashrt_ros.ros.convert import to_ns


@pytest.fixture(scope="module")
def run():
    """Two simulated seconds after the first chunk began to play."""
    with Rig() as rig:
        rig.start()
        first = len(rig.chunks)
        rig.run_until(lambda: len(rig.chunks) >= first + 10, "ten more chunks")
        yield rig


def test_chunks_carry_all_that_ages_orders_and_reproduces_them(run):
    """Whoever gets a chunk must be able to refuse it; a field left empty here is a check that nobody can make."""
    chunk = run.chunks[-1]
    assert chunk.horizon * len(chunk.names) == len(chunk.position) and to_ns(chunk.step_dt) == 20 * MS
    assert chunk.session and chunk.epoch and chunk.seq
    assert list(chunk.input_names) == ["scene", "wrist", "joints", "task"]
    ages = [to_ns(chunk.decision_stamp) - to_ns(stamp) for stamp in chunk.input_stamps[:3]]
    assert all(-100 * MS < age <= 150 * MS for age in ages), ages
    assert all(chunk.input_crc32) and len(set(chunk.input_crc32)) == 4
    assert list(chunk.stage_names) == ["vision", "fuse", "action"] and all(chunk.stage_versions)
    assert len(chunk.contract_digest) == 64


def test_sequence_numbers_rise_by_one_and_decisions_lie_on_the_grid(run):
    chunks = run.chunks
    assert [c.seq for c in chunks] == list(range(chunks[0].seq, chunks[0].seq + len(chunks)))
    stamps = [to_ns(c.decision_stamp) for c in chunks]
    assert all((b - a) % (100 * MS) == 0 and b > a for a, b in zip(stamps, stamps[1:]))


def test_slow_stages_refresh_less_often_than_the_action(run):
    """The point of the contract: vision every second decision, the action at every one."""
    versions = np.array([c.stage_versions for c in run.chunks[-10:]], dtype=np.int64)
    gained = versions[-1] - versions[0]
    assert gained[2] == 9
    assert 3 <= gained[0] <= 5


def test_a_chunk_says_where_the_player_was_when_it_looked(run):
    """Without a base the player would have to guess how much of the old chunk has been executed (lerobot#4223)."""
    chunk = run.chunks[-1]
    assert chunk.base_player == run.states[-1].player
    assert chunk.base_session == chunk.session and chunk.base_seq < chunk.seq


def test_windows_end_at_rest(run):
    """A player that dies leaves the controller a trajectory that stops."""
    assert run.trajectories
    for message in run.trajectories:
        assert not np.any(message.points[-1].velocities)
        assert np.all(np.diff([to_ns(p.time_from_start) for p in message.points]) > 0)


def test_black_images_leave_the_arm_where_it_is(run):
    """A policy that sees nothing must not wave the arm about."""
    assert np.allclose(run.states[-1].position, HOME, atol=1e-3)
    assert run.states[-1].state == ExecutionState.PLAYING


def test_the_status_accounts_for_every_decision(run):
    run.run_until(lambda: run.status.chunks >= 5, "a status of the running policy")
    status = run.status
    assert status.state == PipelineStatus.RUNNING and status.reason == ""
    assert 0 <= status.decisions - status.chunks - status.refused <= 1  # one may be under way
    assert {s.name: s.runs > 0 for s in status.stages} == {"vision": True, "fuse": True, "action": True}
    assert all(i.received >= i.used for i in status.inputs)
    assert len(status.engine_digest) == len(status.contract_digest) == 64
