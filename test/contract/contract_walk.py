"""A pipeline walked boundary by boundary without an engine: stamps, versions and stand-in values, by refresh.due."""

from __future__ import annotations

from collections import deque
from itertools import product
from typing import Iterable, Iterator, Mapping, NamedTuple

from flashrt_ros.contract.age import watches
from flashrt_ros.contract.closure import Run
from flashrt_ros.contract.pipeline import Pipeline, Stage
from flashrt_ros.contract.refresh import Launch, Ledger, derived_stamp, due, own_state, watched


class Read(NamedTuple):
    stage: str
    buffer: str
    age_ns: int | None


class Walk:
    """Nothing is late and nothing fails. A value is the hash of what it was computed from."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.ledger = Ledger()
        self.versions = dict.fromkeys(pipeline.buffers, 0)
        self.stamps: dict[str, int | None] = dict.fromkeys(pipeline.buffers)
        self.values: dict[str, object] = dict.fromkeys(pipeline.buffers, "initial")
        self.shadow: dict[str, tuple[dict, int | None]] = {}

    def step(self, decision: int, now_ns: int, new: Mapping[str, tuple[object, int | None]]) -> list[Read]:
        """new: input -> (value, stamp), ages aside. Returns what the stages of this boundary's plan read, be it by age."""
        for name, launch in list(self.ledger.in_flight.items()):
            stage = self.pipeline.stage[name]
            if launch.decision + stage.commit_after <= decision:
                del self.ledger.in_flight[name]
                self._write(stage, *self.shadow.pop(name))
        for name, (value, stamp) in new.items():
            self.versions[name] += 1
            self.values[name], self.stamps[name] = value, stamp
        reads = []
        for entry in due(self.pipeline, self.ledger, self.versions, self.stamps, now_ns, decision):
            stage = self.pipeline.stage[entry.stage]
            for buffer, source in self.pipeline.spec.ages if stage == self.pipeline.action else ():
                self.values[buffer] = now_ns - self.stamps[source]
                self.versions[buffer] += 1
                reads.append(Read(stage.name, source, self.values[buffer]))
            reads += [Read(stage.name, b, None if self.stamps[b] is None else now_ns - self.stamps[b])
                      for b in stage.reads if b not in own_state(stage)]
            result = {b: hash((b, *(self.values[r] for r in stage.reads))) for b in stage.writes}
            stamp = derived_stamp(stage, self.stamps)
            if entry.background:
                self.ledger.launched(stage, decision, self.versions, self.stamps)
                self.shadow[stage.name] = (result, stamp)
            else:
                self.ledger.ran(stage, decision, self.versions)
                self._write(stage, result, stamp)
        return reads

    def _write(self, stage: Stage, result: dict, stamp: int | None) -> None:
        for buffer in stage.writes:
            self.versions[buffer] += 1
            self.values[buffer], self.stamps[buffer] = result[buffer], stamp


class Local(NamedTuple):
    """All of a stage's history that matters: decisions since its last run and since its launch (both capped at where
    they stop mattering), and which watched buffers are newer than what it consumed."""

    elapsed: int
    flight: int | None
    dirty: tuple[str, ...]


def reachable(pipeline: Pipeline) -> tuple[set[frozenset[Run]], set[str]]:
    """Every plan after the first decision's, and every buffer that some plan reads as the boundary before left it,
    found by trying everything that may happen at each boundary: new inputs, skipped decisions, late commits, expired
    ages, and over-age runs put off by the engine."""
    start = tuple(Local(0, None, ()) for _ in pipeline.stages)
    seen, queue, found, live = {start}, deque([start]), set(), set()
    while queue:
        state = queue.popleft()
        after = [tuple(_tick(s, local) for s, local in zip(pipeline.stages, state))]  # a skipped decision
        for plan, held, following in _boundaries(pipeline, after[0]):
            found.add(plan)
            live |= held
            after.append(following)
        fresh = set(after) - seen
        seen |= fresh
        queue.extend(sorted(fresh, key=repr))
    return found, live


def _tick(stage: Stage, local: Local) -> Local:
    flight = None if local.flight is None else min(local.flight + 1, stage.commit_after)
    return Local(min(local.elapsed + 1, stage.every or 0), flight, local.dirty)


_NOW, _DECISION, _VERSION = 10**15, 10**6, 10


def _boundaries(
    pipeline: Pipeline, state: tuple[Local, ...]
) -> Iterator[tuple[frozenset[Run], set[str], tuple[Local, ...]]]:
    """For everything that may happen at a boundary: the plan, the buffers it reads as they were, the state after it."""
    stages = pipeline.stages
    at_will = [b.name for b in pipeline.spec.buffers
               if b.kind == "input" and b.name not in pipeline.spec.engine_filled]
    watched_inputs = [b for b in at_will if any(_watches(s, b) for s in stages)]
    landing = [s.name for s, local in zip(stages, state) if local.flight is not None and local.flight >= s.commit_after]
    ageing = [s.name for s in stages if s.max_age_ns is not None]
    overlapped = [s.name for s in stages if s.commit_after is not None]
    for commits, news, expired in product(_subsets(landing), _subsets(watched_inputs), _subsets(ageing)):
        for deferred in _subsets([n for n in overlapped if n in expired]):
            ledger, versions = Ledger(), dict.fromkeys(pipeline.buffers, _VERSION)
            stamps = dict.fromkeys(pipeline.buffers)
            for stage, local in zip(stages, state):
                ledger.last_run[stage.name] = _DECISION - local.elapsed
                ledger.consumed[stage.name] = {b: _VERSION - (b in local.dirty) for b in watched(stage)}
                if local.flight is not None and stage.name not in commits:
                    ledger.in_flight[stage.name] = Launch(_DECISION - local.flight, {}, {})
                stamps.update(dict.fromkeys(stage.writes, 0 if stage.name in expired else _NOW))
            landed = [b for name in commits for b in pipeline.stage[name].writes]
            for buffer in (*news, *landed, *pipeline.spec.engine_filled):
                versions[buffer] += 1
            plan = due(pipeline, ledger, versions, stamps, _NOW, _DECISION, deferred)
            held, done = set(), set()
            for entry in plan:
                stage = pipeline.stage[entry.stage]
                held |= {b for b in stage.reads if b in pipeline.writer and pipeline.writer[b] not in done}
                if entry.background:
                    ledger.launched(stage, _DECISION, versions, stamps)
                else:
                    ledger.ran(stage, _DECISION, versions)
                    done.add(stage.name)
                    for buffer in stage.writes:
                        versions[buffer] += 1
            following = tuple(_local(s, ledger, versions) for s in stages)
            yield frozenset(Run(d.stage, d.background) for d in plan), held, following


def _local(stage: Stage, ledger: Ledger, versions: Mapping[str, int]) -> Local:
    flight = None
    if stage.name in ledger.in_flight:
        flight = min(_DECISION - ledger.in_flight[stage.name].decision, stage.commit_after)
    dirty = (b for b in stage.reads if _watches(stage, b) and versions[b] > ledger.consumed[stage.name][b])
    return Local(min(_DECISION - ledger.last_run[stage.name], stage.every or 0), flight, tuple(dirty))


def _watches(stage: Stage, buffer: str) -> bool:
    return buffer in stage.reads and watches(stage, buffer) and buffer not in own_state(stage)


def _subsets(items: Iterable[str]) -> list[tuple[str, ...]]:
    items = list(items)
    return [tuple(b for b, keep in zip(items, mask) if keep) for mask in product((False, True), repeat=len(items))]
