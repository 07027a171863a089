"""Input values into buffers: what is accepted, what is written when, and what each refusal says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from dag_reference import same_bits

from flashrt_ros.contract.spec import DTYPE_BYTES, BufferSpec
from flashrt_ros.engine.buffers import NUMPY_DTYPE, Arena, Buffers, InputError
from flashrt_ros.engine.observation import InputValue


def make(*specs: BufferSpec) -> Buffers:
    return Buffers(specs, Arena(torch.device("cpu")))


SCENE = BufferSpec("scene", (2, 3), "uint8", "input")
TASK = BufferSpec("task", (4,), "int64", "input", timeless=True)


def good() -> dict[str, InputValue]:
    return {"scene": InputValue(np.ones((2, 3), np.uint8), 1, 5), "task": InputValue(np.arange(4), 1, None)}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("scene", None, "input 'scene' is missing; every observation holds scene, task"),
        ("depth", good()["scene"], "'depth' is not an input of this pipeline; its inputs are scene, task"),
        ("scene", InputValue([[1, 2, 3]], 1, 5), r"input 'scene': found a list; expected a numpy array \(2, 3\)"),
        ("scene", InputValue(np.ones((3, 2), np.uint8), 1, 5), r"'scene': found shape \(3, 2\); expected \(2, 3\)"),
        ("scene", InputValue(np.ones((2, 3)), 1, 5), "input 'scene': found dtype float64; expected uint8"),
        ("scene", InputValue(np.ones((2, 3), np.uint8), 1, None), "'scene': found stamp_ns None; expected an integer"),
        ("task", InputValue(np.arange(4), 1, 5), "'task': found stamp_ns 5; expected None, for it is timeless"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_what_was_found_and_expected(name, value, message):
    """numpy would broadcast or cast many of these silently into a wrong picture."""
    inputs = good()
    inputs[name] = value
    if value is None:
        del inputs[name]
    with pytest.raises(InputError, match=message):
        make(SCENE, TASK).check(inputs)


def test_what_fits_is_accepted_strided_and_read_only_arrays_too():
    """A flipped camera picture is a strided view, and a ROS message's data is read-only."""
    inputs = good()
    picture = np.arange(12, dtype=np.uint8).reshape(2, 6)[::-1, ::2]
    picture.setflags(write=False)
    inputs["scene"] = InputValue(picture, 1, 5)
    buffers = make(SCENE, TASK)
    buffers.check(inputs)
    buffers.write_inputs(inputs)
    assert same_bits(buffers.tensors["scene"], picture)


@pytest.mark.parametrize("dtype", DTYPE_BYTES)
def test_every_dtype_arrives_unchanged(dtype):
    """bfloat16, which numpy lacks, is given as float32 and rounded to nearest even, as torch rounds weights."""
    buffers = make(BufferSpec("x", (3,), dtype, "input"))
    value = np.array([0, 1, 1.00390625 if dtype == "bfloat16" else 1], NUMPY_DTYPE[dtype])
    inputs = {"x": InputValue(value, 1, 0)}
    buffers.check(inputs)
    buffers.write_inputs(inputs)
    assert buffers.tensors["x"].dtype == getattr(torch, dtype)
    assert buffers.tensors["x"].tolist() == [0, 1, 1]


def test_a_float64_array_for_a_bfloat16_buffer_says_what_to_give():
    buffers = make(BufferSpec("x", (3,), "bfloat16", "input"))
    with pytest.raises(InputError, match=r"found dtype float64; expected float32 \(bfloat16 is given as float32\)"):
        buffers.check({"x": InputValue(np.ones(3), 1, 0)})


def test_a_value_is_written_only_when_its_ident_differs_from_the_last():
    """The version says that a new message came; a camera that stalls must not make vision run again."""
    buffers = make(SCENE, TASK)
    inputs = good()
    for ident, version, stamp in [(1, 1, 5), (1, 1, 5), (2, 2, 9), (1, 3, 11)]:
        inputs["scene"] = InputValue(np.full((2, 3), ident, np.uint8), ident, stamp)
        buffers.write_inputs(inputs)
        assert buffers.versions == {"scene": version, "task": 1} and buffers.stamps["scene"] == stamp
        assert (buffers.tensors["scene"] == ident).all()


def test_the_caller_may_reuse_its_array():
    """A decoder that writes into one array for every message must not change a decision that has begun."""
    buffers, inputs = make(SCENE, TASK), good()
    buffers.write_inputs(inputs)
    inputs["scene"].value[:] = 7
    assert (buffers.tensors["scene"] == 1).all()
