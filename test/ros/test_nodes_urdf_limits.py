"""The robot's description as a second source of limits: by topic or parameter, and not without it once it is asked for."""

import numpy as np
import pytest
from lifecycle_msgs.msg import Transition
from puppet import Puppet
from rig import Rig
from std_msgs.msg import String

from flashrt_ros.msg import ExecutionState
from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.ros.qos import LATCHED


def urdf(velocity=0.3, joints=JOINTS):
    return "<robot name='arm'>" + "".join(
        f"<joint name='{name}' type='{'prismatic' if name == 'gripper' else 'revolute'}'>"
        f"<limit lower='-3' upper='3' velocity='{velocity}' effort='1'/></joint>" for name in joints) + "</robot>"


def describe(rig, text):
    topic = rig.robot.create_publisher(String, "robot_description", LATCHED)
    topic.publish(String(data=text))
    return topic


def fastest(rig):
    return max((abs(s.velocity[0]) for s in rig.states if len(s.velocity)), default=0.0)


def test_the_arm_waits_for_the_description_and_then_keeps_to_it():
    """The description may come after the player; until then nobody knows what the motors can do."""
    with Rig(nodes=("player",), player={"use_urdf": True}) as rig:
        puppet = Puppet(rig)
        puppet.until(lambda: rig.states and "no description has come on /robot_description" in rig.states[-1].reason, "the reason")
        assert rig.states[-1].state == ExecutionState.IDLE
        describe(rig, urdf())
        puppet.until_state("PLAYING")
        puppet.steps_of(60)
        assert 0.25 < fastest(rig) <= 0.3 + 1e-6


def test_without_use_urdf_a_description_changes_nothing():
    """Only the contract counts unless somebody says otherwise; a description on the topic is common."""
    with Rig(nodes=("player",), player={"robot_description": urdf()}) as rig:
        describe(rig, urdf(0.1))
        Puppet(rig).until_moving()


def test_a_description_that_lacks_a_joint_refuses_activation_by_name():
    """A driven joint of which the robot knows nothing: the contract is for another robot."""
    with Rig(nodes=("player",), autostart=False,
             player={"use_urdf": True, "robot_description": urdf(joints=JOINTS[:-1])}) as rig:
        puppet = Puppet(rig)
        assert puppet.change(Transition.TRANSITION_CONFIGURE)
        assert not puppet.change(Transition.TRANSITION_ACTIVATE)
        assert "joint 'gripper': the URDF has 0 of that name" in rig.nodes["player"].reason


def test_another_description_counts_from_the_next_activation_on():
    """Limits do not change under a moving arm."""
    with Rig(nodes=("player",), player={"use_urdf": True}) as rig:
        topic = describe(rig, urdf())
        puppet = Puppet(rig)
        puppet.until_state("PLAYING")
        topic.publish(String(data=urdf(0.1)))
        puppet.steps_of(60)
        assert fastest(rig) > 0.25
        assert puppet.change(Transition.TRANSITION_DEACTIVATE)
        puppet.until_state("IDLE")
        rig.states.clear()
        assert puppet.change(Transition.TRANSITION_ACTIVATE)
        puppet.until_state("PLAYING")
        puppet.steps_of(60)
        assert np.isclose(fastest(rig), 0.1, atol=1e-6)


@pytest.mark.parametrize("text, said", [("<!DOCTYPE r [<!ENTITY a 'b'>]><robot/>", "document type"), ("nonsense", "not XML")])
def test_a_description_that_cannot_be_used_is_told_and_the_next_one_taken(text, said):
    """It comes over the network: it may be anything, and the node lives on."""
    with Rig(nodes=("player",), player={"use_urdf": True}) as rig:
        topic = describe(rig, text)
        puppet = Puppet(rig)
        puppet.until(lambda: rig.states and said in rig.states[-1].reason, "the reason")
        topic.publish(String(data=urdf()))
        puppet.until_state("PLAYING")
