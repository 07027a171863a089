"""Transitions that fail say why and leave the node alive: rclpy alone would raise out of spin() on Jazzy, or end silently."""

import pytest
from lifecycle_msgs.msg import Transition
from rig import TASK, Rig

from flashrt_ros.msg import PipelineStatus
from flashrt_ros.srv import SetTask
from std_srvs.srv import Trigger


@pytest.fixture
def rig():
    with Rig(autostart=False) as rig:
        yield rig


def test_an_invalid_transition_is_refused_and_the_node_lives_on(rig):
    assert not rig.change(Transition.TRANSITION_ACTIVATE)
    rig.until(lambda: rig.statuses and "refused transition" in rig.status.reason, "the reason")
    assert rig.change(Transition.TRANSITION_CONFIGURE)
    rig.until(lambda: rig.status.reason == "", "a status without reason")


def test_a_whole_life_can_be_lived_twice(rig):
    """cleanup must free what configure made, or the second life meets the first one's subscriptions."""
    for _ in range(2):
        for node in ("policy", "player"):
            assert rig.change(Transition.TRANSITION_CONFIGURE, node)
            assert rig.change(Transition.TRANSITION_ACTIVATE, node)
        rig.chunks.clear()
        rig.start()
        session = rig.chunks[-1].session
        for node in ("player", "policy"):
            assert rig.change(Transition.TRANSITION_DEACTIVATE, node)
            assert rig.change(Transition.TRANSITION_CLEANUP, node)
        rig.until(lambda: rig.status.state == PipelineStatus.INACTIVE, "inactive")
    assert session != 0


def test_a_contract_that_does_not_load_says_file_line_and_key(tmp_path):
    broken = tmp_path / "mine.contract.yaml"
    broken.write_text("contract: 1\npolcy: {type: color_servo}\n")
    with Rig(contract=broken, nodes=("policy",), autostart=False) as rig:
        assert not rig.change(Transition.TRANSITION_CONFIGURE)
        rig.until(lambda: rig.statuses and "mine.contract.yaml:2" in rig.status.reason, "file and line in the status")
        assert "polcy" in rig.status.reason and "policy" in rig.status.reason


@pytest.mark.parametrize("node", ["policy", "player"])
def test_a_missing_joint_refuses_activation(rig, node):
    """Better no start than a start on the wrong joints."""
    assert rig.change(Transition.TRANSITION_CONFIGURE, node)
    rig.names = [name if name != "elbow" else "ellbow" for name in rig.names]
    heard = (lambda: "joints" in rig.nodes["policy"]._inputs.newest) if node == "policy" else (lambda: rig.nodes["player"]._joints_seen)
    rig.run_until(heard, "joint states")
    assert not rig.change(Transition.TRANSITION_ACTIVATE, node)
    assert "elbow" in rig.nodes[node].reason and "ellbow" in rig.nodes[node].reason
    rig.names = [name if name != "ellbow" else "elbow" for name in rig.names]
    rig.run_until(lambda: rig.change(Transition.TRANSITION_ACTIVATE, node), "activation with all joints")


def test_the_service_refuses_an_unknown_task_and_keeps_the_old_one():
    """A caller can be answered; so nothing changes for a typo."""
    with Rig() as rig:
        rig.start()
        epoch = rig.epochs[-1].epoch
        answer = rig.call(SetTask, "policy/set_task", SetTask.Request(text="pick up the rde cube"), step=rig.advance)
        assert not answer.accepted and "rde" in answer.message and answer.epoch == epoch
        answer = rig.call(SetTask, "policy/set_task", SetTask.Request(text="pick up the blue cube"), step=rig.advance)
        assert answer.accepted and answer.epoch == epoch + 1
        rig.run_until(lambda: rig.chunks[-1].epoch == epoch + 1, "a chunk of the new task")
        rig.run_until(lambda: rig.status.task == "pick up the blue cube", "the status")


def test_reset_starts_a_new_epoch_and_keeps_the_task():
    """Nothing seen or planned before a reset may be played after it (lerobot#1116)."""
    with Rig() as rig:
        rig.start()
        epoch = rig.epochs[-1].epoch
        assert rig.call(Trigger, "policy/reset", Trigger.Request(), step=rig.advance).success
        rig.run_until(lambda: rig.chunks[-1].epoch == epoch + 1, "a chunk of the new epoch")
        assert rig.epochs[-1].reason == "reset" and rig.status.task == TASK
        assert min(rig.chunks[-1].stage_versions) > 1
