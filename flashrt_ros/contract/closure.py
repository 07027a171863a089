"""Everything that a contract can do at a decision boundary: its plans, its schedule, and what must outlive a boundary.

Owns the enumeration of plans and the closure, which is what an execution-state capsule holds. Pure Python; imports
nothing of the package outside contract/.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations
from typing import Collection, Iterable, Iterator, NamedTuple

from flashrt_ros.contract.age import watches
from flashrt_ros.contract.pipeline import Pipeline, Stage
from flashrt_ros.contract.refresh import Ledger, due, own_state, watched


class Run(NamedTuple):
    """One stage of a plan; equals the plain tuple (stage, background)."""

    stage: str
    background: bool = False


Plan = frozenset[Run]


@dataclass(frozen=True, slots=True)
class Closure:
    """What a capsule holds, each in the pipeline's order.

    buffers: the derived and state buffers that a later decision can read as they are now. inputs: those whose value may
    be held from an earlier decision, which is all but those that the engine fills. stages: those whose ledger entry
    (last run, consumed versions, run in flight) decides what runs next.
    """

    buffers: tuple[str, ...]
    inputs: tuple[str, ...]
    stages: tuple[str, ...]


class _Moment(NamedTuple):
    """A boundary half decided: the runs so far, and the buffers that are new to whoever watches them."""

    runs: Plan
    new: frozenset[str]


def plans(pipeline: Pipeline) -> tuple[Plan, ...]:
    """Every distinct plan that `due` can return: the first decision's (all stages, in the foreground), then the others.

    Any input may be new or not (noise and ages always are), any decision may be skipped, any commit late, and any stage
    with a max_age_ms may exceed it. Left out is only what follows a stage's failure.
    """
    first = frozenset(Run(s.name) for s in pipeline.stages)
    ageing = [s.name for s in pipeline.stages if s.max_age_ns is not None]
    return (first, *(p for p in steady_plans(pipeline, ageing) if p != first))


def steady_plans(pipeline: Pipeline, expiring: Collection[str]) -> tuple[Plan, ...]:
    """The plans after the first decision, the largest first, while only the stages in `expiring` exceed their age."""
    always_new = pipeline.spec.engine_filled
    inputs = {b for s in pipeline.stages for b in _watch_list(s) if b not in pipeline.writer} - always_new
    clocks = {s.every for s in pipeline.stages if _is_clocked(s, expiring)}
    found: set[Plan] = set()
    for ticking in _subsets(clocks):
        moments = {_Moment(frozenset(), news | always_new) for news in _subsets(inputs)}
        for i, stage in enumerate(pipeline.stages):
            if _is_clocked(stage, expiring):
                ticks = stage.every in ticking
                moments = {_passed(stage, m, False if ticks else None, ticks) for m in moments}
            else:
                moments = {after for m in moments for after in _ways(stage, m, stage.name in expiring)}
            # What no later stage watches makes no difference any more; dropping it keeps the moments few.
            watched_later = {b for s in pipeline.stages[i + 1 :] for b in _watch_list(s)}
            moments = {_Moment(m.runs, m.new & watched_later) for m in moments}
        found |= {m.runs for m in moments}
    rank = {s.name: i for i, s in enumerate(pipeline.stages)}
    return tuple(sorted(found, key=lambda p: (-len(p), sorted((rank[r.stage], r.background) for r in p))))


def _is_clocked(stage: Stage, expiring: Collection[str]) -> bool:
    """Whether only the decision count makes the stage due. All such stages of one rate run together for ever."""
    return (
        stage.every not in (None, 1)
        and stage.commit_after is None
        and not stage.on_change
        and stage.name not in expiring
    )


def _watch_list(stage: Stage) -> tuple[str, ...]:
    return tuple(b for b in watched(stage) if watches(stage, b) and b not in own_state(stage))


def _passed(stage: Stage, moment: _Moment, run: bool | None, wrote: bool) -> _Moment:
    """The moment after a stage. run: None for no run, else whether in the background. wrote: what the stage writes is
    new to the stages after it, by a foreground run or by a commit at this boundary."""
    runs = moment.runs if run is None else moment.runs | {Run(stage.name, run)}
    return _Moment(runs, moment.new | frozenset(stage.writes) if wrote else moment.new)


def _ways(stage: Stage, moment: _Moment, expires: bool) -> Iterator[_Moment]:
    """The ways in which a boundary can go on past a stage."""
    awake = stage.every == 1 or any(b in moment.new for b in _watch_list(stage))
    by_count = stage.every not in (None, 1)  # due by the decision count at some boundaries, at others not
    if expires or stage.commit_after is None and (awake or by_count):
        yield _passed(stage, moment, False, True)
    if stage.commit_after is None:
        if not awake:
            yield _passed(stage, moment, None, False)
        return
    yield _passed(stage, moment, None, False)  # in flight
    if awake or by_count or expires:  # idle so far. Expired: launched, where a foreground run doesn't fit the deadline
        yield _passed(stage, moment, True, False)
    # A run lands here. The stage is launched anew if it is due: by the count, by what is new or changed in flight.
    if awake or by_count or expires or _watch_list(stage):
        yield _passed(stage, moment, True, True)
    if not awake and stage.every != stage.commit_after:
        yield _passed(stage, moment, None, True)


def _subsets(items: Collection) -> Iterable[frozenset]:
    return (frozenset(c) for c in chain.from_iterable(combinations(sorted(items), n) for n in range(len(items) + 1)))


def closure(pipeline: Pipeline) -> Closure:
    """The exact set that is live at a decision boundary.

    A derived buffer is live when some plan runs a reader of it without running its writer in the foreground, a state
    buffer always.
    """
    possible = plans(pipeline)
    live = set()
    for stage in pipeline.stages:
        for buffer in stage.reads:
            writer = pipeline.writer.get(buffer)
            if writer is not None and (
                buffer in own_state(stage)
                or any(Run(writer) not in plan and any(r.stage == stage.name for r in plan) for plan in possible)
            ):
                live.add(buffer)
    return Closure(
        buffers=tuple(b.name for b in pipeline.spec.buffers if b.name in live),
        inputs=tuple(
            b.name for b in pipeline.spec.buffers if b.kind == "input" and b.name not in pipeline.spec.engine_filled
        ),
        stages=tuple(s.name for s in pipeline.stages),
    )


def hyper_period(pipeline: Pipeline) -> int:
    """After how many decisions the nominal schedule repeats."""
    return len(schedule(pipeline))


def schedule(pipeline: Pipeline) -> tuple[Plan, ...]:
    """The nominal plans of one hyper-period: all inputs but text are new at each decision, nothing is late.

    Entry i is the plan of the decisions d with d % hyper_period == i, once the first ones are past.
    """
    ledger, versions = Ledger(), dict.fromkeys(pipeline.buffers, 0)
    stamps = dict.fromkeys(pipeline.buffers)  # no stamps: nothing expires
    always_new = [b.name for b in pipeline.spec.buffers if b.kind == "input" and not b.timeless]
    always_new += pipeline.spec.engine_filled
    history: list[Plan] = []
    seen: dict[tuple, int] = {}
    while True:
        decision = len(history)
        for name, launch in list(ledger.in_flight.items()):
            if launch.decision + pipeline.stage[name].commit_after == decision:
                del ledger.in_flight[name]
                _write(versions, pipeline.stage[name].writes)
        _write(versions, always_new)
        plan = due(pipeline, ledger, versions, stamps, 0, decision)
        for entry in plan:
            stage = pipeline.stage[entry.stage]
            if entry.background:
                ledger.launched(stage, decision, versions, stamps)
            else:
                ledger.ran(stage, decision, versions)
                _write(versions, stage.writes)
        history.append(frozenset(Run(d.stage, d.background) for d in plan))
        state = tuple(_local_state(s, ledger, versions, decision) for s in pipeline.stages)
        if state in seen:
            length = decision - seen[state]
            begin = seen[state] + 1
            return tuple(history[begin + (i - begin) % length] for i in range(length))
        seen[state] = decision


def _write(versions: dict[str, int], buffers: Iterable[str]) -> None:
    for buffer in buffers:
        versions[buffer] += 1


def _local_state(stage: Stage, ledger: Ledger, versions: dict[str, int], decision: int) -> tuple:
    """What of a stage's history still matters to what runs next."""
    elapsed = min(decision - ledger.last_run[stage.name], stage.every or 0)
    flight = decision - ledger.in_flight[stage.name].decision if stage.name in ledger.in_flight else None
    consumed = ledger.consumed[stage.name]
    return elapsed, flight, tuple(versions[b] > consumed[b] for b in _watch_list(stage))
