"""Every rule of a contract's file, broken once. Whoever writes one wrongly must be told on one line where, what was
found, what is allowed and what to do; a rule without a test here would one day be lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract_cases import TEXT, Case
from contract_specs import SERVO
from flashrt_ros.contract.errors import ContractError
from flashrt_ros.contract.load import load, loads
from flashrt_ros.contract.nodes import MAX_BYTES
from flashrt_ros.contract.verify import verify

SLIPS = ("", " ", "\t", "\n", "\n  ", ":", ": ", "- ", "[", "]", "{", "}", "#", "'", '"', "~", "!", "!!", "&a", "*a",
         "|\n", "%", "\0", "\u2028", "\ud800", "null", "0", "-1", "1e9", ".inf", "true", "<<: {}", "? ", "---\n", "=")
RULES = {
    "unknown block": Case(
        "rollback:", "rolback: #!",
        "rolback: value a mapping of 4 keys ... unknown key ... did you mean 'rollback'?"),
    "unknown stage key": Case(
        "    every: 2", "    evry: 2 #!",
        "stages.vision.evry: value 2 ... every, on_change, max_age_ms, overlap ... did you mean 'every'?"),
    "unknown overlap key": Case(
        "commit_after: 1", "      comit_after: 1 #!",
        "stages.vision.overlap.comit_after ... did you mean 'commit_after'?"),
    "unknown input key": Case(
        "max_age_ms: 50", "    max_age: 50 #!",
        "inputs.joints.max_age: value 50 ... did you mean 'max_age_ms'?"),
    "unknown output key": Case(
        "    step_ms: 20  ", "    step: 20 #!",
        "outputs[0].step: value 20 ... did you mean 'step_ms'?"),
    "unknown limit": Case(
        "  boundary_jump:", "  jump: 0.15 #!",
        "limits.jump: value 0.15 ... did you mean 'boundary_jump'?"),
    "tracking error in degrees": Case(
        "  boundary_jump:", "  tracking_error: 5 #!",
        "limits.tracking_error: value 5: a number from 0.0001 to 3.2 (rad or m)"),
    "key twice": Case(
        "  fuse: {}", "  fuse: {}\n  fuse: {every: 2} #!",
        "stages.fuse: value a mapping of 1 keys ... given twice, first on line"),
    "version of the format": Case(
        "contract: 1 ", "contract: 2 #!",
        "contract: value 2: a whole number from 1 to 1"),
    "block absent": Case(
        "limits:", "",
        "limits: value (absent): a mapping with the keys position, velocity "
        "... add the block", at="# The exec", until="rollback:"),
    "key absent": Case(
        "  rate_hz: 10", "",
        "decision.rate_hz: value (absent): required: a number from 0.1 to 1000", at="decision:"),
    "one candidate": Case(
        "  deadline_ms:", "  deadline_ms: 80\n  fork: {candidates: 1} #!",
        "decision.fork.candidates: value 1: a whole number from 2 to 16"),
    "too many candidates": Case(
        "  deadline_ms:", "  deadline_ms: 80\n  fork: {candidates: 17} #!",
        "decision.fork.candidates: value 17: a whole number from 2 to 16"),
    "choice among nobody knows how many": Case(
        "  deadline_ms:", "  deadline_ms: 80\n  fork: {select: medoid} #!",
        "decision.fork.candidates: value (absent): required: a whole number from 2 to 16"),
    "unknown choice": Case(
        "  deadline_ms:", "  deadline_ms: 80\n  fork: {candidates: 4, select: closest} #!",
        "decision.fork.select: value 'closest' ... closest_to_previous, medoid"),
    "text for a number": Case(
        "  rate_hz: 10", "  rate_hz: fast #!",
        "decision.rate_hz: value 'fast': a number from 0.1"),
    "number with a unit": Case(
        "max_age_ms: 50", "    max_age_ms: 50ms #!",
        "inputs.joints.max_age_ms: value '50ms' ... milliseconds ... bare number"),
    "number in quotes": Case(
        "  rate_hz: 10", "  rate_hz: '10' #!",
        "decision.rate_hz: value '10' ... without quotes"),
    "not a number": Case(
        "  rate_hz: 10", "  rate_hz: .nan #!",
        "decision.rate_hz: value .nan: a number"),
    "infinite number": Case(
        "max_age_ms: 600", "    max_age_ms: 1e999 #!",
        "stages.vision.max_age_ms: value '1e999' ... to 600000"),
    "fraction for a count": Case(
        "    every: 2", "    every: 2.5 #!",
        "stages.vision.every: value 2.5: a whole number from 1 to 1000"),
    "zero for a count": Case(
        "    every: 2", "    every: 0 #!",
        "stages.vision.every: value 0: a whole number from 1"),
    "endless count": Case(
        "    every: 2", f"    every: {'9' * 5000} #!",
        "stages.vision.every: value 999 ... ...: a whole number"),
    "seconds for milliseconds": Case(
        "max_age_ms: 150", "    max_age_ms: 0.15 #!",
        "inputs.scene.max_age_ms: value 0.15 ... milliseconds ... convert it"),
    "degrees for radians": Case(
        "shoulder_pan: [", "    shoulder_pan: [-150, 150] #!",
        "limits.position.shoulder_pan[0]: value -150 ... rad or m"),
    "list for a mapping": Case(
        "  fuse: {}", "  fuse: [every, 2] #!",
        "stages.fuse: value a list of 2: a mapping with the keys every"),
    "mapping for a list": Case(
        "select: [gripper]", "    select: {gripper: 1} #!",
        "outputs[1].select: value a mapping of 1 keys: a list ... write it as [a, b]"),
    "yes for true": Case(
        "precision:", "  allow_stale: yes #!",
        "policy.allow_stale: value yes: true or false"),
    "number for a name": Case(
        "select: [gripper]", "    select: [7] #!",
        "outputs[1].select[0]: value 7 ... quotes"),
    "unknown precision": Case(
        "precision:", "  precision: fp23 #!",
        "policy.precision: value 'fp23': allowed: fp32, bf16, fp16: did you mean 'fp32'?"),
    "unknown message type": Case(
        "type: std_msgs", "      type: std_msgs/msg/Strin #!",
        "inputs.task.channel.type ... did you mean 'std_msgs/msg/String'?"),
    "message type of an output": Case(
        "type: std_msgs", "      type: trajectory_msgs/msg/JointTrajectory #!",
        "inputs.task.channel.type ... allowed: sensor_msgs/msg/Image, "),
    "unknown qos": Case(
        "qos: latched", "      qos: latch #!",
        "inputs.task.channel.qos: value 'latch': allowed: sensor_data, reliable, latched: did you mean 'latched'?"),
    "unknown align strategy": Case(
        "max_age_ms: 50", "    align: {strategy: interpolate} #!",
        "inputs.joints.align.strategy: value 'interpolate': allowed: hold, asof"),
    "unknown representation": Case(
        "representation: joint ", "    representation: joints #!",
        "outputs[0].representation: value 'joints' ... did you mean 'joint'?"),
    "unknown gripper key": Case(
        "select: [gripper]", "    select: [gripper]\n    gripper: {close: 0, open_at: 1, closed: 0, open: 0.08} #!",
        "outputs[1].gripper.close: value 0: unknown key ... close_at, open_at, closed, open"),
    "gripper key absent": Case(
        "select: [gripper]", "    select: [gripper]\n    gripper: {close_at: 0, open_at: 1, open: 0.08} #!",
        "outputs[1].gripper.closed: value (absent): required: a number from -20 to 20 (rad or m)"),
    "gripper without a band": Case(
        "select: [gripper]", "    select: [gripper]\n    gripper: {close_at: 0.5, open_at: 0.5, closed: 0, open: 0.08} #!",
        "outputs[1].gripper.open_at: value 0.5: another value than close_at, 0.5: leave a band"),
    "gripper with one position": Case(
        "select: [gripper]", "    select: [gripper]\n    gripper: {close_at: 0, open_at: 1, closed: 0.08, open: 0.08} #!",
        "outputs[1].gripper.open: value 0.08: another position than closed, 0.08"),
    "gripper of six joints": Case(
        "representation: joint ", "    gripper: {close_at: 0, open_at: 1, closed: 0, open: 0.08}",
        "outputs[0].select: value a list of 6: one joint, for the output has a gripper block: give the gripper an output of its",
        at="    select: [shoulder_pan"),
    "gripper block over deltas": Case(
        "select: [gripper]", "    select: [gripper]\n    gripper: {close_at: 0, open_at: 1, closed: 0, open: 0.08}\n"
        "    representation: joint_delta #!\n    step_ms: 20\n",
        "outputs[1].representation: value 'joint_delta': 'joint', for the gripper block gives positions", until="limits:"),
    "topic with a blank": Case(
        "topic: task", "      topic: the task #!",
        "inputs.task.channel.topic: value 'the task': a topic name"),
    "image block absent": Case(
        "    image:", "",
        "inputs.scene.image: value (absent): sensor_msgs/msg/Image needs it", at="  scene:", until="max_age_ms: 150"),
    "size of one number": Case(
        "size: [96, 96]", "      size: [96] #!",
        "inputs.scene.image.size: value a list of 1: [height, width], two numbers"),
    "size of half a pixel": Case(
        "size: [96, 96]", "      size: [96, 95.5] #!",
        "inputs.scene.image.size ... whole numbers of pixels"),
    "selection absent": Case(
        "    select:  ", "",
        "inputs.joints.select: value (absent): sensor_msgs/msg/JointState "
        "needs it", at="  joints:", until="max_age_ms: 50"),
    "selection empty": Case(
        "    select:  ", "    select: [] #!",
        "inputs.joints.select: value a list of 0: at least one", until="max_age_ms: 50"),
    "selection without a field": Case(
        "- position.elbow", "      - elbow #!",
        "inputs.joints.select[2]: value 'elbow': position.<joint>, velocity.<joint> or effort.<joint>"),
    "selection twice": Case(
        "- position.elbow", "      - position.shoulder_lift #!",
        "inputs.joints.select[2]: value 'position.shoulder_lift': each item stands once"),
    "default of joints": Case(
        "max_age_ms: 50", "    default: up #!",
        "inputs.joints.default: value 'up': sensor_msgs/msg/JointState doesn't take it"),
    "unknown conversion": Case(
        "max_age_ms: 50", "    apply: [deg2rads] #!",
        "inputs.joints.apply[0] ... did you mean 'deg2rad'?"),
    "output name taken": Case(
        "- name: gripper", "  - name: arm #!",
        "outputs[1].name: value 'arm': already taken by outputs[0]"),
    "controller taken": Case(
        "topic: gripper_c", "      topic: arm_controller/joint_trajectory #!",
        "outputs[1].controller.topic ... already taken by outputs[0]"),
    "no outputs": Case(
        "  - name: arm", "",
        "outputs: value null: a list of mappings with the keys name", at="outputs:", until="limits:"),
    "no stages": Case(
        "stages:", "stages: {} #!",
        "stages: value a mapping of 0 keys: at least one name", until="outputs:"),
    "limits upside down": Case(
        "shoulder_pan: [", "    shoulder_pan: [2.6, -2.6] #!",
        "limits.position.shoulder_pan ... lower < upper, found [2.6, -2.6]"),
    "negative velocity": Case(
        "elbow: 2.0", "    elbow: -2.0 #!",
        "limits.velocity.elbow: value -2.0: a number from 0.0001 to 50"),
    "unknown guard": Case(
        "guards:", "  guards: [nonfinit] #!",
        "rollback.guards[0]: value 'nonfinit' ... did you mean 'nonfinite'?"),
    "alias": Case(
        "size: [96, 96]", "      size: &s [96, 96]\n      resize: *s #!",
        "file:  ... aliases (*name) are not allowed; write the value out"),
    "tag": Case(
        "checkpoint:", "  checkpoint: !!python/name:os.system builtin #!",
        "file:  ... python/name:os.system is not allowed"),
    "tab": Case(
        "checkpoint:", "\tcheckpoint: builtin #!",
        "file:  ... indent with spaces, not tabs"),
    "unclosed list": Case(
        "precision:", "  precision: [fp32",
        "file:  ... mend the YAML there", at="decision:"),
    "bell character": Case(
        "checkpoint:", "  checkpoint: \a #!",
        "file: value character #x0007: printable text only"),
}


@pytest.mark.parametrize("case", RULES.values(), ids=RULES)
def test_file_that_breaks_a_rule_is_refused(case):
    """What the file alone gets wrong: grammar, types, units, ranges, repetitions, and YAML that isn't plain."""
    case.check()


@pytest.mark.parametrize(("text", "words"), [
    ("", "file: value (empty): a mapping that begins with 'contract: 1'"),
    ("# nothing but this\n", "file: value (empty)"),
    ("~", "file: value (empty)"),
    ("- a\n- b\n", "file: value a list of 2: a mapping"),
    ("just text", "file: value 'just text': a mapping"),
    ("a: 1\n---\nb: 2\n", "expected a single document"),
    ("? [a, b]\n: 1\n", "keys are plain words"),
    ("[" * 5000, "nested deeper than 12 levels"),
    ("a: " + "{b: " * 5000, "nested deeper than 12 levels"),
    ("a: &a [1]\nb: &b [*a, *a]\n", "aliases (*name) are not allowed"),
    ("a: " + "x" * MAX_BYTES, "at most 1048576 bytes"),
])
def test_what_is_no_contract_at_all_is_refused(text, words):
    """Empty files, other YAML and bombs end in the same one line, at once and without a traceback."""
    with pytest.raises(ContractError) as caught:
        loads(text, "arm.yaml")
    message = str(caught.value)
    assert words in message and message.startswith("arm.yaml:") and len(message.splitlines()) == 1


@settings(max_examples=150)
@given(st.data())
def test_no_damage_to_a_file_ends_in_a_traceback(data):
    """A slip of the hand anywhere gives a contract or a ContractError, never another exception."""
    text = TEXT
    for _ in range(data.draw(st.integers(1, 3))):
        at, length = data.draw(st.integers(0, len(text))), data.draw(st.sampled_from([0, 1, 4, 40]))
        text = text[:at] + data.draw(st.sampled_from(SLIPS)) + text[at + length:]
    try:
        verify(loads(text, "arm.yaml"), SERVO)
    except ContractError as error:
        assert str(error).startswith("arm.yaml:") and len(str(error).splitlines()) == 1


def test_file_that_can_not_be_read_is_refused(tmp_path):
    """A missing path, a directory, another encoding and an endless file are the user's errors too."""
    (tmp_path / "latin.yaml").write_bytes("contract: 1\n# caf\xe9\n".encode("latin-1"))
    (tmp_path / "long.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    for name, words in (
            ("none.yaml", "No such file"), (".", "Is a directory"), ("a\0b", "null"),
            ("latin.yaml", "yaml:2: file: value byte #xe9: UTF-8 text"), ("long.yaml", "at most 1048576 bytes")):
        with pytest.raises(ContractError, match="give|save|a page") as caught:
            load(tmp_path / name)
        assert words in str(caught.value)
