"""An age as an input of the action: what it says, when, and that it reaches nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from dag_policy import (
    SIZE, DagPolicy, FailingPolicy, OldestPolicy, content, observation, observations, pipelines, schedules, vla,
)  # fmt: skip
from dag_reference import same_bits
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.engine.buffers import InputError
from flashrt_ros.engine.decision import EngineError
from flashrt_ros.engine.engine import Engine
from flashrt_ros.engine.observation import InputValue

AGES = (("cache_age", "cache"), ("joints_age", "joints"))


class Told:
    """A policy's mixin that keeps what the action was told at its last run: age buffer -> s."""

    def run(self, stage, reads, writes):
        if stage == self.spec.action:
            self.told = {name: reads[name].clone() for name, _ in self.spec.ages}
        super().run(stage, reads, writes)


class ToldDag(Told, DagPolicy):
    pass


class ToldOldest(Told, OldestPolicy):
    pass


@given(st.data())
def test_the_action_is_told_now_minus_the_stamp_of_what_it_reads(data):
    """A policy that was trained on ages trusts them. The data itself holds its stamp here, so the age is checked without
    the engine's own books: through overlap, late commits, skipped decisions and over-age runs."""
    pipeline = data.draw(pipelines(age_inputs=True))
    engine = Engine(pipeline, ToldOldest(pipeline.spec))
    overlapped = [s.name for s in pipeline.stages if s.commit_after is not None]

    def own_stamp(name: str, ident: int, stamp_ns: int) -> np.ndarray:
        timeless = pipeline.buffers[name].timeless
        return np.full(SIZE, np.inf if timeless else stamp_ns / 1e6, np.float32)  # whole ms: exact in float32

    for step, seen in observations(pipeline, data.draw(schedules(pipeline)), own_stamp):
        if step.reset:
            engine.reset()
        engine.decide(seen, withheld=overlapped if step.hold else ())
        for name, source in pipeline.spec.ages:
            stamp_ms = engine.buffers.tensors[source][0].item()
            assert engine.policy.told[name].item() == np.float32((seen.now_ns / 1e6 - stamp_ms) / 1e3)


@given(st.data())
def test_what_takes_no_age_is_the_same_on_any_schedule(data):
    """The licence for selective refresh goes on for all but the action, which alone may read an age."""
    pipeline = data.draw(pipelines(state=False, age_inputs=True))
    engine, fresh = (Engine(pipeline, DagPolicy(pipeline.spec)) for _ in range(2))
    derived = [b.name for b in pipeline.spec.buffers if b.kind == "derived"]
    for step, seen in observations(pipeline, data.draw(schedules(pipeline)), lambda name, *_: content(name, 0)):
        fresh.reset()
        engine.decide(seen), fresh.decide(seen)
        assert all(same_bits(engine.buffers.tensors[b], fresh.buffers.tensors[b]) for b in derived)


def test_the_age_falls_at_the_commit_and_rises_between():
    """Vision is launched at 2, 4, 6 and lands one decision later, with the picture of its launch."""
    pipeline = vla(every=2, commit_after=1, ages=AGES)
    engine, told = Engine(pipeline, ToldDag(pipeline.spec)), []
    for k in range(8):
        seen = observation(pipeline, k)
        seen.inputs["joints"] = InputValue(content("joints", k), k, max(seen.now_ns - 30_000_000, 0))
        engine.decide(seen)
        told.append([engine.policy.told[name].item() for name, _ in AGES])
    assert [cache for cache, _ in told] == pytest.approx([0.0, 0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.1])
    assert [joints for _, joints in told] == pytest.approx([0.0] + 7 * [0.03])


def test_a_stamp_ahead_of_now_is_a_negative_age():
    """Two clocks may differ a little; the policy is told what is so, not what should be."""
    pipeline = vla(ages=AGES)
    engine, seen = Engine(pipeline, ToldDag(pipeline.spec)), observation(pipeline, 0)
    seen.inputs["joints"] = InputValue(content("joints", 0), 1, 5_000_000)
    engine.decide(seen)
    assert engine.policy.told["joints_age"].item() == np.float32(-0.005)


def test_only_the_age_changes_when_nothing_new_comes():
    """The chunk follows the age though no message came, and no other stage runs for it."""
    pipeline = vla(every=9, commit_after=None, ages=AGES)
    engine, decisions = Engine(pipeline, DagPolicy(pipeline.spec)), []
    for k in range(3):
        decisions.append(engine.decide(observation(pipeline, k, {"scene": 1, "joints": 1, "task": 1})))
        engine.buffers.tensors["memory"].zero_()  # leaves the age as the only difference
    assert [[r.stage for r in d.runs] for d in decisions[1:]] == [["action"], ["action"]]
    assert len({d.chunk.tobytes() for d in decisions}) == 3


def test_an_observation_holds_no_age():
    """Whoever gives one believes in it; the engine knows better, so it says so instead of overwriting it."""
    pipeline = vla(ages=AGES)
    engine, seen = Engine(pipeline, DagPolicy(pipeline.spec)), observation(pipeline, 0)
    assert engine.buffers.inputs == tuple(seen.inputs) == ("scene", "joints", "task")
    seen.inputs["cache_age"] = InputValue(np.zeros(1, np.float32), 1, None)
    with pytest.raises(InputError, match="input 'cache_age' is an age, which the engine fills itself; take it out"):
        engine.decide(seen)
    del seen.inputs["cache_age"]
    assert engine.decide(seen).chunk is not None


def test_warm_up_is_told_zero_and_leaves_no_trace():
    """There is no decision yet that anything could be old at."""
    pipeline = vla(ages=AGES)
    warm, cold = (Engine(pipeline, ToldDag(pipeline.spec)) for _ in range(2))
    warm.warm_up()
    assert all(not age.any() for age in warm.policy.told.values())
    assert warm.buffers.versions == cold.buffers.versions
    for k in range(4):
        assert same_bits(warm.decide(observation(pipeline, k)).chunk, cold.decide(observation(pipeline, k)).chunk)


def test_an_age_without_a_stamp_is_an_error_and_never_a_number():
    """verify refuses such a pipeline; where it was not asked, no invented age may move an arm."""
    pipeline = vla(ages=(("task_age", "task"),))
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    for k in range(2):
        with pytest.raises(EngineError, match="the age 'task_age' has no value: .* its source 'task'") as caught:
            engine.decide(observation(pipeline, k))
        assert caught.value.stage == "action" and engine.counters.errors == k + 1


def test_after_a_stage_error_the_age_is_that_of_the_next_decision():
    """The action that failed had been told an age; the one that runs after it is told its own."""
    pipeline = vla(every=1, commit_after=None, ages=AGES)
    engine, sound = (Engine(pipeline, FailingPolicy(pipeline.spec)) for _ in range(2))
    seen = [observation(pipeline, k, {"scene": 1}) for k in range(4)]  # one picture, which gets older
    for k in range(2):
        engine.decide(seen[k]), sound.decide(seen[k])
    engine.policy.broken = "action"
    with pytest.raises(EngineError, match="stage 'action' failed at decision 2"):
        engine.decide(seen[2])
    engine.policy.broken = None
    assert same_bits(engine.decide(seen[3]).chunk, sound.decide(seen[3]).chunk)
    assert engine.buffers.tensors["cache_age"].item() == np.float32(0.3)
