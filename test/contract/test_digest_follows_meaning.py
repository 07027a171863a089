"""Chunks and capsules carry the digest: no comment may change it, and everything that matters must."""

import random as stdlib_random
from dataclasses import fields, replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from contract_specs import CONTRACT, SERVO, servo_contract
from flashrt_ros.contract.digest import digest
from flashrt_ros.contract.load import loads
from flashrt_ros.contract.schema import Contract, Refresh
from flashrt_ros.contract.spec import StageSpec

TREE = yaml.safe_load(CONTRACT.read_text())
DIGEST = digest(servo_contract(), SERVO, "w")


def shuffled(value, random: stdlib_random.Random):
    if isinstance(value, dict):
        keys = list(value)
        random.shuffle(keys)
        return {k: shuffled(value[k], random) for k in keys}
    return [shuffled(v, random) for v in value] if isinstance(value, list) else value


@settings(max_examples=25)
@given(st.randoms(use_true_random=False), st.booleans(), st.integers(1, 8), st.text("ab/.", min_size=1))
def test_form_of_the_file_does_not_matter(random, flow, indent, name):
    """Order of keys, comments, layout and the file's name change nothing: the file may be tidied on a running robot."""
    tree = shuffled(TREE, random)
    text = "# a comment\n" + yaml.safe_dump(tree, default_flow_style=flow, indent=indent, sort_keys=False)
    assert digest(loads(text, name), SERVO, "w") == DIGEST


def leaves(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [leaf for k, v in items for leaf in leaves(v, (*path, k))] or [path]


OTHER = {
    "fp32": "bf16", "sensor_data": "reliable", "latched": "reliable", "pad": "stretch", "joint": "joint_delta",
    "sensor_msgs/msg/Image": "sensor_msgs/msg/CompressedImage",
    "trajectory_msgs/msg/JointTrajectory": "std_msgs/msg/Float64MultiArray",
}
# These can't change alone without breaking another rule.
FIXED = {("contract",), ("inputs", "joints", "channel", "type"), ("inputs", "task", "channel", "type")}


@pytest.mark.parametrize("path", [p for p in leaves(TREE) if p not in FIXED and p[:2] != ("rollback", "guards")],
                         ids=lambda p: ".".join(map(str, p)))
def test_every_value_of_the_file_matters(path):
    """Each leaf of the demo's contract, changed alone, gives another digest."""
    tree = yaml.safe_load(CONTRACT.read_text())
    *parents, last = path
    block = tree
    for key in parents:
        block = block[key]
    value = block[last]
    if isinstance(value, str):
        block[last] = OTHER.get(value, value + "x")
    elif isinstance(value, float):
        block[last] = value + 0.01
    elif isinstance(value, int):
        block[last] = value + 1
    else:  # fuse: {}
        block[last] = {"every": 2}
    assert digest(loads(yaml.safe_dump(tree)), SERVO, "w") != DIGEST


def test_order_of_a_selection_and_of_guards_matters():
    """They are sequences: which place of the buffer a joint fills, which guard speaks first."""
    pan, lift = "      - position.shoulder_pan\n", "      - position.shoulder_lift\n"
    for find, put in ((pan + lift, lift + pan), ("[nonfinite, position", "[position, nonfinite")):
        text = CONTRACT.read_text()
        assert find in text
        assert digest(loads(text.replace(find, put)), SERVO, "w") != DIGEST


def test_order_of_on_change_does_not_matter():
    """It is a set: any of them makes the stage due."""
    one, other = (
        replace(servo_contract(), refresh=(Refresh("vision", on_change=names),))
        for names in (("scene", "wrist"), ("wrist", "scene")))
    assert digest(one, SERVO, "w") == digest(other, SERVO, "w")


def test_spelling_of_a_number_does_not_matter():
    """10, 10.0 and 1e1 are the same rate; a velocity for all joints is that velocity for each."""
    text = CONTRACT.read_text()
    for number in ("10.0", "1e1", "+10"):
        assert digest(loads(text.replace("rate_hz: 10 ", f"rate_hz: {number} ")), SERVO, "w") == DIGEST
    begin, end = text.index("    shoulder_pan: 2.0"), text.index("  boundary_jump")
    same = text[:begin] + "".join(f"    {j}: 2.0\n" for j in SERVO.joints) + text[end:]
    scalar = text[:begin].rpartition("  velocity:")[0] + "  velocity: 2\n" + text[end:]
    assert digest(loads(same), SERVO, "w") == digest(loads(scalar), SERVO, "w")


def test_policy_and_weights_matter():
    """The same contract over other code or weights is another pipeline."""
    assert digest(servo_contract(), SERVO, "v") != DIGEST
    vision, fuse, action = SERVO.stages
    for spec in (replace(SERVO, trained_stale=False), replace(SERVO, joints=SERVO.joints[::-1]),
                 replace(SERVO, stages=(vision, StageSpec("fuse", ("task", "vision_tokens"), ("belief",)), action)),
                 replace(SERVO, buffers=(replace(SERVO.buffers[0], shape=(96, 97, 3)), *SERVO.buffers[1:]))):
        assert digest(servo_contract(), spec, "w") != DIGEST


def test_source_of_an_age_matters_and_having_none_does_not():
    """A policy that reads another age is another one; one without keeps the digest (pinned below) of its old capsules."""
    assert not SERVO.ages
    ages = [digest(servo_contract(), replace(SERVO, ages=(("age", source),)), "w") for source in ("belief", "scene")]
    assert len({DIGEST, *ages}) == 3


def test_a_tracking_limit_matters_and_having_none_does_not():
    """It changes when the arm stops; a contract without one keeps the digest (pinned below) that it had before there were any."""
    text = CONTRACT.read_text()
    assert "tracking_error:" not in text
    limited = [text.replace("  boundary_jump:", f"  tracking_error: {value}\n  boundary_jump:") for value in (0.1, 0.2)]
    assert len({DIGEST, *(digest(loads(t), SERVO, "w") for t in limited)}) == 3


def test_a_gripper_block_matters_and_having_none_does_not():
    """It changes what is sent; a contract without one keeps the digest (pinned below) that it had before there were any."""
    text = CONTRACT.read_text()
    assert "gripper: {" not in text
    block = "    select: [gripper]\n    gripper: {{close_at: {}, open_at: {}, closed: 0, open: 0.08}}"
    blocks = [text.replace("    select: [gripper]", block.format(*at)) for at in ((0, 1), (1, 0))]
    assert len({DIGEST, *(digest(loads(t), SERVO, "w") for t in blocks)}) == 3


def test_candidates_matter_and_having_none_does_not():
    """How many there are, and which is taken, changes what is played; a contract without them keeps the digest (pinned below) that it
    had before there were any."""
    text = CONTRACT.read_text()
    assert "fork:" not in text
    forks = ("{candidates: 2}", "{candidates: 3}", "{candidates: 2, select: medoid}")
    forked = [text.replace("decision:  ", f"decision:\n  fork: {fork}") for fork in forks]
    assert len({DIGEST, *(digest(loads(t), SERVO, "w") for t in forked)}) == 4


def test_digest_is_the_same_on_every_machine():
    """A capsule travels: the digest of the shipped contract is pinned, so that a change of its form is seen.

    Change the value here only together with a change of the contract's meaning or of the canonical form.
    """
    assert {f.name for f in fields(Contract) if not f.compare} == {"source", "lines", "text", "overrides"}
    assert DIGEST == "39a254762c7d2d9d992121c3785f59cc626a90eed5ef197c5fdb7dc7ff94e843"
