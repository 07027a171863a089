"""The e-stop over real DDS: by service and topic, latched through everything but its reset."""

import numpy as np
import pytest
from lifecycle_msgs.msg import Transition
from puppet import Puppet
from rclpy.qos import QoSProfile
from rig import Rig
from std_msgs.msg import Bool

from flashrt_ros.msg import ExecutionState
from flashrt_ros.ros.qos import LATCHED


def at_rest(rig):
    return not np.any(rig.states[-1].velocity)


def expect_stopped(puppet):
    """Latched, said, at rest, silent; and chunks are refused."""
    rig = puppet.rig
    puppet.until_state("ESTOP")
    puppet.until(lambda: at_rest(rig), "rest")
    puppet.steps_of(3)  # the last window may have been under way
    sent, refused = len(rig.trajectories), puppet.counts().get("estop", 0)
    puppet.until(lambda: puppet.counts().get("estop", 0) >= refused + 3, "refusals")
    assert len(rig.trajectories) == sent and rig.states[-1].state == ExecutionState.ESTOP and at_rest(rig)
    assert "call /player/estop_reset" in rig.states[-1].reason


def button(rig, qos, pressed=True):
    topic = rig.robot.create_publisher(Bool, "player/estop", qos)
    topic.publish(Bool(data=pressed))
    return topic


def test_the_service_stops_the_arm_and_only_the_reset_lets_it_go_on(rig, puppet):
    """The whole way: press, rest, refuse, reset, and on from there in a new run of the player."""
    run = rig.states[-1].player
    answer = puppet.call("estop")
    assert answer.success and "service called" in answer.message
    expect_stopped(puppet)
    velocities = [s.velocity[0] for s in rig.states if s.state == ExecutionState.ESTOP]
    assert velocities[0] > 0.5 and all(a >= b for a, b in zip(velocities, velocities[1:]))
    assert puppet.counts()["emergency_stop"] == 1
    old = puppet.chunk(seq=10_000)
    assert puppet.call("estop_reset").success
    puppet.until_state("PLAYING")
    assert rig.states[-1].player not in (0, run)
    old.seq = 20_000
    rig.chunk_topic.publish(old)
    puppet.until(lambda: puppet.counts().get("old_run"), "the refusal of a chunk of before")
    puppet.until_moving()


@pytest.mark.parametrize("qos", [LATCHED, QoSProfile(depth=10)], ids=["latched", "volatile"])
def test_the_topic_stops_the_arm_and_false_does_not_release_it(rig, puppet, qos):
    """A button that comes out again says that it came out, not that all is safe. `ros2 topic pub` sends volatile messages,
    which a subscription that asks for latched ones would not hear."""
    topic = button(rig, qos)
    rig.until(lambda: topic.get_subscription_count(), "the subscription")
    topic.publish(Bool(data=True))
    expect_stopped(puppet)
    assert "true on /player/estop" in rig.states[-1].reason
    refused = puppet.call("estop_reset")
    assert not refused.success and "release the button first" in refused.message
    topic.publish(Bool(data=False))
    expect_stopped(puppet)
    assert puppet.call("estop_reset").success
    puppet.until_moving()


def test_a_button_that_is_gone_does_not_hold_the_arm_for_ever(rig, puppet):
    """`ros2 topic pub --once` leaves its true behind and nobody who could take it back."""
    topic = button(rig, LATCHED)
    expect_stopped(puppet)
    rig.robot.destroy_publisher(topic)
    rig.until(lambda: puppet.call("estop_reset").success, "the reset")
    puppet.until_moving()


def test_who_joins_late_hears_the_button():
    """A player that is started, or started again, while the button is pressed must not move."""
    with Rig(nodes=()) as rig:
        button(rig, LATCHED)
        rig.add("player")
        puppet = Puppet(rig)
        expect_stopped(puppet)
        assert all(not np.any(s.velocity) for s in rig.states)


def test_it_is_latched_through_every_lifecycle_state(rig, puppet):
    """Deactivated, cleaned up, configured and active again: nobody has said that it is safe."""
    puppet.call("estop")
    expect_stopped(puppet)
    for transition in (Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP, Transition.TRANSITION_CONFIGURE,
                       Transition.TRANSITION_ACTIVATE):
        assert puppet.change(transition)
    rig.states.clear()
    expect_stopped(puppet)
    assert puppet.call("estop_reset").success
    puppet.until_moving()


def test_it_is_heard_before_the_node_is_configured():
    """An unconfigured player has no arm to stop, but it must remember."""
    with Rig(nodes=("player",), autostart=False) as rig:
        puppet = Puppet(rig)
        assert puppet.call("estop").success
        assert puppet.change(Transition.TRANSITION_CONFIGURE) and puppet.change(Transition.TRANSITION_ACTIVATE)
        expect_stopped(puppet)


def test_a_reset_needs_to_know_where_the_arm_is(rig, puppet):
    """The run that it begins starts from the measured pose; an old one may be wrong by now."""
    puppet.call("estop")
    expect_stopped(puppet)
    rig.names = rig.names[:-1] + ["grip"]
    puppet.steps_of(3)
    refused = puppet.call("estop_reset")
    assert not refused.success and "gripper" in refused.message
    rig.names = rig.names[:-1] + ["gripper"]
    puppet.steps_of(3)
    assert puppet.call("estop_reset").success


def test_the_policy_starts_anew_after_a_reset():
    """With the real policy node: it is asked to forget what it saw and planned, and its new epoch plays."""
    with Rig() as rig:
        rig.start()
        epoch, puppet = rig.epochs[-1].epoch, Puppet(rig)
        puppet.thinks = False
        puppet.call("estop")
        puppet.until_state("ESTOP")
        puppet.until(lambda: at_rest(rig), "rest")
        puppet.steps_of(5)
        assert puppet.call("estop_reset").success
        puppet.until(lambda: rig.epochs[-1].epoch > epoch and rig.epochs[-1].reason == "reset", "a new epoch")
        puppet.until(lambda: rig.states[-1].state == ExecutionState.PLAYING and rig.states[-1].epoch > epoch, "the new epoch to play")
