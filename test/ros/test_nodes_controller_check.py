"""At activation the player reads the parameters of the controllers that it is to command, over DDS, and refuses those that
would not execute its commands as they are meant. The controllers here are real nodes with real parameters."""

from contextlib import contextmanager

import pytest
from lifecycle_msgs.msg import Transition
from puppet import FORWARD, contract
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node
from rig import Rig

from flashrt_ros.msg import ExecutionState
from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.ros.sim_node import SimNode
from flashrt_ros.ros.spin import spinning
from flashrt_ros.sim.jtc_acceptance import JtcParameters

ARM = JOINTS[:-1]
JAZZY = JtcParameters().by_name(ARM)
GRIPPER = JtcParameters().by_name(("gripper",))


@contextmanager
def controllers(parameters, gripper=GRIPPER):
    """Nodes arm_controller and gripper_controller on a thread of their own, as they are in a process of their own."""
    nodes = []
    for name, values in (("arm_controller", parameters), ("gripper_controller", gripper)):
        nodes.append(Node(name, enable_rosout=False))
        for parameter, value in values.items():
            nodes[-1].declare_parameter(parameter, value, ParameterDescriptor(dynamic_typing=True))
    try:
        with spinning(*nodes):
            yield nodes[0]
    finally:
        for node in nodes:
            node.destroy_node()


@contextmanager
def player(parameters=None, path=None, robot=True, **arguments):
    """A configured player that has heard of the robot, and beside it the controllers that these parameters are of."""
    with Rig(path, nodes=("player",), autostart=False, player={"check_controllers": True} | arguments) as rig:
        assert rig.change(Transition.TRANSITION_CONFIGURE, "player")
        if robot:
            rig.run_until(lambda: rig.nodes["player"]._joints_seen, "the joint states")
        if parameters is None:
            yield rig, None
        else:
            with controllers(parameters) as controller:
                yield rig, controller


def activate(rig):
    return rig.change(Transition.TRANSITION_ACTIVATE, "player")


def warned(capfd):
    """What the log says of controllers; it is written while the transition runs."""
    return [line for line in capfd.readouterr().err.splitlines() if "_controller: " in line]


def test_controllers_as_jazzy_makes_them_are_accepted_without_a_word(capfd):
    with player(JAZZY) as (rig, _):
        assert activate(rig)
        rig.run_until(lambda: rig.states and rig.states[-1].state == ExecutionState.HOLDING, "the arm to hold")
        assert not warned(capfd)


@pytest.mark.parametrize("changes, said", [
    ({"interpolation_method": "none"}, ["interpolation_method is 'none'", "it must be splines"]),
    ({"joints": list(ARM[:-1])}, [f"it must be a list with {ARM[-1]}"]),
])
def test_a_controller_that_would_not_do_what_we_mean_refuses_activation_in_one_line(changes, said):
    """Before the arm moves, and with the words that a person needs; and once it is right, activation is a matter of trying again,
    because it is read anew each time."""
    with player(JAZZY | changes) as (rig, controller):
        assert not activate(rig)
        reason = rig.nodes["player"].reason
        assert all(words in reason for words in ["could not activate", "/arm_controller", *said]) and "\n" not in reason
        for name in changes:
            controller.undeclare_parameter(name)
            controller.declare_parameter(name, JAZZY[name])
        assert activate(rig)


@pytest.mark.parametrize("method, state, said", [("none", ExecutionState.IDLE, "interpolation_method is 'none'"),
                                                 ("splines", ExecutionState.HOLDING, "")])
def test_a_player_that_was_there_before_the_robot_asks_when_it_comes(method, state, said):
    """As from one launch file, where controllers come seconds later. Until they have answered nothing is commanded; and never, if
    they would not do."""
    with player(robot=False) as (rig, _):
        assert activate(rig)
        with controllers(JAZZY | {"interpolation_method": method}):
            rig.run_until(lambda: rig.states and rig.states[-1].state == state and said in rig.states[-1].reason, "the verdict")
            seen = len(rig.states)
            rig.run_until(lambda: len(rig.states) > seen + 20, "further states")
            assert {s.state for s in rig.states[seen:]} == {state} and all(said in s.reason for s in rig.states[seen:])
            assert rig.change(Transition.TRANSITION_DEACTIVATE, "player")


@pytest.mark.parametrize("order", [ARM, (ARM[1], ARM[0], *ARM[2:])])
def test_a_forward_controller_with_its_joints_in_another_order_refuses_activation(order, tmp_path):
    """Float64MultiArray has no names: the shoulder would go where the wrist should."""
    forward = {"joints": list(order), "interface_name": "position", "update_rate": 250}
    with player(path=contract(tmp_path / "forward.contract.yaml", FORWARD)) as (rig, _), \
            controllers(forward, forward | {"joints": ["gripper"]}):
        assert activate(rig) is (order == ARM)
        assert (f"joints is [{', '.join(order)}]" in rig.nodes["player"].reason) is (order != ARM)


def test_without_such_nodes_the_arm_may_move_and_the_log_says_that_nothing_was_checked(capfd):
    """A robot without ros2_control has no controllers to ask."""
    with player() as (rig, _):
        assert activate(rig)
        rig.run_until(lambda: rig.states and rig.states[-1].state == ExecutionState.HOLDING, "the arm to hold")
        said = warned(capfd)
        assert len(said) == 2 and all("not checked" in line and "check_controllers:=false" in line for line in said)


def test_a_node_that_is_there_and_does_not_answer_does_not_stop_the_player_for_good(capfd):
    """A controller manager that hangs; the transition must come to an end, and it says what was not done."""
    with player() as (rig, _):
        silent = Node("arm_controller")  # nobody spins it
        rig.until(lambda: ("arm_controller", "/") in rig.robot.get_node_names_and_namespaces(), "the silent node")
        assert activate(rig)
        assert any("/arm_controller" in line and "not checked" in line for line in warned(capfd))
        silent.destroy_node()


def test_the_simulators_controllers_answer_for_what_they_emulate(capfd):
    """Whoever tries the package sees the check at work, and a parameter of the emulation that would be refused fails here."""
    with player() as (rig, _):
        sim = SimNode()
        with spinning(*sim.controllers):
            assert activate(rig) and not warned(capfd)
        for node in (sim, *sim.controllers):
            node.destroy_node()


def test_the_check_can_be_switched_off(capfd):
    with player(JAZZY | {"interpolation_method": "none"}, check_controllers=False) as (rig, _):
        assert activate(rig) and not warned(capfd)


def test_a_dry_run_only_warns(capfd):
    """It commands no controller, and it is what one tries first."""
    with player(JAZZY | {"interpolation_method": "none"}, dry_run=True) as (rig, _):
        assert activate(rig)
        assert ["interpolation_method is 'none'" in line for line in warned(capfd)] == [True]
