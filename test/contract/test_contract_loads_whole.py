"""A good contract must arrive with every value, default and line where the file has it."""

import pytest

from contract_specs import CONTRACT, JOINTS, SERVO, servo_contract
from flashrt_ros import policies
from flashrt_ros.contract.errors import ContractError
from flashrt_ros.contract.load import load, loads
from flashrt_ros.contract.schema import Align, Channel, Gripper, Image, PolicyChoice, Refresh, Rollback
from flashrt_ros.contract.verify import verify
from flashrt_ros.resources import find

SHORT = """\
contract: 1
policy: {type: color_servo}
decision: {rate_hz: 10, deadline_ms: 8e1}
inputs:
  scene: {channel: {topic: /scene, type: sensor_msgs/msg/CompressedImage}, image: {size: [96, 96]}}
  joints:
    {channel: {topic: ~/joints, type: sensor_msgs/msg/JointState}, select: [position.a, velocity.b], apply: [deg2rad]}
  task: {channel: {topic: task, type: std_msgs/msg/String}}
stages:
  vision:
  action: {}
outputs:
  - {name: arm, select: [a, b], step_ms: 20, controller: {topic: arm, type: std_msgs/msg/Float64MultiArray}}
  - {name: hand, select: [c], step_ms: 20, controller: {topic: hand, type: sensor_msgs/msg/JointState}}
limits: {velocity: 2, acceleration: {a: .5, b: 1.}, position: {c: [-0, 1]}}
"""


def test_demo_contract_arrives_whole():
    """The shipped file, value by value: a key that load forgets would silently fall back to its default."""
    contract = servo_contract()
    scene, wrist, joints, task = contract.inputs
    assert (contract.rate_hz, contract.period_ns, contract.deadline_ns) == (10.0, 100_000_000, 80_000_000)
    assert scene.channel == Channel("scene_camera/image_raw", "sensor_msgs/msg/Image", "sensor_data")
    assert scene.image == wrist.image == Image((96, 96), "pad") and scene.max_age_ns == 150_000_000
    assert joints.select == tuple(f"position.{j}" for j in JOINTS) and joints.max_age_ms == 50.0
    assert task.default == "" and task.channel.qos == "latched" and task.max_age_ns is None
    assert contract.refresh == (Refresh("vision", 2, (), 600.0, 1), Refresh("fuse"), Refresh("action", 1))
    assert [(o.name, len(o.select), o.step_ns, o.representation, o.channel.qos) for o in contract.outputs] == [
        ("arm", 6, 20_000_000, "joint", "reliable"), ("gripper", 1, 20_000_000, "joint", "reliable")]
    assert contract.limits.position["shoulder_lift"] == (-2.6, 0.6) and contract.limits.velocity["gripper"] == 0.2
    assert contract.limits.boundary_jump == 0.15 and contract.rollback == Rollback()
    verify(contract, SERVO)


def test_what_is_left_out_takes_its_usual_value():
    """Null and empty stages follow their reads; QoS follows the kind of message."""
    contract = loads(SHORT)
    scene, joints, task = contract.inputs
    assert [i.channel.qos for i in contract.inputs] == ["sensor_data", "sensor_data", "latched"]
    assert scene.align == Align("hold", "header", None) and scene.image.resize == "pad" and task.default is None
    assert joints.apply == ("deg2rad",) and joints.select == ("position.a", "velocity.b")
    assert contract.refresh == (Refresh("vision"), Refresh("action"))
    assert contract.policy == PolicyChoice("color_servo", "builtin", "fp32", False)
    assert contract.rollback == Rollback()


def test_a_gripper_block_arrives_whole():
    """Swapped thresholds or positions would open where the policy means close."""
    text = SHORT.replace("select: [c],", "select: [c], gripper: {close_at: 1, open_at: -1, closed: 0.01, open: 0.08},")
    assert [o.gripper for o in loads(text).outputs] == [None, Gripper(close_at=1.0, open_at=-1.0, closed=0.01, open=0.08)]


def test_measured_positions_are_found_by_name_in_the_outputs_order():
    """Whoever needs where the arm is must not mix up joints, nor take velocities, nor degrees, for positions in rad."""
    text = SHORT.replace("[position.a, velocity.b]", "[position.a, velocity.b, position.c]")
    assert loads(text).measured(("c", "a")) == ("joints", [2, 0])
    assert loads(text).measured(("a", "b")) is None
    assert loads(text.replace("deg2rad", "rad2deg")).measured(("a",)) is None


def test_one_number_stands_for_every_driven_joint():
    """`velocity: 2` is a limit for each joint of each output; a mapping is taken as it is."""
    limits = loads(SHORT).limits
    assert dict(limits.velocity) == {"a": 2.0, "b": 2.0, "c": 2.0}
    assert dict(limits.acceleration) == {"a": 0.5, "b": 1.0} and dict(limits.jerk) == {}
    assert dict(limits.tracking_error) == {}
    text = SHORT.replace("velocity: 2", "velocity: 2, tracking_error: 0.1")
    assert dict(loads(text).limits.tracking_error) == {"a": 0.1, "b": 0.1, "c": 0.1}


def test_lines_are_those_of_the_file():
    """Later errors point into the file by these; an unknown key by the block around it."""
    contract = servo_contract()
    text = CONTRACT.read_text().splitlines()
    for key, words in (
            ("policy.type", "type: color_servo"), ("inputs.joints.select[2]", "- position.elbow"),
            ("stages.vision.every", "every: 2"), ("stages.vision.overlap.commit_after", "commit_after: 1"),
            ("outputs[1].controller.topic", "topic: gripper_controller"), ("limits.velocity.gripper", "gripper: 0.2"),
            ("stages.vision.nothing.below", "  vision:"), ("outputs[1].nothing", "- name: gripper"),
            ("nothing", "# The execution contract")):
        assert words in text[contract.line(key) - 1], key


def test_text_and_file_give_equal_contracts(tmp_path):
    """Source and lines serve messages only: they take no part in equality."""
    path = tmp_path / "copy.yaml"
    path.write_text("\ufeff# moved down by a line\n" + CONTRACT.read_text(), encoding="utf-8")
    copy = load(path)
    assert copy == servo_contract() and copy.source == str(path)
    assert copy.line("policy.type") == servo_contract().line("policy.type") + 1


@pytest.mark.parametrize("path", sorted(find("config").glob("*.contract.yaml")), ids=lambda p: p.name)
def test_shipped_contracts_pass_verify(path):
    """No file in config/ may rot: each is held against its own policy's declaration."""
    contract = load(path)
    verify(contract, policies.spec(contract.policy))


def test_error_is_one_line_whatever_the_value():
    """A log line per error: long or multi-line values are cut, not spilt."""
    text = SHORT.replace("topic: /scene", "topic: " + '"' + "x y\\n" * 100 + '"')
    with pytest.raises(ContractError) as caught:
        loads(text, "arm.yaml")
    assert len(str(caught.value).splitlines()) == 1 and len(str(caught.value)) < 250
