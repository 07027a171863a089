"""A capsule away from its engine goes back whole or not at all: two phases, and a reason for every refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from capsule_cases import HERE, TASK, all_of, bits, decided, each, record_of, sealed
from dag_policy import DagPolicy, observation, pipelines, vla
from hypothesis import given
from hypothesis import strategies as st
from test_boundary_laws import dirty, scheduled, told

from flashrt_ros.capsule.checks import BUFFER, CONTENT, CONTRACT, ENGINE, TASK as OTHER_TASK, WEIGHTS, CapsuleRefused
from flashrt_ros.capsule.stored import Stored, content_digest, restore, seal
from flashrt_ros.engine.engine import Engine


def with_tensors(stored: Stored, **changed) -> Stored:
    """The capsule with other tensors (None: without it), sealed as if they had always been so."""
    tensors = {name: tensor for name, tensor in {**stored.tensors, **changed}.items() if tensor is not None}
    return Stored(stored.record, tensors, {name: content_digest(tensor) for name, tensor in tensors.items()})


def flipped(stored: Stored, name: str) -> Stored:
    """One bit of a tensor is another than when the capsule was sealed."""
    tensor = stored.tensors[name].clone()
    tensor.view(-1).view(torch.uint8)[-1] ^= 1
    return Stored(stored.record, {**stored.tensors, name: tensor}, stored.contents)


def foreign(stored: Stored, **other: str) -> Stored:
    return replace(stored, record=replace(stored.record, digests=replace(HERE, **other)))


REFUSED = {
    "another contract": (lambda s: foreign(s, contract="0" * 64), {}, CONTRACT, "belongs to the contract 000000000000"),
    "other weights": (lambda s: foreign(s, contract="0" * 64, weights="1" * 64), {}, WEIGHTS, "weights 111111111111"),
    "another engine": (lambda s: foreign(s, engine="2" * 64), {}, ENGINE, "engine 222222222222"),
    "another task": (lambda s: s, {"task": "place it"}, OTHER_TASK, "the task now is 'place it'"),
    "a missing buffer": (lambda s: with_tensors(s, cache=None), {}, BUFFER, "lacks the buffer 'cache'"),
    "an extra buffer": (lambda s: with_tensors(s, more=torch.zeros(4)), {}, BUFFER, "holds the buffer 'more'"),
    "another shape": (lambda s: with_tensors(s, cache=torch.zeros(2, 2)), {}, BUFFER, r"'cache' is float32 \[2, 2\]"),
    "another dtype": (lambda s: with_tensors(s, cache=torch.zeros(4, dtype=torch.int32)), {}, BUFFER, "'cache' is int32"),
    "a flipped bit": (lambda s: flipped(s, "memory"), {}, CONTENT, "content of buffer 'memory'"),
    "a flipped bit in a launch's frozen read": (lambda s: flipped(s, "vision < scene"), {}, CONTENT, "'vision < scene'"),
    "the same bytes under another dtype": (
        lambda s: replace(s, tensors={**s.tensors, "cache": s.tensors["cache"].view(torch.int32)}), {}, BUFFER, "int32"),
}


# A live restore promises no bits, and so takes a capsule of any engine; an exact one sets the task with all the rest.
@pytest.mark.parametrize(("kind", "live"), [(kind, live) for kind in REFUSED for live in (False, True)
                                            if (kind, live) not in (("another engine", True), ("another task", False))])
def test_a_refusal_says_why_and_changes_nothing(kind, live):
    """Not one byte, version, stamp or entry of the ledger: a robot goes on with the belief that it had."""
    spoil, options, reason, words = REFUSED[kind]
    engine = decided()
    stored = spoil(sealed(engine))
    for k in range(4, 7):
        engine.decide(observation(engine.pipeline, k))
    before = all_of(engine)
    with pytest.raises(CapsuleRefused, match=words) as refused:
        restore(stored, engine, HERE, **{"live": live, "task": TASK, **options})
    assert refused.value.reason == reason
    assert all_of(engine) == before


def test_what_is_refused_for_bits_is_taken_live_and_on_demand():
    """An engine of other versions can believe the same; and a replay elsewhere wants to see by how much it differs."""
    engine = decided()
    stored = foreign(sealed(engine), engine="2" * 64)
    restore(stored, engine, HERE, live=True, task=TASK)
    restore(stored, engine, HERE, live=False, other_engine=True)


def test_a_capsule_does_not_change_with_its_source():
    """It is sealed once: the memory that it was sealed from is a slot that the next boundary takes."""
    engine = decided()
    memory = engine.memory(host=True)
    stored = seal(record_of(engine.save(memory)), engine.slab.views(memory))
    before = each(stored.tensors)
    for k in range(4, 9):
        engine.decide(observation(engine.pipeline, k))
    engine.save(memory)
    assert each(stored.tensors) == before
    stored.verify()


def test_the_root_covers_record_and_content():
    """Two capsules of one root are the same capsule."""
    engine = decided()
    stored = sealed(engine)
    engine.decide(observation(engine.pipeline, 4))
    others = sealed(engine), foreign(stored, engine="2" * 64), with_tensors(stored, cache=torch.ones(4))
    assert len({stored.root, *(other.root for other in others)}) == 4 and sealed(decided()).root == stored.root


@given(st.data())
def test_an_exact_restore_continues_bit_for_bit_in_another_engine(data):
    """For any pipeline and schedule, runs in flight included: tensors by their names in ordinary memory are all that is
    needed."""
    pipeline = data.draw(pipelines())
    steps = scheduled(data, pipeline)
    cut = data.draw(st.integers(0, len(steps) - 1))
    first, second = (Engine(pipeline, DagPolicy(pipeline.spec)) for _ in range(2))
    for _, seen in steps[: cut + 1]:
        first.decide(seen)
    stored = sealed(first)
    dirty(second)
    restore(stored, second, HERE, live=False)
    assert each(sealed(second).tensors) == each(stored.tensors)
    for _, seen in steps[cut + 1:]:
        assert told(first.decide(seen)) == told(second.decide(seen))


def test_a_live_restore_takes_the_belief_and_leaves_the_inputs():
    """What has come from outside since stands, in whatever tier the capsule lay."""
    pipeline = vla(every=1, commit_after=None)
    engine = decided(pipeline)
    stored = sealed(engine)
    engine.decide(observation(pipeline, 4))
    inputs = {name: bits(engine.buffers.tensors[name]) for name in engine.slab.inputs}
    restore(stored, engine, HERE, live=True, task=TASK)
    assert inputs and inputs == {name: bits(engine.buffers.tensors[name]) for name in inputs}
    assert all(bits(engine.buffers.tensors[name]) == bits(stored.tensors[name]) for name in engine.slab.buffers)
