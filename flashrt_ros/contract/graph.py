"""The stage graph that a policy declares: its rules, and the order in which its stages run.

Owns what must hold for any contract over the policy. Errors point at the contract's `policy.type`, for that line chose
the policy. Pure Python; imports nothing of the package outside contract/.
"""

from __future__ import annotations

from collections import Counter
from typing import Iterable

from flashrt_ros.contract.errors import ContractError, listed, nearest
from flashrt_ros.contract.refresh import own_state
from flashrt_ros.contract.schema import Contract
from flashrt_ros.contract.spec import BufferSpec, PolicySpec, StageSpec


def ordered(contract: Contract, spec: PolicySpec) -> tuple[StageSpec, ...]:
    """The policy's stages in topological order, ties in the order of their declaration.

    Raises ContractError for a name declared twice, an undeclared buffer, two writers, a read that nothing writes, a
    buffer that nothing reads, a state buffer that two stages share, a cycle, a stage that the action doesn't need, and
    a chunk, noise or age that is not declared as such a buffer must be.
    """
    fault = _Fault(contract, spec)
    _check_names(fault, spec)
    writer = _writers(fault, spec)
    _check_kinds(fault, spec, writer)
    order = _sorted(fault, spec, writer)
    _check_needed(fault, spec, writer)
    _check_ends(fault, spec, writer)
    _check_ages(fault, spec, order)
    _check_plan(fault, spec)
    return order


class _Fault:
    def __init__(self, contract: Contract, spec: PolicySpec) -> None:
        self.contract, self.spec = contract, spec

    def __call__(self, found: str, allowed: str, way_out: str) -> ContractError:
        return ContractError.at(
            self.contract,
            "policy.type",
            repr(self.spec.type),
            f"{found}; {allowed}",
            f"in the policy's code, {way_out}",
        )


def _check_names(fault: _Fault, spec: PolicySpec) -> None:
    for what, names in (
        ("buffer", [b.name for b in spec.buffers]),
        ("stage", [s.name for s in spec.stages]),
        ("joint", list(spec.joints)),
    ):
        if twice := [n for n, count in Counter(names).items() if count > 1]:
            raise fault(f"{what} '{twice[0]}' is declared twice", "a name stands once", "rename one")
    if spec.action not in {s.name for s in spec.stages}:
        raise fault(
            f"the action stage '{spec.action}' is not a stage",
            f"one of {listed(s.name for s in spec.stages)}",
            nearest(spec.action, [s.name for s in spec.stages]),
        )
    for stage in spec.stages:
        for buffer in (*stage.reads, *stage.writes):
            if buffer not in spec.by_name:
                raise fault(
                    f"stage '{stage.name}' names the buffer '{buffer}', which is not declared",
                    f"declared: {listed(spec.by_name)}",
                    nearest(buffer, spec.by_name),
                )
        if not stage.writes:
            raise fault(f"stage '{stage.name}' writes nothing", "a stage writes at least one buffer", "take it out")
        if spec.action != stage.name and not set(stage.reads) - own_state(stage):
            raise fault(
                f"stage '{stage.name}' reads nothing but its own state",
                "a stage reads at least one other buffer",
                "give it a read or make its result a weight",
            )


def _writers(fault: _Fault, spec: PolicySpec) -> dict[str, StageSpec]:
    writer: dict[str, StageSpec] = {}
    for stage in spec.stages:
        for name in stage.writes:
            if spec.by_name[name].kind == "input":
                raise fault(
                    f"stage '{stage.name}' writes the input '{name}'",
                    "inputs are written from outside only",
                    "write a derived buffer instead",
                )
            if name in writer:
                raise fault(
                    f"buffer '{name}' has two writers, '{writer[name].name}' and '{stage.name}'",
                    "each buffer has one writer",
                    "give each its own buffer",
                )
            writer[name] = stage
    return writer


def _check_kinds(fault: _Fault, spec: PolicySpec, writer: dict[str, StageSpec]) -> None:
    for buffer in spec.buffers:
        readers = [s for s in spec.stages if buffer.name in s.reads]
        if buffer.kind != "input" and buffer.name not in writer:
            reading = (
                f"stage '{readers[0].name}' reads '{buffer.name}'" if readers else f"buffer '{buffer.name}' is declared"
            )
            raise fault(
                f"{reading}, but nothing writes it",
                "every derived, state or output buffer has a writer",
                "let a stage write it, or make it an input",
            )
        if buffer.kind in ("input", "derived") and not readers:
            raise fault(
                f"nothing reads the {buffer.kind} buffer '{buffer.name}'",
                "every buffer serves a stage",
                "read it or take it out",
            )
        if buffer.kind == "state":
            _check_state(fault, buffer, writer[buffer.name], readers)
        elif buffer.kind != "input" and writer[buffer.name] in readers:
            raise fault(
                f"cycle: stage '{writer[buffer.name].name}' reads and writes the {buffer.kind} buffer '{buffer.name}'",
                "only a state buffer stands in both",
                "make it a state buffer",
            )
        if buffer.kind == "output" and buffer.name != spec.chunk:
            raise fault(
                f"the output buffer '{buffer.name}' is not the chunk",
                "only the chunk leaves the pipeline",
                "take it out or make it derived",
            )


def _check_state(fault: _Fault, buffer: BufferSpec, writer: StageSpec, readers: Iterable[StageSpec]) -> None:
    others = [s.name for s in readers if s != writer]
    if others or writer not in readers:
        who = listed(f"'{n}'" for n in (writer.name, *others))
        raise fault(
            f"the state buffer '{buffer.name}' is written by '{writer.name}' and touched by {who}",
            "exactly one stage reads and writes a state buffer",
            "pass its value on in a derived buffer",
        )


def _sorted(fault: _Fault, spec: PolicySpec, writer: dict[str, StageSpec]) -> tuple[StageSpec, ...]:
    """Kahn's algorithm, first declared first."""
    before = {s.name: {writer[b].name for b in s.reads if b in writer} - {s.name} for s in spec.stages}
    order: list[StageSpec] = []
    while len(order) < len(spec.stages):
        done = {s.name for s in order}
        ready = next((s for s in spec.stages if s.name not in done and before[s.name] <= done), None)
        if ready is None:
            raise fault(
                f"cycle: {_cycle(before, done)}",
                "stages form a graph without cycles",
                "carry the value to the next decision in a state buffer",
            )
        order.append(ready)
    return tuple(order)


def _cycle(before: dict[str, set[str]], done: set[str]) -> str:
    """One cycle among the stages that are not done, as 'a -> b -> a'."""
    trail = [next(n for n in before if n not in done)]
    while trail.count(trail[-1]) == 1:
        trail.append(min(before[trail[-1]] - done))
    return " -> ".join(reversed(trail[trail.index(trail[-1]) :]))


def _check_needed(fault: _Fault, spec: PolicySpec, writer: dict[str, StageSpec]) -> None:
    by_name = {s.name: s for s in spec.stages}
    needed, frontier = set(), [spec.action]
    while frontier:
        name = frontier.pop()
        if name not in needed:
            needed.add(name)
            frontier += [writer[b].name for b in by_name[name].reads if b in writer]
    if idle := [s.name for s in spec.stages if s.name not in needed]:
        raise fault(
            f"stage '{idle[0]}' leads to nothing that the action '{spec.action}' reads",
            "every stage serves the action",
            "connect it or take it out",
        )


def _check_ends(fault: _Fault, spec: PolicySpec, writer: dict[str, StageSpec]) -> None:
    chunk = spec.by_name.get(spec.chunk)
    if chunk is None or chunk.kind != "output" or writer[chunk.name].name != spec.action:
        raise fault(
            f"the chunk '{spec.chunk}' is not an output buffer that '{spec.action}' writes",
            "the action stage writes the chunk",
            "declare it so",
        )
    if chunk.dtype != "float32" or len(chunk.shape) != 2 or chunk.shape[1] != len(spec.joints):
        raise fault(
            f"the chunk '{chunk.name}' is {chunk.dtype} {list(chunk.shape)}",
            f"float32 [steps, {len(spec.joints)}], a column for each of {listed(spec.joints)}",
            "correct its shape",
        )
    if spec.noise is not None:
        noise = spec.by_name.get(spec.noise)
        if noise is None or noise.kind != "input" or not noise.timeless:
            raise fault(
                f"the noise '{spec.noise}' is not a timeless input", "noise is a timeless input buffer", "declare it so"
            )


def _check_ages(fault: _Fault, spec: PolicySpec, order: tuple[StageSpec, ...]) -> None:
    if twice := [n for n, count in Counter(name for name, _ in spec.ages).items() if count > 1]:
        raise fault(f"the age '{twice[0]}' is declared twice", "an age buffer has one source", "give each its own buffer")
    stamped = _stamped_before_action(spec, order)
    for name, source in spec.ages:
        if name == spec.noise:
            raise fault(f"the age '{name}' is the noise too", "a buffer is filled with one of them", "add a buffer")
        for buffer, what in ((name, f"the age '{name}'"), (source, f"the source '{source}' of the age '{name}'")):
            if buffer not in spec.by_name:
                raise fault(
                    f"{what} is not declared",
                    f"declared: {listed(spec.by_name)}",
                    nearest(buffer, spec.by_name),
                )
        age = spec.by_name[name]
        if (age.kind, age.timeless, age.dtype, age.shape) != ("input", True, "float32", (1,)):
            timeless = "timeless " if age.timeless else ""
            raise fault(
                f"the age '{name}' is declared as {timeless}{age.kind}, {age.dtype} {list(age.shape)}",
                "an age is a timeless input buffer, float32 [1]",
                "declare it so",
            )
        if others := [s.name for s in spec.stages if name in s.reads and s.name != spec.action]:
            raise fault(
                f"stage '{others[0]}' reads the age '{name}'",
                f"only the action '{spec.action}' reads ages: what another stage computes from one would outlive it",
                "let the action read it",
            )
        if source not in stamped:
            raise fault(
                f"the source '{source}' of the age '{name}' has no stamp before the action",
                f"one of {listed(stamped)}",
                "name one of these",
            )


def _check_plan(fault: _Fault, spec: PolicySpec) -> None:
    if spec.plan is None:
        return
    chunk = spec.by_name[spec.chunk]
    taken = {spec.noise, *dict(spec.ages)}
    for name, shape, what in zip(spec.plan, (chunk.shape, chunk.shape[:1]), ("rows", "firmness")):
        buffer = spec.by_name.get(name)
        found = None if buffer is None else (buffer.kind, buffer.timeless, buffer.dtype, buffer.shape)
        if found != ("input", True, "float32", shape) or name in taken or spec.plan[0] == spec.plan[1]:
            raise fault(
                f"the plan's {what} '{name}' are declared as {found}",
                f"a timeless input buffer of their own, float32 {list(shape)}",
                "declare it so",
            )
        if others := [s.name for s in spec.stages if name in s.reads and s.name != spec.action]:
            raise fault(f"stage '{others[0]}' reads the plan's {what} '{name}'", f"only the action '{spec.action}' continues a plan",
                        "let the action read it")


def _stamped_before_action(spec: PolicySpec, order: tuple[StageSpec, ...]) -> list[str]:
    """The buffers that carry a stamp at every run of the action. What it writes itself has none at its first run."""
    stamped = [b.name for b in spec.buffers if b.kind == "input" and not b.timeless]
    for stage in order:
        if stage.name != spec.action and any(b in stamped for b in stage.reads if b not in own_state(stage)):
            stamped += stage.writes
    return stamped
