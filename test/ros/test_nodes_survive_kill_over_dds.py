"""kill -9 and restart, with real processes: the simulated robot comes to rest and goes on with the new session."""

import os

import numpy as np
import pytest
import rclpy
from std_msgs.msg import String

from flashrt_ros.contract.load import load
from flashrt_ros.msg import ExecutionState, PipelineStatus
from flashrt_ros.resources import find
from flashrt_ros.ros.processes import NodeProcesses
from flashrt_ros.ros.qos import LATCHED
from flashrt_ros.ros.recorder import Recorder
from flashrt_ros.ros.spin import spinning

PATIENCE_S = 60.0


@pytest.fixture
def robot(tmp_path):
    """The three nodes as processes; yields (processes, recorder, start(name))."""
    contract = find("config/color_servo.contract.yaml")
    parameters = {"sim": {"seed": 10_000}} | dict.fromkeys(
        ("policy", "player"), {"contract": contract, "autostart": True, "use_sim_time": True})
    with NodeProcesses(dict(os.environ) | {"ROS_LOG_DIR": str(tmp_path)}, tmp_path) as nodes:
        rclpy.init()
        recorder = Recorder(load(contract))
        for name in parameters:
            nodes.start(name, parameters[name])
        with spinning(recorder):
            yield nodes, recorder, lambda name: nodes.start(name, parameters[name])
        rclpy.shutdown()


def expect(recorder, predicate, what):
    assert recorder.wait(predicate, PATIENCE_S, lambda: None), (
        f"waited {PATIENCE_S:.0f} s for {what}; the policy's last word: {recorder.status}; the player's: {recorder.state}")


def playing(recorder):
    return recorder.state is not None and recorder.state.state == ExecutionState.PLAYING


def give_task(recorder):
    """Latched by this test's publisher: a policy that starts later hears it without being told again."""
    expect(recorder, lambda: recorder.status is not None and recorder.status.state == PipelineStatus.IDLE, "the policy")
    publisher = recorder.create_publisher(String, "task", LATCHED)
    publisher.publish(String(data="pick up the red cube"))
    expect(recorder, lambda: playing(recorder), "motion")


def test_a_killed_policy_leaves_the_arm_at_rest_and_its_successor_is_taken_up(robot):
    nodes, recorder, start = robot
    give_task(recorder)
    first = recorder.state.session
    nodes.kill("policy")
    expect(recorder, lambda: recorder.state.state == ExecutionState.HOLDING and not np.any(recorder.state.velocity), "rest")
    start("policy")
    expect(recorder, lambda: playing(recorder) and recorder.state.session not in (0, first), "the new session to play")


def test_a_killed_player_leaves_the_arm_at_rest(robot):
    """The last window ended in a stop: the controller needs nobody to brake."""
    nodes, recorder, start = robot
    give_task(recorder)
    expect(recorder, lambda: np.abs(recorder.joint_velocity).max() > 0.05, "the arm to move")
    first = recorder.state.player
    nodes.kill("player")
    expect(recorder, lambda: np.abs(recorder.joint_velocity).max() < 0.01, "the arm to rest")
    start("player")
    expect(recorder, lambda: playing(recorder) and recorder.state.player not in (0, first), "the new player to play")
