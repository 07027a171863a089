"""Which observations a stage sees at once decides whether running it more often gains anything."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from contract_specs import SERVO, pipelines, servo_contract
from contract_walk import Walk
from flashrt_ros.contract.fresh import fresh_inputs
from flashrt_ros.contract.schema import Refresh
from flashrt_ros.contract.verify import verify


@pytest.mark.parametrize(("vision", "fuse", "expected"), [
    (Refresh("vision", every=2, max_age_ms=600), Refresh("fuse"), ("joints",)),
    (Refresh("vision", every=1, max_age_ms=600, commit_after=1), Refresh("fuse"), ("joints",)),
    (Refresh("vision"), Refresh("fuse"), ("scene", "wrist", "joints")),
    (Refresh("vision", on_change=("scene", "wrist")), Refresh("fuse", every=1), ("scene", "wrist", "joints")),
    (Refresh("vision", on_change=("scene",), max_age_ms=600), Refresh("fuse"), ("scene", "joints")),
    (Refresh("vision"), Refresh("fuse", every=3, max_age_ms=600), ("joints",)),
])
def test_action_of_the_demo_sees_what_no_slower_stage_holds_back(vision, fuse, expected):
    """The joints always; a camera only where every stage on its way takes up each new frame at once."""
    pipeline = verify(replace(servo_contract(), refresh=(vision, fuse, Refresh("action"))), SERVO)
    assert fresh_inputs(pipeline)["action"] == expected


def test_a_stage_behind_a_slower_one_sees_nothing_fresh():
    """fuse follows vision, but between two visions it can only see the same tokens."""
    fresh = fresh_inputs(verify(servo_contract(), SERVO))
    assert dict(fresh) == {"vision": ("scene", "wrist"), "fuse": (), "action": ("joints",)}


def chunks(pipeline, changed: tuple[str, int] | None = None) -> list[object]:
    """The chunks of twelve decisions, every input new at each. changed: an input and when it has another value."""
    walk, out = Walk(pipeline), []
    for decision in range(12):
        walk.step(decision, 0, {b.name: ((decision, changed == (b.name, decision)), None if b.timeless else 0)
                                for b in pipeline.spec.buffers if b.kind == "input"})
        out.append(walk.values[pipeline.spec.chunk])
    return out


@settings(max_examples=40)
@given(pipelines())
def test_fresh_inputs_are_those_that_always_move_the_chunk(pipeline):
    """An input is fresh at the action if and only if another value of it gives another chunk at that same decision,
    whichever decision it is."""
    fresh, plain = fresh_inputs(pipeline)[pipeline.spec.action], chunks(pipeline)
    for name in pipeline.input:
        if not pipeline.buffers[name].timeless:
            moves = [chunks(pipeline, (name, d))[d] != plain[d] for d in range(12)]
            assert all(moves) == (name in fresh)
