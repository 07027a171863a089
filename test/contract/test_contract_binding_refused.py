"""A contract must fit its policy: what would send the wrong image, joint or command is refused, not guessed."""

from dataclasses import replace

import pytest

from contract_cases import TEXT, Case, assert_says, line_of, refused
from contract_specs import SERVO
from flashrt_ros import policies
from flashrt_ros.contract.errors import ContractError
from flashrt_ros.contract.load import load, loads
from flashrt_ros.contract.spec import BufferSpec
from flashrt_ros.contract.verify import verify
from flashrt_ros.resources import find

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
        "representation: joint ", "    representation: ee_delta #!",
        "outputs[0].representation: value 'ee_delta': this version plays joint, joint_delta: let the policy itself"),
    "gripper that opens beyond its limit": Case(
        "select: [gripper]", "    select: [gripper]\n    gripper: {close_at: 0, open_at: 1, closed: 0, open: 0.1} #!",
        "outputs[1].gripper.open: value 0.1: limits.position of 'gripper' is 0 to 0.08: give a position within it"),
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


DELTAS = TEXT.replace("representation: joint ", "representation: joint_delta ")


@pytest.mark.parametrize(("find", "put"), [
    ("- position.elbow\n", "- velocity.elbow\n"), ("    max_age_ms: 50 ", "    apply: [rad2deg]\n    max_age_ms: 50 ")],
    ids=["not measured", "in degrees"])
def test_deltas_from_a_state_that_is_not_observed_are_refused(find, put):
    """There is nothing to add them to. The other output, which gives positions, may stay without."""
    assert find in DELTAS
    verify(loads(DELTAS), SERVO)
    error = refused(DELTAS.replace(find, put))
    assert "representation: joint_delta" in DELTAS.replace(find, put).splitlines()[error.line - 1]
    assert_says(error, "outputs[0].representation: value 'joint_delta': deltas are from measured positions, and no input holds "
                       "position.<joint> of all of shoulder_pan ... in rad or m: select them in one input")


def test_deltas_from_an_older_state_than_the_observations_are_refused():
    """A policy whose action sees the joints through a slow stage speaks of where the arm was then: added to where it is now, all
    that it moved in between would be done twice. At every decision it is right again."""
    vision, fuse, action = SERVO.stages
    vision, action = replace(vision, reads=(*vision.reads, "joints")), replace(action, reads=("belief", "wrist"))
    blind = replace(SERVO, stages=(vision, fuse, action))
    error = refused(DELTAS, blind)
    assert "representation: joint_delta" in DELTAS.splitlines()[error.line - 1]
    assert_says(error, "outputs[0].representation: value 'joint_delta': the deltas are from 'joints' of the same observation, "
                       "which 'action' does not get or gets late ... let every stage between them run at each decision")
    begin, end = line_of(DELTAS, "    every: 2") - 1, line_of(DELTAS, "  fuse: {}") - 1
    lines = DELTAS.splitlines()
    verify(loads("\n".join([*lines[:begin], "    every: 1", *lines[end:]])), blind)


@pytest.mark.parametrize("change", [{"outputs[0].representation": "joint_delta"},
                                    {"outputs[1].gripper": "{close_at: 0, open_at: 1, closed: 0, open: 0.08}"}])
def test_a_policy_that_continues_the_plan_speaks_of_positions(change):
    """The plan that it reads is positions; a chunk in other numbers could not keep to it."""
    continues = {"policy.continues": "future_state"}
    contract = load(find("config/tabletop_vla.contract.yaml"), continues)
    spec = policies.spec(contract.policy)
    verify(contract, spec)
    with pytest.raises(ContractError, match="a policy that continues the plan reads positions") as caught:
        verify(load(find("config/tabletop_vla.contract.yaml"), continues | change), spec)
    assert caught.value.key == next(iter(change))


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


FORKED = TEXT.replace("  deadline_ms: 80 ", "  fork: {candidates: 4}\n  deadline_ms: 80 ")
VISION, FUSE, ACTION = SERVO.stages
SAMPLES = replace(ACTION, reads=(*ACTION.reads, "noise"))
SAMPLED = replace(SERVO, noise="noise", stages=(VISION, FUSE, SAMPLES),
                  buffers=(*SERVO.buffers, BufferSpec("noise", (32, 7), "float32", "input", timeless=True)))


@pytest.mark.parametrize(("spec", "why"), [
    (SERVO, "'color_servo' takes no noise, so all candidates would be the same"),
    (replace(SAMPLED, buffers=(*SAMPLED.buffers, BufferSpec("memory", (4,), "float32", "state")),
             stages=(VISION, FUSE, replace(SAMPLES, reads=(*SAMPLES.reads, "memory"), writes=("memory", "chunk")))),
     "'color_servo' also writes memory there, of which a decision leaves only one behind"),
    (replace(SAMPLED, stages=(replace(VISION, reads=(*VISION.reads, "noise")), FUSE, SAMPLES)),
     "'color_servo' takes it in vision, action, and candidates share all that comes before the action"),
], ids=["no noise", "a state", "noise in vision"])
def test_candidates_that_would_be_equal_or_leave_more_behind_than_themselves_are_refused(spec, why):
    """Before the robot moves: the engine would find out in warm-up, or never. A policy that samples its chunk takes them."""
    verify(loads(FORKED), SAMPLED)
    error = refused(FORKED, spec)
    assert error.line == line_of(FORKED, "  fork: ")
    assert_says(error, f"decision.fork: value 4 candidates: a policy whose action alone takes noise ... {why}: leave decision.fork out")
