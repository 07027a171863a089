"""The disk tier: what was put in comes out, to the bit, or nothing does."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch
from capsule_cases import HERE, bfloat16, bits, content_of, decided, evidence_of, sealed
from dag_policy import DagPolicy, observation, pipelines, vla
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from test_boundary_laws import dirty, scheduled, told

from flashrt_ros.capsule import file as capsule_file
from flashrt_ros.capsule.checks import CONTENT, FILE, CapsuleRefused
from flashrt_ros.capsule.file import HEADER, SUFFIX, load, save
from flashrt_ros.capsule.stored import restore, root_of
from flashrt_ros.engine.engine import Engine


@pytest.fixture(scope="module")
def case():
    """A capsule with a run in flight and a bfloat16 buffer, and the evidence of the decision after it."""
    engine = decided(bfloat16(vla(every=3, commit_after=2), "cache"))
    stored = sealed(engine)
    seen = observation(engine.pipeline, 4)
    return stored, evidence_of(engine, seen, engine.decide(seen))


@pytest.fixture
def path(tmp_path):
    return tmp_path / f"a{SUFFIX}"


@pytest.fixture(scope="module")
def written(case, tmp_path_factory):
    """(the bytes of a file, what it says)."""
    path = tmp_path_factory.mktemp("written") / f"a{SUFFIX}"
    save(path, *case)
    return path.read_bytes(), content_of(*load(path))


def headed(metadata: dict[str, str] | None = None) -> bytes:
    """Some other safetensors file."""
    return safetensors.torch.save({"a": torch.zeros(3)}, metadata)


def forge(path, change) -> None:
    """Change a file's header (change(plain) -> None) and give it a root that fits: not damage, but another version's file."""
    with safe_open(path, framework="pt") as file:
        plain = json.loads(file.metadata()[HEADER])
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    del plain["root"]
    change(plain)
    path.write_bytes(safetensors.torch.save(tensors, {HEADER: json.dumps({**plain, "root": root_of(plain)})}))


@given(st.data())
@settings(max_examples=40)
def test_what_goes_in_comes_out_and_continues_bit_for_bit(tmp_path_factory, data):
    """For any pipeline and schedule: record, ledger, runs in flight, tensors and evidence; and an engine that is put where the
    file says goes on as if nothing had been."""
    pipeline = data.draw(pipelines())
    steps = scheduled(data, pipeline)
    cut = data.draw(st.integers(0, len(steps) - 2))
    first, second = (Engine(pipeline, DagPolicy(pipeline.spec)) for _ in range(2))
    for _, seen in steps[: cut + 1]:
        first.decide(seen)
    stored, seen = sealed(first), steps[cut + 1][1]
    decisions = [first.decide(seen)]
    evidence = evidence_of(first, seen, decisions[0])
    path = tmp_path_factory.mktemp("round") / f"a{SUFFIX}"
    save(path, stored, evidence)
    read, found = load(path)
    assert content_of(read, found) == content_of(stored, evidence) and read.root == stored.root
    assert read.record.boundary == stored.record.boundary
    decisions += [first.decide(seen) for _, seen in steps[cut + 2:]]
    dirty(second)
    restore(read, second, HERE, live=False)
    for (_, seen), then in zip([(None, found.observation), *steps[cut + 2:]], decisions, strict=True):
        assert told(second.decide(seen)) == told(then)


def test_the_identity_survives_and_can_be_made_again(case, path):
    """An id that the reader cannot recompute would be a name and no identity."""
    stored, evidence = case
    save(path, stored, evidence)
    record = load(path)[0].record
    assert record.id == stored.record.id == replace(record).id


def test_any_safetensors_reader_shows_it(case, path):
    """Names, shapes and dtypes as in the pipeline, from the public library alone: no one needs this package to look into a
    black box."""
    stored, evidence = case
    save(path, stored, evidence)
    tensors = safetensors.torch.load_file(path)
    assert all(bits(tensors[name]) == bits(tensor) for name, tensor in stored.tensors.items())
    assert tensors["cache"].dtype == torch.bfloat16
    assert np.array_equal(tensors["last_chunk"].numpy(), stored.record.chunk.positions)
    assert np.array_equal(tensors["observation/scene"].numpy(), evidence.observation.inputs["scene"].value)
    assert {"candidates", "output/chunk", "output/cache", "vision < scene"} <= tensors.keys()
    with safe_open(path, framework="pt") as file:
        plain = json.loads(file.metadata()[HEADER])
    assert plain["record"]["id"] == stored.record.id and plain["evidence"]["guard"] == "nonfinite"


def test_a_capsule_alone_makes_a_file_too(case, path):
    """A snapshot that an operator asked for has no trip; and at the very first decision there is no chunk yet."""
    stored, _ = case
    save(path, stored)
    read, evidence = load(path)
    assert evidence is None and content_of(read, None) == content_of(stored, None)


@settings(max_examples=500)
@given(st.floats(0, 1, exclude_max=True), st.integers(1, 255))
@example(0.0, 1)
def test_a_flipped_bit_anywhere_is_noticed(written, tmp_path_factory, where, mask):
    """In a tensor, in the header or in the padding: the file is refused, or says what it said before."""
    whole, said = written
    damaged = bytearray(whole)
    damaged[int(where * len(whole))] ^= mask
    path = tmp_path_factory.getbasetemp() / f"flipped{SUFFIX}"
    path.write_bytes(damaged)
    try:
        found = content_of(*load(path))
    except CapsuleRefused:
        return
    assert found == said


@pytest.mark.parametrize(("kind", "other"), [
    ('"F32","shape":[1,2,2]', '"I32","shape":[1,2,2]'),
    ('"F64","shape":[2,2]', '"U64","shape":[2,2]'),
    ('"F64","shape":[2,2]', '"F64","shape":[4]  '),
])
def test_the_same_bytes_of_another_kind_are_another_content(written, path, kind, other):
    """The library's own header says what the bytes mean. A digest over bytes alone would pass candidates that are read as
    integers."""
    whole, _ = written
    assert kind.encode() in whole
    path.write_bytes(whole.replace(kind.encode(), other.encode()))
    with pytest.raises(CapsuleRefused) as refused:
        load(path)
    assert refused.value.reason == CONTENT


def test_a_file_that_is_cut_short_is_refused_at_every_length(written, path):
    """What a full disk or a lost connection leaves."""
    whole, _ = written
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(CapsuleRefused) as refused:
            load(path)
        assert refused.value.reason == FILE


def test_a_file_that_is_longer_than_it_says_is_refused(written, path):
    """What was appended was not written by us."""
    path.write_bytes(written[0] + b"\0")
    with pytest.raises(CapsuleRefused, match="not a capsule, or cut short"):
        load(path)


@pytest.mark.parametrize(("make", "words"), [
    (lambda path: None, "No such file"),
    (lambda path: path.mkdir(), "not a capsule"),
    (lambda path: path.write_text("contract: 1"), "not a capsule"),
    (lambda path: path.write_bytes(bytes(4096)), "not a capsule"),  # what some file systems leave of a file after a power cut
    (lambda path: path.write_bytes(headed()), "not a capsule"),
    (lambda path: path.write_bytes(headed({HEADER: "{"})), "not a capsule"),
    (lambda path: path.write_bytes(headed({HEADER: "[" * 100_000})), "not a capsule"),
    (lambda path: path.write_bytes(headed({HEADER: "[1]"})), "format"),
    (lambda path: path.write_bytes(headed({HEADER: '{"format": 1, "root": NaN}'})), "lacks something"),
])
def test_what_is_no_capsule_is_refused_with_its_path(path, make, words):
    """Someone will give the wrong file; the answer is a sentence, not a traceback."""
    make(path)
    with pytest.raises(CapsuleRefused, match=words) as refused:
        load(path)
    assert refused.value.reason == FILE and str(path) in str(refused.value)


@pytest.mark.parametrize(("change", "words"), [
    (lambda plain: plain.update(format=2), "format 2; this version reads 1"),
    (lambda plain: plain.pop("record"), "lacks something"),
    (lambda plain: plain["record"].pop("boundary"), "lacks something"),
    (lambda plain: plain["record"].update(boundary=3), "lacks something"),
    (lambda plain: plain["record"]["place"].update(row=3), "lacks something"),
    (lambda plain: plain.update(slab=["nowhere"]), "lacks something"),
    (lambda plain: plain["evidence"].pop("setup"), "lacks something"),
    (lambda plain: plain["evidence"].update(observation=[]), "lacks something"),
])
def test_another_versions_header_is_refused(case, path, change, words):
    """Undamaged, but not what this version writes."""
    save(path, *case)
    forge(path, change)
    with pytest.raises(CapsuleRefused, match=words):
        load(path)


def test_an_enormous_file_is_refused_before_it_is_read(case, path):
    """A wrong path must not fill the memory of a robot."""
    save(path, *case)
    with open(path, "ab") as file:
        file.truncate(capsule_file.LARGEST + 1)  # sparse: it takes no room on the disk
    with pytest.raises(CapsuleRefused, match="at most 4294967296"):
        load(path)


def test_what_changed_since_it_was_sealed_is_not_written(case, path):
    """A fault in memory must not get a digest that fits it."""
    stored, _ = case
    name = "memory"
    changed = stored.tensors[name].clone()
    changed[0] += 1
    with pytest.raises(CapsuleRefused, match="'memory'"):
        save(path, type(stored)(stored.record, {**stored.tensors, name: changed}, stored.contents))
    assert not list(path.parent.iterdir())


def test_a_file_is_readable_as_others_and_nothing_is_left_beside_it(case, path):
    """Who analyses a trip is seldom who ran the robot: the usual mode, not that of a temporary file."""
    save(path.parent / "folder" / path.name, *case)
    save(path.parent / "folder" / path.name, *case)  # again in its place
    mask = os.umask(0)
    os.umask(mask)
    found = list((path.parent / "folder").iterdir())
    assert [p.name for p in found] == [path.name] and stat.S_IMODE(found[0].stat().st_mode) == 0o666 & ~mask
