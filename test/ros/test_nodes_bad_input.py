"""What goes wrong on real robots. Each test: a clear message, a counter, a safe arm, and recovery when the cause is gone."""

import copy

import numpy as np
import pytest
from rig import MS, TASK, Rig

from flashrt_ros.msg import ExecutionState, PipelineStatus


@pytest.fixture
def rig():
    with Rig() as rig:
        yield rig


def at_rest(rig):
    return rig.states[-1].state in (ExecutionState.HOLDING, ExecutionState.FAULT) and not np.any(rig.states[-1].velocity)


def input_status(rig, name):
    return next(i for i in rig.status.inputs if i.name == name)


def expect_refusal(rig, name, cause, *words, step=None):
    """Until the status says so, with every word; then until the arm rests. step: what happens at each simulated step."""
    step = step or rig.advance

    def told():
        status = input_status(rig, name) if rig.statuses and rig.status.inputs else None
        return status is not None and cause in status.refusal_causes and rig.status.state == PipelineStatus.WAITING

    rig.until(told, f"'{cause}' on {name}", step=step)
    status = input_status(rig, name)
    assert status.refused >= 1 and dict(zip(status.refusal_causes, status.refusal_counts))[cause] >= 1
    for word in words:
        assert word in rig.status.reason, rig.status.reason
    rig.until(lambda: at_rest(rig), "the arm to rest", step=step)


def expect_recovery(rig):
    before = len(rig.chunks)
    rig.run_until(lambda: len(rig.chunks) > before and rig.states[-1].state == ExecutionState.PLAYING, "recovery")
    rig.run_until(lambda: rig.status.state == PipelineStatus.RUNNING and rig.status.reason == "", "a status without complaint")


def bad_images(rig, **fault):
    """A step on which the scene camera's message has the given fault."""
    def step():
        rig.silent = True
        rig.advance()
        for name in ("scene", "wrist"):
            rig.send_image(name, **(fault if name == "scene" else {}))

    return step


def test_wrong_encoding(rig):
    rig.start()
    expect_refusal(rig, "scene", "decode", "scene", "32FC1", step=bad_images(rig, encoding="32FC1"))
    rig.silent = False
    expect_recovery(rig)


def test_truncated_image(rig):
    rig.start()
    expect_refusal(rig, "scene", "decode", "scene", step=bad_images(rig, height=97))
    rig.silent = False
    expect_recovery(rig)


def test_an_image_of_another_size_is_fitted(rig):
    """A camera at another resolution is no fault: the contract says `resize: pad`."""
    rig.start()
    before = len(rig.chunks)

    def step():
        rig.silent = True
        rig.advance()
        for name in ("scene", "wrist"):
            rig.send_image(name, np.random.default_rng(rig.now_ns).integers(0, 4, (48, 64, 3), np.uint8))

    rig.until(lambda: len(rig.chunks) > before + 3, "chunks from small images", step=step)
    assert rig.status.state == PipelineStatus.RUNNING


def test_camera_stops(rig):
    rig.start()
    rig.silent = True
    expect_refusal(rig, "scene", "stale", "scene", "max_age_ms")
    rig.silent = False
    expect_recovery(rig)


def test_camera_repeats_its_payload_under_advancing_stamps(rig):
    """A frozen driver looks alive by its stamps; acting on it is acting blind."""
    rig.start()
    rig.frozen = True
    expect_refusal(rig, "scene", "frozen", "payload")
    rig.frozen = False
    expect_recovery(rig)


def test_stamps_from_the_future(rig):
    rig.start()
    expect_refusal(rig, "scene", "future", "clocks", step=bad_images(rig, stamp_ns=10**15))
    rig.silent = False
    expect_recovery(rig)


def test_nan_in_the_joint_state(rig):
    rig.start()
    healthy, rig.joints = rig.joints, rig.joints.copy()
    rig.joints[2] = np.nan
    expect_refusal(rig, "joints", "decode", "elbow", "nan")
    rig.joints = healthy
    expect_recovery(rig)


def test_a_joint_goes_missing_while_running(rig):
    rig.start()
    rig.names = rig.names[:-1] + ["grip"]
    expect_refusal(rig, "joints", "decode", "gripper")
    rig.names = rig.names[:-1] + ["gripper"]
    expect_recovery(rig)


def test_joints_in_another_order_with_extra_ones_change_nothing(rig):
    """Drivers differ in both (physical_ai_tools#1: the arm moved the wrong joints)."""
    order = np.random.default_rng(3).permutation(len(rig.names))
    rig.names = [rig.names[i] for i in order] + ["tool_changer"]
    plain, rig.joints = rig.joints, np.append(rig.joints[order], 9.0)
    rig.start()
    assert np.allclose(rig.chunks[-1].position[: len(plain)], plain, atol=1e-3)


def test_unknown_task_on_the_topic_stops_the_arm_and_names_the_allowed_forms(rig):
    rig.start()
    rig.give_task("make me a sandwich")
    rig.run_until(lambda: rig.status.state == PipelineStatus.IDLE and "sandwich" in rig.status.reason, "the refusal")
    assert "pick up the" in rig.status.reason
    rig.run_until(lambda: at_rest(rig), "the arm to rest")
    rig.give_task(TASK)
    expect_recovery(rig)


def test_clock_jumps_back(rig):
    """A restarted simulation: plans of the old time must not be played in the new one."""
    rig.start()
    epoch = rig.epochs[-1].epoch
    rig.now_ns = 400 * MS
    rig.run_until(lambda: rig.epochs[-1].reason == "clock jump", "the announcement")
    assert rig.epochs[-1].epoch == epoch + 1
    expect_recovery(rig)
    assert rig.chunks[-1].epoch == epoch + 1
    assert "clock_back" in rig.states[-1].refusal_causes


def test_two_policies_on_one_topic_are_a_fault_until_one_is_silent(rig):
    rig.start()

    def forge():
        rig.advance()
        forged = copy.deepcopy(rig.chunks[-1])
        if forged.session != 77:
            forged.session, forged.base_player = 77, 0
            rig.chunk_topic.publish(forged)

    rig.until(lambda: rig.states[-1].state == ExecutionState.FAULT and at_rest(rig), "the fault", step=forge)
    assert "two_sessions" in rig.states[-1].refusal_causes
    expect_recovery(rig)
