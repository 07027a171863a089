"""Overrides: other values for a contract's keys, as `flashrt eval --set` sweeps them. They must mean exactly what an edit of
the file would mean, or a sweep compares something else than what is later deployed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract_cases import TEXT, line_of
from contract_specs import CONTRACT, SERVO
from flashrt_ros.contract.digest import digest
from flashrt_ros.contract.errors import ContractError
from flashrt_ros.contract.load import load, loads
from flashrt_ros.contract.schema import Fork
from flashrt_ros.contract.verify import verify


def refused(overrides: dict[str, str]) -> ContractError:
    with pytest.raises(ContractError) as caught:
        verify(loads(TEXT, "arm.yaml", overrides), SERVO)
    assert len(str(caught.value).splitlines()) == 1
    return caught.value


@given(every=st.integers(1, 5))
def test_an_override_is_an_edit_of_the_file(every):
    edited = loads(TEXT.replace("    every: 2 ", f"    every: {every} "))
    overridden = load(CONTRACT, {"stages.vision.every": str(every)})
    assert overridden == edited and digest(overridden, SERVO, "") == digest(edited, SERVO, "")


@pytest.mark.parametrize(("key", "value", "read"), [
    ("decision.rate_hz", "5", lambda c: c.rate_hz),
    ("policy.checkpoint", "other.safetensors", lambda c: c.policy.checkpoint),
    ("outputs[1].step_ms", "40", lambda c: c.outputs[1].step_ms),
    ("limits.position.elbow", "[0.0, 2.0]", lambda c: c.limits.position["elbow"]),
    ("limits.position.elbow[1]", "2.0", lambda c: c.limits.position["elbow"][1]),
    ("limits.velocity", "1.5", lambda c: c.limits.velocity["gripper"]),
])
def test_any_key_of_the_file_can_be_set(key, value, read):
    assert str(read(loads(TEXT, overrides={key: value}))) in (value, f"{value}.0", value.replace("[", "(").replace("]", ")"))


def test_what_the_file_lacks_is_made():
    """A stage that is `{}` in the file can be slowed down; an absent block comes with its keys."""
    contract = loads(TEXT, overrides={
        "stages.fuse.every": "2", "inputs.scene.align.strategy": "asof", "policy.allow_stale": "true"})
    assert {r.stage: r.every for r in contract.refresh}["fuse"] == 2
    assert contract.inputs[0].align.strategy == "asof" and contract.policy.allow_stale


def test_a_null_block_can_be_filled():
    assert loads(TEXT.replace("fuse: {} ", "fuse: "), overrides={"stages.fuse.every": "2"}).refresh[1].every == 2


def test_candidates_are_asked_for_by_their_number_and_taken_back_by_null():
    """So that a sweep can set one chunk against several without a second file."""
    forked = loads(TEXT, overrides={"decision.fork.candidates": "4"})
    assert forked.fork == Fork(4, "closest_to_previous") and forked != loads(TEXT)
    written = TEXT.replace("  deadline_ms: 80 ", "  fork: {candidates: 4}\n  deadline_ms: 80 ")
    assert loads(written) == forked and loads(written, overrides={"decision.fork": "null"}) == loads(TEXT)


@pytest.mark.parametrize(("overrides", "key", "line", "words"), [
    ({"stages.vision.evry": "2"}, "stages.vision.evry", "    every: 2", "did you mean 'every'?"),
    ({"stages.vision.every": "0"}, "stages.vision.every", "    every: 2", "a whole number from 1"),
    ({"stages.vision.every": "fast"}, "stages.vision.every", "    every: 2", "a whole number from 1"),
    ({"stages.vison.every": "2"}, "stages.vison", "  vision:", "did you mean 'vision'?"),
    ({"stagse.vision.every": "2"}, "stagse", "contract: 1", "did you mean 'stages'?"),
    ({"stages.vision.every": "8"}, "stages.vision.max_age_ms", "    max_age_ms: 600", "the worst-case age is 950 ms"),
    ({"decision.rate_hz.x": "2"}, "decision.rate_hz.x", "  rate_hz: 10", "set the value itself"),
    ({"outputs[2].step_ms": "2"}, "outputs[2].step_ms", "  - name: arm", "counted from 0"),
    ({"outputs.name": "x"}, "outputs.name", "  - name: arm", "set the value itself"),
])
def test_what_the_file_would_not_take_is_refused_in_its_words(overrides, key, line, words):
    """The error is the loader's or verify's own; it points at the line in the file and shows what was set."""
    error = refused(overrides)
    assert error.key == key and words in str(error) and error.line == line_of(TEXT, line)
    assert all(f"{k}={v}" in error.source for k, v in overrides.items()) and error.source.startswith("arm.yaml [")


@pytest.mark.parametrize("key", ["", ".", "stages.", "stages..vision", "stages vision", "[0]", "stages.vision[x]"])
def test_a_key_that_is_no_path_is_refused(key):
    assert "names joined by dots" in refused({key: "1"}).allowed


@pytest.mark.parametrize("value", ["[1", "{a: 1", "'", "a: b", "*x", "1\nother: 2", "\0", "!!python/name:os.system x"])
def test_a_value_that_is_no_yaml_is_refused(value):
    error = refused({"stages.vision.every": value})
    assert error.key == "stages.vision.every" and "every" in str(error)


@given(st.dictionaries(
    st.text("stagesvion.[]0 ", max_size=12) | st.sampled_from(["stages", "stages.vision", "outputs[0]", "limits"]),
    st.text("{}[]:,'\"& *!0ab\n\t", max_size=8), max_size=3))
def test_nonsense_ends_in_the_contracts_error_or_a_contract(overrides):
    """Whatever is typed on a command line, the answer is one line and no traceback."""
    try:
        loads(TEXT, overrides=overrides)
    except ContractError as error:
        assert len(str(error).splitlines()) == 1
