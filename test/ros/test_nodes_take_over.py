"""A person, another node, or something in the way takes the arm from the policy, over real DDS; and it goes on afterwards."""

import numpy as np
from lifecycle_msgs.msg import Transition
from puppet import Puppet, contract
from rclpy.node import Node
from rig import Rig
from trajectory_msgs.msg import JointTrajectory

from flashrt_ros.msg import ExecutionState
from flashrt_ros.ros.qos import RELIABLE

TOPIC = "arm_controller/joint_trajectory"


def taken_over(puppet):
    """Take over, and wait until no command is under way any more; returns how many there were."""
    answer = puppet.call("take_over")
    assert answer.success and "/player/give_back" in answer.message
    puppet.until_state("TAKEN_OVER")
    puppet.steps_of(3)
    return len(puppet.rig.trajectories)


def test_after_a_take_over_not_one_command_is_published(rig, puppet):
    """The person's controller has the arm; a command of ours would fight it. Chunks go on coming and are refused."""
    sent = taken_over(puppet)
    end = rig.trajectories[-1].points[-1]
    assert not np.any(end.velocities) and np.allclose(end.positions, rig.states[-1].position[:6], atol=1e-6)
    puppet.obeys, rig.joints = False, rig.joints + np.array([0.4, 0.2, 0, 0, 0, 0, 0])
    puppet.until(lambda: puppet.counts().get("taken_over", 0) >= 5, "refused chunks")
    assert puppet.change(Transition.TRANSITION_DEACTIVATE)  # nor on the way out
    assert puppet.change(Transition.TRANSITION_ACTIVATE)
    puppet.until_state("TAKEN_OVER")
    puppet.steps_of(10)
    assert len(rig.trajectories) == sent
    assert "give_back" in rig.states[-1].reason and puppet.counts()["take_over"] == 1


def test_the_persons_own_node_is_no_reason_to_speak(rig, puppet):
    """It publishes on the same topic, of course; that is told, and counts as soon as the arm is given back."""
    sent = taken_over(puppet)
    other = Node("teleop")
    publisher = other.create_publisher(JointTrajectory, TOPIC, RELIABLE)
    puppet.until(lambda: puppet.counts().get("contended"), "the look who else publishes")
    puppet.steps_of(5)
    assert len(rig.trajectories) == sent and {s.state for s in rig.states[-5:]} == {ExecutionState.TAKEN_OVER}
    answer = puppet.call("give_back")
    assert answer.success and "still held: /teleop" in answer.message
    puppet.until_state("FAULT")
    other.destroy_publisher(publisher)
    puppet.until_moving()
    other.destroy_node()


def test_it_goes_on_from_where_the_person_left_the_arm(rig, puppet):
    """The first command is the measured pose; what is planned for elsewhere is approached slowly, and seen to be."""
    sent, run = taken_over(puppet), rig.states[-1].player
    home = rig.joints.copy()
    puppet.obeys, rig.joints = False, rig.joints + np.array([0.5, 0, 0, 0, 0, 0, 0])
    puppet.steps_of(3)
    left = rig.joints.copy()
    puppet.goal = home
    assert puppet.call("give_back").success
    puppet.until_state("APPROACHING")
    assert rig.states[-1].player != run
    puppet.obeys = True
    puppet.until(lambda: len(rig.trajectories) > sent, "commands")
    assert np.allclose(rig.trajectories[sent].points[0].positions, left[:6], atol=1e-6)
    puppet.until_state("PLAYING")
    fastest = max(abs(s.velocity[0]) for s in rig.states if s.state == ExecutionState.APPROACHING)
    assert 0.1 < fastest <= 0.25 * 2.0 + 1e-6


def test_giving_back_what_nobody_took_changes_nothing(rig, puppet):
    """A script may say it to be sure."""
    assert puppet.call("give_back").success
    assert rig.states[-1].state == ExecutionState.PLAYING


def test_a_foreign_publisher_holds_the_arm_until_it_is_gone(rig, puppet):
    """Two nodes that command one controller move the arm in turns. The reason says who, and where."""
    other = Node("teleop")
    publisher = other.create_publisher(JointTrajectory, TOPIC, RELIABLE)
    puppet.until_state("FAULT")
    assert "/teleop publishes on /" + TOPIC in rig.states[-1].reason
    puppet.until(lambda: puppet.counts().get("foreign_publisher", 0) >= 2 and not np.any(rig.states[-1].velocity), "rest")
    assert puppet.counts()["contended"] == 1
    other.destroy_publisher(publisher)
    puppet.until_moving()
    other.destroy_node()


def test_a_publisher_that_is_known_holds_nothing():
    """A teleoperation node that is always there, and idle until somebody takes over, is no fault."""
    with Rig(nodes=("player",), player={"known_publishers": "/somebody, /teleop"}) as rig:
        other = Node("teleop")
        other.create_publisher(JointTrajectory, TOPIC, RELIABLE)
        puppet = Puppet(rig)
        puppet.until_moving()
        puppet.steps_of(120)
        assert ExecutionState.FAULT not in {s.state for s in rig.states} and "contended" not in puppet.counts()
        other.destroy_node()


def test_an_arm_moved_at_rest_is_held_there_and_it_is_said(rig, puppet):
    """Motion that nobody commanded: a person's hand, a brake that slips, another controller."""
    puppet.thinks = False
    puppet.until_state("HOLDING")
    puppet.steps_of(2)
    puppet.obeys, rig.joints = False, rig.joints - np.array([0, 0.3, 0, 0, 0, 0, 0])
    puppet.until(lambda: puppet.counts().get("moved_at_rest"), "the notice")
    puppet.steps_of(2)
    assert "shoulder_lift was moved by 0.3" in rig.states[-1].reason
    assert np.allclose(rig.states[-1].position, rig.joints, atol=1e-6)


def test_a_blocked_arm_stops_the_player_and_names_the_joint(tmp_path):
    """limits.tracking_error of the contract: the command does not run away from an arm that stands against something, and
    goes on by itself when the arm is free."""
    limited = contract(tmp_path / "limited.contract.yaml", {"  boundary_jump:": "  tracking_error: 0.12\n  boundary_jump:"})
    with Rig(limited, nodes=("player",)) as rig:
        puppet = Puppet(rig)
        puppet.until_moving()
        puppet.obeys, run = False, rig.states[-1].player
        puppet.until(lambda: puppet.counts().get("tracking_error"), "the tracking error")
        puppet.until(lambda: puppet.counts().get("tracking"), "a refused chunk")
        assert "shoulder_pan is 0." in rig.states[-1].reason and "allowed 0.12" in rig.states[-1].reason
        assert np.abs(np.array(rig.states[-1].position) - rig.joints).max() < 0.5
        puppet.until(lambda: rig.states[-1].player != run, "a new run")
        assert np.abs(np.array(rig.states[-1].position) - rig.joints).max() < 0.12
        puppet.obeys = True
        puppet.until_moving()
