"""Which stages run at a decision boundary, and why: the refresh rules of the execution contract.

Owns the ledger of what each stage last consumed and the pure function `due` over it. Pure Python; imports nothing of
the engine. The engine calls `due` after this boundary's background commits and input writes, runs what it returns in
order, and enters the runs in the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Collection, Iterable, Mapping

from flashrt_ros.contract.pipeline import Pipeline, Stage

# Why a stage runs. NEVER and AGE run in the foreground even when the stage is overlapped.
NEVER, AGE, EVERY, CHANGE, INPUT = REASONS = ("never", "age", "every", "change", "input")


@dataclass(frozen=True, slots=True)
class Due:
    """One stage of a plan. reason: one of REASONS. background: launched now, committed commit_after decisions later."""

    stage: str
    reason: str
    background: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """A background run in flight. versions, stamps: those of the stage's reads (and of its on_change buffers), frozen
    at the launch; stamps in ns, None for timeless."""

    decision: int
    versions: Mapping[str, int]
    stamps: Mapping[str, int | None]


@dataclass(slots=True)
class Ledger:
    """What every stage has done so far; with the buffers, all that decides what runs next.

    last_run: stage -> the decision of its last run or launch. consumed: stage -> buffer -> the version that this run
    read. in_flight: stage -> its background run that has not been committed. A stage absent from last_run never ran.
    """

    last_run: dict[str, int] = field(default_factory=dict)
    consumed: dict[str, Mapping[str, int]] = field(default_factory=dict)
    in_flight: dict[str, Launch] = field(default_factory=dict)

    def ran(self, stage: Stage, decision: int, versions: Mapping[str, int]) -> None:
        """Enter a foreground run; it supersedes a background run of the stage that is in flight."""
        self.in_flight.pop(stage.name, None)
        self._consume(stage, decision, versions)

    def launched(
        self, stage: Stage, decision: int, versions: Mapping[str, int], stamps: Mapping[str, int | None]
    ) -> Launch:
        """Enter a background launch. What it froze counts as consumed from now on."""
        self._consume(stage, decision, versions)
        frozen = {b: stamps[b] for b in watched(stage)}
        launch = Launch(decision, self.consumed[stage.name], MappingProxyType(frozen))
        self.in_flight[stage.name] = launch
        return launch

    def forget(self, stage: str) -> None:
        """After a failure: the stage counts as one that never ran, so it is due again."""
        for table in (self.last_run, self.consumed, self.in_flight):
            table.pop(stage, None)

    def clear(self) -> None:
        for table in (self.last_run, self.consumed, self.in_flight):
            table.clear()

    def copy(self) -> Ledger:
        """Another ledger of the same entries, which are never changed themselves."""
        return Ledger(dict(self.last_run), dict(self.consumed), dict(self.in_flight))

    def renumber(self, old: Mapping[str, int], new: Mapping[str, int], buffers: Collection[str]) -> None:
        """The content of these buffers, of versions `old`, counts as `new` from now on: what was consumed stays so, and what
        was not is still news."""
        for stage, consumed in self.consumed.items():
            numbers = {b: new[b] - (v < old[b]) for b, v in consumed.items() if b in buffers}
            self.consumed[stage] = MappingProxyType({**consumed, **numbers})

    def become(self, other: Ledger) -> None:
        """Take the entries of another ledger."""
        self.clear()
        self.last_run.update(other.last_run)
        self.consumed.update(other.consumed)
        self.in_flight.update(other.in_flight)

    def _consume(self, stage: Stage, decision: int, versions: Mapping[str, int]) -> None:
        self.last_run[stage.name] = decision
        self.consumed[stage.name] = MappingProxyType({b: versions[b] for b in watched(stage)})


def own_state(stage: Stage) -> frozenset[str]:
    """The state buffers of a stage: those that it both reads and writes."""
    return frozenset(stage.reads) & frozenset(stage.writes)


def watched(stage: Stage) -> tuple[str, ...]:
    """The buffers whose versions a run consumes: the stage's reads, then on_change buffers that it doesn't read."""
    return stage.reads + tuple(b for b in stage.on_change if b not in stage.reads)


def derived_stamp(stage: Stage, stamps: Mapping[str, int | None]) -> int | None:
    """The stamp (ns) of what a run writes: the minimum over its reads' stamps; None if all of them are timeless.

    The stage's own state is left out, for its stamp could never advance otherwise.
    """
    known = [s for b in stage.reads if b not in own_state(stage) and (s := stamps[b]) is not None]
    return min(known, default=None)


def over_age(stage: Stage, stamps: Mapping[str, int | None], now_ns: int) -> int | None:
    """The age (ns) of the stage's oldest output where it exceeds the stage's max_age; else None."""
    known = [s for b in stage.writes if (s := stamps[b]) is not None]
    if stage.max_age_ns is None or not known:
        return None
    age = now_ns - min(known)
    return age if age > stage.max_age_ns else None


def due(
    pipeline: Pipeline,
    ledger: Ledger,
    versions: Mapping[str, int],
    stamps: Mapping[str, int | None],
    now_ns: int,
    decision: int,
    deferred: Collection[str] = (),
) -> tuple[Due, ...]:
    """The plan of one boundary: the stages that run, in topological order. Pure: nothing is changed.

    versions, stamps: per buffer, after this boundary's commits and input writes. A stage that runs in the foreground
    counts as a writer for those after it; one that runs in the background writes nothing at this boundary.
    deferred: overlapped stages whose over-age run does not fit the deadline: they are launched in the background, or
    left in flight, instead of running in the foreground.
    """
    plan: list[Due] = []
    written: set[str] = set()
    for stage in pipeline.stages:
        reason = _reason(stage, ledger, versions, stamps, now_ns, decision, written)
        if stage.name == pipeline.spec.action and reason not in (NEVER, AGE):
            reason = EVERY
        defer = reason == AGE and stage.name in deferred
        if reason is None or (defer and stage.name in ledger.in_flight):
            continue
        background = stage.commit_after is not None and (defer or reason not in (NEVER, AGE))
        plan.append(Due(stage.name, reason, background))
        if not background:
            written.update(stage.writes)
    return tuple(plan)


def _reason(
    stage: Stage,
    ledger: Ledger,
    versions: Mapping[str, int],
    stamps: Mapping[str, int | None],
    now_ns: int,
    decision: int,
    written: set[str],
) -> str | None:
    if stage.name not in ledger.last_run:
        return NEVER
    if over_age(stage, stamps, now_ns) is not None:
        return AGE
    if stage.name in ledger.in_flight:
        return None
    if stage.every is not None and decision - ledger.last_run[stage.name] >= stage.every:
        return EVERY

    consumed = ledger.consumed[stage.name]

    def newer(buffers: Iterable[str]) -> bool:
        return any(b in written or versions[b] > consumed[b] for b in buffers)

    if newer(stage.on_change):
        return CHANGE
    if stage.follows and newer(b for b in stage.reads if b not in own_state(stage)):
        return INPUT
    return None
