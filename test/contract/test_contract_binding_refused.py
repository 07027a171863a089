"""A contract must fit its policy: what would send the wrong image, joint or command is refused, not guessed."""

from dataclasses import replace

import pytest

from contract_cases import TEXT, Case, assert_says, refused
from contract_specs import SERVO
from flashrt_ros.contract.load import loads
from flashrt_ros.contract.spec import BufferSpec
from flashrt_ros.contract.verify import verify

RULES = {
    "another policy": Case(
        "type: color_servo", "  type: colour_servo #!",
        "policy.type: value 'colour_servo': the policy given is 'color_servo'"),
    "stage that the policy lacks": Case(
        "  fuse: {}", "  fuze: {} #!",
        "stages.fuze: value 'fuze' ... vision, fuse, action ... did you mean 'fuse'?"),
    "stage left out": Case(
        "  fuse: {}", "",
        "stages.fuse: value (absent) ... add 'fuse: {}'", at="stages:"),
    "input that the policy lacks": Case(
        "  wrist: ", "  hand: #!",
        "inputs.hand ... has no such input; it has scene, wrist, joints, task ... did you mean", at="  hand:"),
    "input left out": Case(
        "  wrist: ", "",
        "inputs.wrist: value (absent) ... uint8 [96, 96, 3] ... bind a topic", at="inputs:", until="  joints:"),
    "image of another size": Case(
        "size: [96, 96]", "      size: [64, 96] #!",
        "inputs.scene.image.size: value [64, 96] ... 'scene' is uint8 [96, 96, 3] ... write [96, 96]"),
    "selection too short": Case(
        "- position.elbow", "",
        "inputs.joints.select: value 6 names ... 'joints' is float32 [7], the selection "
        "float32 [6]", at="    select:  "),
    "image into joints": Case(
        "  joints: ",
        "  joints: {channel: {topic: eye, type: sensor_msgs/msg/Image}, image: {size: [7, 7]}, max_age_ms: 50} #!",
        "inputs.joints.image.size: value [7, 7]: the buffer 'joints' is float32 [7] ... this "
        "buffer takes no image", until="  task:"),
    "text into a camera": Case(
        "  wrist: ", "  wrist: {channel: {topic: hints, type: std_msgs/msg/String}} #!",
        "inputs.wrist.channel.type: value 'std_msgs/msg/String' ... ages and takes images", until="  joints:"),
    "outputs with different steps": Case(
        "    step_ms: 20  ", "    step_ms: 10",
        "outputs[1].step_ms: value 20: one chunk carries all joints, and outputs[0] has 10 ... write 10", at="    step_ms: 20"),
    "age of a text": Case(
        'default: ""', "    max_age_ms: 500 #!",
        "inputs.task.max_age_ms: value 500: text never ages"),
    "camera without an age bound": Case(
        "max_age_ms: 150", "",
        "inputs.scene.max_age_ms: value (absent): 'scene' would reach the action without an age "
        "bound", at="  scene:"),
    "action not at every decision": Case(
        "    every: 1 ", "    every: 2 #!",
        "stages.action.every: value 2: the action runs at every decision"),
    "action on change": Case(
        "    every: 1 ", "    on_change: [belief] #!",
        "stages.action.on_change: value belief: the action runs at every decision"),
    "action in the background": Case(
        "    every: 1 ", "    overlap: {commit_after: 1} #!",
        "stages.action.overlap: value commit_after 1: the action runs in the foreground"),
    "on_change of what isn't read": Case(
        "  fuse: {}", "  fuse: {on_change: [vision_token]} #!",
        "stages.fuse.on_change[0]: value 'vision_token': the stage reads vision_tokens, task ... did you mean "
        "'vision_tokens'?"),
    "unknown joint": Case(
        "select: [gripper]", "    select: [griper] #!",
        "outputs[1].select[0]: value 'griper' ... did you mean 'gripper'?"),
    "joint driven twice": Case(
        "select: [gripper]", "    select: [elbow] #!",
        "outputs[1].select[0]: value 'elbow': already driven by the output 'arm'"),
    "joint not driven": Case(
        "  - name: gripper", "",
        "outputs: value shoulder_pan ... the policy drives 'gripper' too", at="outputs:", until="limits:"),
    "representation of a later version": Case(
        "representation: joint ", "    representation: joint_delta #!",
        "outputs[0].representation: value 'joint_delta': this version plays absolute joint positions only"),
    "limit of an unknown joint": Case(
        "elbow: 2.0", "    elbow: 2.0\n    elbw: 2.0 #!",
        "limits.velocity.elbw: value 2.0: no output drives 'elbw' ... did you mean 'elbow'?"),
    "tracking limit of an unknown joint": Case(
        "  boundary_jump:", "  boundary_jump: 0.15\n  tracking_error: {elbow: 0.1, elbw: 0.2} #!",
        "limits.tracking_error.elbw: value 0.2: no output drives 'elbw' ... did you mean 'elbow'?"),
    "position limit absent": Case(
        "elbow: [", "",
        "limits.position.elbow: value (absent): every driven joint has a position limit", at="  position:"),
    "velocity limit absent": Case(
        "elbow: 2.0", "",
        "limits.velocity.elbow: value (absent): every driven joint has a velocity limit", at="  velocity:"),
    "guard without its limit": Case(
        "  boundary_jump:", "",
        "limits.boundary_jump: value (absent): the guard 'jump' compares with it", at="limits:"),
}


@pytest.mark.parametrize("case", RULES.values(), ids=RULES)
def test_contract_that_does_not_fit_its_policy_is_refused(case):
    """What only the policy's declaration shows: names, shapes, kinds, joints and their limits."""
    case.check()


@pytest.mark.parametrize(("shape", "declared"), [((32, 7), {"noise": "extra"}), ((1,), {"ages": (("extra", "belief"),)})])
def test_noise_or_age_bound_to_a_topic_is_refused(shape, declared):
    """The noise is a function of the seed and the decision, an age of stamps; a topic would break every replay."""
    extra = BufferSpec("extra", shape, "float32", "input", timeless=True)
    vision, fuse, action = SERVO.stages
    action = replace(action, reads=(*action.reads, "extra"))
    spec = replace(SERVO, buffers=(*SERVO.buffers, extra), stages=(vision, fuse, action), **declared)
    verify(loads(TEXT), spec)
    text = TEXT.replace("  task:  ", "  extra: {channel: {topic: extra, type: std_msgs/msg/String}}\n  task:  ")
    assert_says(refused(text, spec), "inputs.extra: value 'extra': the engine fills it itself ... take the input out")
