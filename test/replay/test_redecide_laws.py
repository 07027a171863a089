"""Deciding again on recorded data: the same twice, by the recorder's clock alone, and as a live node would on the same messages."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from recorded import MS, joint_state, recording

from flashrt_ros.capsule.maker import Made
from flashrt_ros.chunk.chunk import Chunk
from flashrt_ros.contract.load import load
from flashrt_ros.replay.metrics import Metrics, Truth
from flashrt_ros.replay.redecide import Message, Redecider
from flashrt_ros.resources import DEFAULT_CONTRACT, find


@pytest.fixture(scope="module")
def redecider():
    made = Redecider(load(find(DEFAULT_CONTRACT)))
    yield made
    made.close()


def told(steps):
    """All that must repeat of the steps."""
    return [(s.index, s.now_ns, s.epoch, s.task, s.why,
             s.outcome.chunk.positions.tobytes() if isinstance(s.outcome, Made) else s.outcome and s.outcome.detail) for s in steps]


def test_twice_is_the_same_to_the_byte(redecider):
    """A figure that changes from run to run is no figure."""
    messages = recording(1.5)
    first, second = (list(redecider.run(messages)) for _ in range(2))
    assert told(first) == told(second)
    assert sum(isinstance(step.outcome, Made) for step in first) >= 10


def test_what_has_nothing_to_do_with_the_contract_makes_no_difference(redecider):
    """Bags hold more than a policy looks at. A foreign message must not even move the grid."""
    messages = recording(1.0)
    foreign = [Message("diagnostics", m.receive_ns, None, SimpleNamespace()) for m in messages[::7]]
    mixed = sorted(messages + foreign, key=lambda m: m.receive_ns)
    assert told(redecider.run(messages)) == told(redecider.run(mixed))


def test_a_message_counts_from_its_receipt_on(redecider):
    """The policy must not see what had not arrived yet: a message received just after a moment of the grid belongs to the next one."""
    messages = recording(0.8)
    start_ns = messages[0].receive_ns
    at_ns = start_ns + 5 * redecider.pipeline.period_ns
    far = joint_state([0.9] * 6 + [0.04])
    before, after = (sorted([*messages, Message("joint_states", at_ns + late, at_ns, far)], key=lambda m: m.receive_ns) for late in (0, 1))
    plain, seen, unseen = (told(redecider.run(m)) for m in (messages, before, after))
    assert unseen[:6] == plain[:6] and seen[:5] == plain[:5]
    assert seen[5] != plain[5]


def test_another_instruction_is_another_epoch_and_none_is_no_decision(redecider):
    """As live. A chunk for the old task must not be taken for one of the new."""
    messages = recording(1.2)
    start_ns = messages[0].receive_ns
    for at_ms, text in ((400, "pick up the blue cube"), (700, "make coffee"), (900, "pick up the green cube")):
        messages.append(Message("task", start_ns + at_ms * MS, None, SimpleNamespace(data=text)))
    steps = list(redecider.run(sorted(messages, key=lambda m: m.receive_ns)))
    tasks = [step.task for step in steps]
    assert tasks[2:4] == ["pick up the red cube"] * 2 and "pick up the blue cube" in tasks and tasks[-1] == "pick up the green cube"
    silent = [step for step in steps if step.outcome is None]
    assert silent and all("make coffee" in step.why for step in silent)
    assert [step.epoch for step in steps] == sorted(step.epoch for step in steps) and steps[-1].epoch > steps[2].epoch


@pytest.mark.parametrize("damage, cause", [
    (lambda m: replace(m, content=joint_state([np.nan] * 7)) if m.topic == "joint_states" else m, "joints decode"),
    (lambda m: replace(m, stamp_ns=m.stamp_ns - 10**9) if m.topic == "wrist_camera/image_raw" else m, "wrist stale"),
    (lambda m: m if m.topic != "scene_camera/image_raw" else replace(m, topic="other"), "scene missing"),
], ids=["NaN", "a clock that is behind", "a camera that is not there"])
def test_refusals_are_counted_by_cause(redecider, damage, cause):
    """The answer to 'why did it stand still' is a count, not a silence."""
    metrics = Metrics(redecider.pipeline.spec.joints, (None,) * 7, 20 * MS)
    for step in list(redecider.run(map(damage, recording(0.6))))[1:]:  # at the first moment nothing has come
        metrics.add(step)
    assert not metrics.chunks and metrics.refused[cause] == sum(metrics.refused.values()) > 0


def test_errors_are_against_what_was_done_at_the_chunks_own_moments():
    """A chunk that says exactly what the joints then did has no error at any step, wherever the chunks begin between two samples."""
    truth, step_ns = Truth(), 20 * MS

    def motion(t_ns):
        return np.stack([t_ns * 1e-9, 2 - 0.5 * t_ns * 1e-9], axis=-1)

    for at_ns in range(0, 4_000 * MS, 10 * MS):
        truth.add(at_ns, motion(np.int64(at_ns)))
    metrics = Metrics(("a", "b"), (0, 1), step_ns)
    for start_ns in (7 * MS, 333 * MS, 3_900 * MS):  # the last one's end lies after the recording
        metrics.chunks.append(Chunk(("a", "b"), motion(start_ns + np.arange(32) * step_ns), start_ns, step_ns))
    np.testing.assert_allclose(metrics.errors(truth), 0, atol=1e-6)
    assert metrics.jumps() == pytest.approx([0])  # the last one begins past the end of the one before
    metrics.chunks = [replace(chunk, positions=chunk.positions + [0.1, 0]) for chunk in metrics.chunks]
    figures = metrics.figures(truth)
    assert figures["error"]["a"]["0.2"] == pytest.approx(0.1, abs=1e-6) and figures["error"]["b"]["0.2"] == pytest.approx(0, abs=1e-6)
    json.dumps(figures, allow_nan=False)
