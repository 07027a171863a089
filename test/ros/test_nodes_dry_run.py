"""A dry run shows what would be commanded, and commands nothing: not one publisher on a controller's topic."""

import numpy as np
import pytest
from puppet import FORWARD, Puppet, contract
from rclpy.parameter import Parameter
from rig import Rig
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from flashrt_ros.msg import ExecutionState
from flashrt_ros.ros.qos import RELIABLE

KINDS = {"windows": ({}, "joint_trajectory", JointTrajectory), "forward": (FORWARD, "commands", Float64MultiArray)}


@pytest.mark.parametrize("kind", KINDS)
def test_commands_go_to_the_dry_topics_only(kind, tmp_path):
    """The arm stands still while the player plays, stops and is deactivated; the real topics never so much as exist. That the
    arm does not follow is no fault here."""
    changes, name, message = KINDS[kind]
    dry = contract(tmp_path / "dry.contract.yaml", changes | {"  boundary_jump:": "  tracking_error: 0.05\n  boundary_jump:"})
    real, meant = [], []
    with Rig(dry, nodes=("player",), player={"dry_run": True}) as rig:
        topics = [f"{group}_controller/{name}" for group in ("arm", "gripper")]
        for topic in topics:
            rig.robot.create_subscription(message, topic, real.append, RELIABLE)
            rig.robot.create_subscription(message, f"player/dry_run/{topic}", meant.append, RELIABLE)
        puppet = Puppet(rig)
        puppet.obeys = False
        puppet.until_moving()
        puppet.until(lambda: len(meant) > 20, "the commands that were meant")
        puppet.steps_of(60)
        assert "tracking_error" not in puppet.counts() and "moved_at_rest" not in puppet.counts()
        assert rig.states[-1].reason == "dry run" and rig.states[-1].state == ExecutionState.PLAYING
        assert puppet.call("take_over").success
        puppet.until_state("TAKEN_OVER")
        assert puppet.call("give_back").success
        puppet.until_moving()
        rig.nodes["player"].stop()
        rig.until(lambda: not rig.robot.count_publishers(f"/player/dry_run/{topics[0]}"), "the end")
        assert not real and all(rig.robot.count_publishers(f"/{topic}") == 0 for topic in topics)
        assert not rig.trajectories
    if kind == "windows":
        assert not np.any(meant[-1].points[-1].velocities)
    assert max(len(getattr(m, "data", ())) for m in meant) == (6 if kind == "forward" else 0)


def test_a_dry_run_is_chosen_at_the_start():
    """Nobody may turn a rehearsal into motion by setting a parameter."""
    with Rig(nodes=("player",), player={"dry_run": True}) as rig:
        result = rig.nodes["player"].set_parameters([Parameter("dry_run", value=False)])
        assert not result[0].successful
