"""Overlap: background runs commit at exactly their decision, late ones are counted, and nothing else can tell."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from dag_policy import (
    PERIOD_NS, DagPolicy, FailingPolicy, GatedPolicy, content, observation, observations, pipelines, schedules, vla,
)  # fmt: skip
from dag_reference import same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

from flashrt_ros.contract.refresh import Ledger
from flashrt_ros.engine.buffers import Arena, Buffers
from flashrt_ros.engine.decision import EngineError
from flashrt_ros.engine.engine import Engine
from flashrt_ros.engine.executor import CpuExecutor
from flashrt_ros.engine.overlap import Overlap
from flashrt_ros.engine.slab import Slab


@pytest.fixture
def threaded():
    """A threaded engine over a gated policy; the gate opens at the end, whatever the test did."""
    engines = []

    def make(pipeline, policy=GatedPolicy, **kwargs):
        engines.append(Engine(pipeline, policy(pipeline.spec), background="thread", **kwargs))
        return engines[-1]

    yield make
    for engine in engines:
        engine.policy.gate.set()
        engine.drain()
        engine.close()


def finish(engine):
    """Let what is in flight end, and hold what is launched next."""
    engine.policy.gate.set()
    engine.drain()
    engine.policy.gate.clear()


def run_both(data, holding: bool):
    """(threaded, serial) decisions of the same schedule; the serial engine is told what the threaded one missed."""
    pipeline = data.draw(pipelines(ages=False, age_inputs=data.draw(st.booleans())))
    steps = data.draw(schedules(pipeline, resets=False))
    threaded = Engine(pipeline, GatedPolicy(pipeline.spec), background="thread")
    serial = Engine(pipeline, DagPolicy(pipeline.spec))
    try:
        for step, seen in observations(pipeline, steps, lambda name, ident, _: content(name, ident)):
            if not (holding and step.hold):
                finish(threaded)
            decision = threaded.decide(seen)
            yield threaded, decision, serial, serial.decide(seen, withheld=decision.late)
    finally:
        threaded.policy.gate.set()
        threaded.drain()
        threaded.close()


@settings(max_examples=40)
@given(st.data())
def test_overlapped_equals_serial_execution_of_the_same_commit_schedule(data):
    """Why replay may run without threads: with no misses, running beside the action changes no bit of any buffer."""
    for threaded, ours, serial, theirs in run_both(data, holding=False):
        assert not ours.late and not any(threaded.misses.values())
        assert same_bits(ours.chunk, theirs.chunk)
        assert ours.stages == theirs.stages
        assert all(same_bits(t, serial.buffers.tensors[b]) for b, t in threaded.buffers.tensors.items())


@settings(max_examples=40)
@given(st.data())
def test_the_record_of_misses_suffices_to_make_the_decisions_again(data):
    """A black box must reproduce a robot that was slow, on a machine that isn't."""
    for threaded, ours, serial, theirs in run_both(data, holding=True):
        assert same_bits(ours.chunk, theirs.chunk)
        assert ours.stages == theirs.stages and ours.late == theirs.late
        assert threaded.misses == serial.misses
        assert [(c.stage, c.launched) for c in ours.commits] == [(c.stage, c.launched) for c in theirs.commits]
        assert [(r.stage, r.reason, r.background) for r in ours.runs] == [
            (r.stage, r.reason, r.background) for r in theirs.runs
        ]


@pytest.mark.parametrize("commit_after", [1, 2, 3])
def test_a_run_commits_at_exactly_its_decision_however_early_it_is_done(commit_after):
    """A schedule that depended on speed would make two machines decide differently."""
    pipeline = vla(every=4, commit_after=commit_after)
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    commits = {k: engine.decide(observation(pipeline, k)).commits for k in range(12)}
    assert {k: c[0].launched for k, c in commits.items() if c} == {
        launched + commit_after: launched for launched in (4, 8) if launched + commit_after < 12
    }


def test_a_commit_carries_the_stamp_of_the_observation_frozen_at_its_launch():
    """The tokens are as old as the picture they were made from, not as the moment they became visible."""
    pipeline = vla(every=2, commit_after=1)
    engine = Engine(pipeline, DagPolicy(pipeline.spec))
    states = {k: engine.decide(observation(pipeline, k)).stages[0] for k in range(4)}
    assert [states[k].stamp_ns for k in range(4)] == [0, 0, 0, 2 * PERIOD_NS]
    assert states[3].age_ns == PERIOD_NS and states[3].version == 2


def test_an_unfinished_run_is_one_miss_and_commits_at_the_first_boundary_where_it_is_done(threaded):
    """A slow stage costs freshness, never a wait, and is counted once however late it is."""
    pipeline = vla(every=2, commit_after=1)
    engine = threaded(pipeline)
    late = [engine.decide(observation(pipeline, k)).late for k in range(6)]
    assert late == [(), (), (), ("vision",), ("vision",), ("vision",)]
    assert engine.misses == {"vision": 1}
    finish(engine)
    decision = engine.decide(observation(pipeline, 6))
    assert [(c.stage, c.launched) for c in decision.commits] == [("vision", 2)]
    assert ("vision", "every", True) in [(r.stage, r.reason, r.background) for r in decision.runs]
    engine.decide(observation(pipeline, 7))
    assert engine.misses == {"vision": 2} and engine.decide(observation(pipeline, 8)).stages[0].misses == 2


def test_over_age_the_foreground_run_supersedes_the_one_in_flight(threaded):
    """The late result is older than what replaced it: it must never overwrite it."""
    pipeline = vla(every=2, commit_after=1, max_age_ms=250)
    engine = threaded(pipeline)
    reasons = [
        [(r.reason, r.background) for r in engine.decide(observation(pipeline, k)).runs if r.stage == "vision"]
        for k in range(4)
    ]
    assert reasons == [[("never", False)], [], [("every", True)], [("age", False)]]
    assert engine.counters.superseded == 1
    tokens = engine.buffers.tensors["tokens"].clone()
    finish(engine)
    decision = engine.decide(observation(pipeline, 4))
    assert decision.commits == () and same_bits(engine.buffers.tensors["tokens"], tokens)


def test_over_age_a_stage_that_does_not_fit_the_deadline_stays_in_the_background(threaded):
    """A chunk after the deadline is no use: the decision is given up, and the stage still comes back by itself."""
    pipeline = vla(every=2, commit_after=1, max_age_ms=250, deadline_ms=80)
    engine = threaded(pipeline, stage_ms={"vision": 75.0, "prefix": 5.0, "action": 2.0})
    decisions = [engine.decide(observation(pipeline, k)) for k in range(4)]
    assert decisions[2].chunk is not None and decisions[2].warnings == ()
    assert decisions[3].chunk is None and "'vision' is 300.0 ms old; its max_age_ms is 250" in decisions[3].refused
    assert "82.0 ms of a deadline of 80 ms" in decisions[3].warnings[0]
    assert engine.counters.superseded == 0 and engine.counters.refused == 1
    finish(engine)
    decision = engine.decide(observation(pipeline, 4))
    assert [c.launched for c in decision.commits] == [2] and decision.chunk is not None


def test_over_age_with_nothing_in_flight_a_stage_that_does_not_fit_is_launched(threaded):
    """Otherwise a stage that is over age and too slow for the deadline would never run again."""
    pipeline = vla(every=9, commit_after=1, max_age_ms=250)
    engine = threaded(pipeline, stage_ms={"vision": 95.0, "prefix": 5.0, "action": 2.0})
    runs = {k: engine.decide(observation(pipeline, k)).runs for k in range(4)}
    assert [(r.reason, r.background) for r in runs[3] if r.stage == "vision"] == [("age", True)]
    finish(engine)
    assert engine.decide(observation(pipeline, 4)).chunk is not None


def test_a_shadow_is_not_written_while_a_superseded_run_still_reads_it():
    """The worker would read half of one observation and half of another."""
    events = []

    class Recording(CpuExecutor):
        def launch(self, call):
            events.append("launch")
            run = super().launch(call)
            wait = run.wait
            run.wait = lambda: (events.append("wait"), wait())
            return run

    pipeline, arena, ledger = vla(), Arena(torch.device("cpu")), Ledger()
    slab = Slab(pipeline, arena)
    buffers = Buffers(pipeline.spec.buffers, arena, placed=slab.tensors)
    executor = Recording(DagPolicy(pipeline.spec), threads=1, background="thread")
    overlap = Overlap(pipeline, buffers, slab, ledger, executor, arena)
    vision = pipeline.stage["vision"]
    overlap.launch(vision, 1)
    ledger.ran(vision, 2, buffers.versions)
    overlap.launch(vision, 3)
    executor.close()
    assert events == ["launch", "wait", "launch"]


@pytest.mark.parametrize("background", ["synchronous", "thread"])
def test_a_failure_in_the_background_surfaces_at_its_commit_and_the_stage_is_due_again(background):
    """It is reported at the boundary that needed it, in both modes alike, so that replay meets it at the same place."""
    pipeline = vla(every=2, commit_after=1)
    engine = Engine(pipeline, FailingPolicy(pipeline.spec), background=background)
    for k in range(2):
        engine.decide(observation(pipeline, k))
    tokens = engine.buffers.tensors["tokens"].clone()
    engine.policy.broken = "vision"
    engine.decide(observation(pipeline, 2))
    engine.drain()
    with pytest.raises(EngineError, match="'vision', launched in the background at decision 2, failed:") as caught:
        engine.decide(observation(pipeline, 3))
    assert caught.value.stage == "vision" and same_bits(engine.buffers.tensors["tokens"], tokens)
    engine.policy.broken = None
    decision = engine.decide(observation(pipeline, 4))
    assert ("vision", "never", False) in [(r.stage, r.reason, r.background) for r in decision.runs]
    assert np.isfinite(decision.chunk).all()
    engine.close()


def test_background_stages_record_no_gradients():
    """The mode is per thread in torch; a policy's parameters would otherwise chain every decision into one graph."""
    modes = []

    class Asking(DagPolicy):
        def run(self, stage, reads, writes):
            modes.append((threading.current_thread().name, torch.is_inference_mode_enabled()))
            super().run(stage, reads, writes)

    pipeline = vla(every=1, commit_after=1)
    engine = Engine(pipeline, Asking(pipeline.spec), background="thread")
    for k in range(3):
        engine.decide(observation(pipeline, k))
        engine.drain()
    engine.close()
    assert ("flashrt-background", True) in modes and all(inference for _, inference in modes)


def test_reset_discards_what_is_in_flight(threaded):
    """After a reset nothing of the old belief may arrive late."""
    pipeline = vla(every=2, commit_after=1)
    engine = threaded(pipeline)
    for k in range(3):
        engine.decide(observation(pipeline, k))
    engine.reset()
    finish(engine)
    decision = engine.decide(observation(pipeline, 3))
    assert decision.commits == () and [r.reason for r in decision.runs] == ["never"] * 3
    fresh = Engine(pipeline, DagPolicy(pipeline.spec))
    assert same_bits(decision.chunk, fresh.decide(observation(pipeline, 3)).chunk)
