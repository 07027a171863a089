"""Joins a contract and a policy into a Pipeline, or refuses: nothing runs that has not passed here.

Owns the age bounds and the rates, which take the whole pipeline; the stage graph is judged in graph.py, the parts of
the contract one by one in binding.py. Pure Python; imports nothing of the package outside contract/.
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm
from typing import Mapping

from flashrt_ros.contract.age import hold, is_slow, timed_reads, worst_ages
from flashrt_ros.contract.binding import bind_stages, check_inputs, check_limits, check_outputs
from flashrt_ros.contract.closure import steady_plans
from flashrt_ros.contract.errors import ABSENT, ContractError, listed, nearest
from flashrt_ros.contract.fresh import fresh_inputs
from flashrt_ros.contract.graph import ordered
from flashrt_ros.contract.pipeline import Pipeline, Stage
from flashrt_ros.contract.schema import Contract
from flashrt_ros.contract.spec import PolicySpec

LONGEST_HYPER_PERIOD = 1000  # decisions; a longer one could not be read, nor its plans be tried


def verify(contract: Contract, spec: PolicySpec, stage_ms: Mapping[str, float] | None = None) -> Pipeline:
    """The pipeline of a contract and a policy, stages in topological order.

    stage_ms: the measured time of every stage in milliseconds, if it is known: then the rates are held against it.
    Raises ContractError, one line that names the place in the contract, for anything that could not run as written.
    """
    if contract.policy.type != spec.type:
        raise ContractError.at(
            contract,
            "policy.type",
            repr(contract.policy.type),
            f"the policy given is '{spec.type}'",
            "load the policy that the contract names",
        )
    order = ordered(contract, spec)
    check_inputs(contract, spec)
    check_outputs(contract, spec)
    check_limits(contract, spec)
    pipeline = Pipeline(contract, spec, bind_stages(contract, spec, order))
    _check_clock(pipeline)
    _check_ages(pipeline)
    _check_deltas(pipeline)
    _check_fork(pipeline)
    warnings = [*_check_staleness(pipeline), *_short_chunks(pipeline)]
    if stage_ms is not None:
        _check_times(pipeline, stage_ms)
    return replace(pipeline, warnings=tuple(warnings))


def _check_clock(pipeline: Pipeline) -> None:
    contract = pipeline.contract
    period_ms = pipeline.period_ns / 1e6
    if contract.deadline_ns > contract.period_ns:
        raise ContractError.at(
            contract,
            "decision.deadline_ms",
            f"{contract.deadline_ms:g} ms",
            f"at most the period, {period_ms:g} ms at {contract.rate_hz:g} Hz",
            "lower the deadline or decision.rate_hz",
        )
    counts = {s.name: s.every or s.commit_after or 1 for s in pipeline.stages}
    if (length := lcm(*counts.values())) > LONGEST_HYPER_PERIOD:
        rates = listed(f"{name} {n}" for name, n in counts.items() if n > 1)
        raise ContractError.at(
            contract,
            "stages",
            rates,
            f"the schedule repeats after {length} decisions, at most {LONGEST_HYPER_PERIOD} are allowed",
            "choose rates that divide each other",
        )


def _check_ages(pipeline: Pipeline) -> None:
    ages = worst_ages(pipeline)
    for stage in pipeline.stages:
        key, timed = f"stages.{stage.name}.max_age_ms", timed_reads(pipeline, stage)
        for buffer in timed:
            if stage.max_age_ns is not None:
                _check_bound(pipeline, stage, buffer, ages[buffer])
            elif (held := hold(stage, buffer)) != 0:
                origins = listed(_origins(pipeline, buffer))
                raise ContractError.at(
                    pipeline.contract,
                    key,
                    ABSENT,
                    f"a path from {origins} to the action has no age bound here, where '{buffer}' can be held",
                    _bound_hint(pipeline, ages[buffer], held),
                )
        if stage.max_age_ns is not None and not timed:
            found = f"{stage.max_age_ns / 1e6:g} ms"
            raise ContractError.at(pipeline.contract, key, found, "nothing that the stage reads ages", "take it out")


def _check_bound(pipeline: Pipeline, stage: Stage, buffer: str, age_ns: int) -> None:
    """Refuses a max_age_ms that the stage's rule can't keep for one of its reads, which may be age_ns old."""
    held = hold(stage, buffer)
    if held is None:  # only max_age_ms refreshes it; then a run must at least be able to land within it
        held = stage.commit_after or 0
    worst = age_ns + held * pipeline.period_ns
    if worst > stage.max_age_ns:
        raise ContractError.at(
            pipeline.contract,
            f"stages.{stage.name}.max_age_ms",
            f"{stage.max_age_ns / 1e6:g} ms",
            f"the worst-case age is {worst / 1e6:g} ms: '{buffer}' {age_ns / 1e6:g} ms + {held} decisions of "
            f"{pipeline.period_ns / 1e6:g} ms",
            f"allow {worst / 1e6:g} ms, refresh more often, or lower the input's max_age_ms",
        )


def _bound_hint(pipeline: Pipeline, age_ns: int, held: int | None) -> str:
    if held is None:
        return "give it max_age_ms, or list the buffer in on_change"
    return f"give it max_age_ms of at least {(age_ns + held * pipeline.period_ns) / 1e6:g}"


def _origins(pipeline: Pipeline, buffer: str) -> list[str]:
    """The inputs that age from which a buffer is computed."""
    writer = pipeline.writer.get(buffer)
    if writer is None:
        return [buffer]
    reads = timed_reads(pipeline, pipeline.stage[writer])
    return list(dict.fromkeys(origin for b in reads for origin in _origins(pipeline, b)))


def _check_deltas(pipeline: Pipeline) -> None:
    """Refuses deltas from an older state than the observation's: there is one base for them, and the policy must have seen it."""
    contract, action = pipeline.contract, pipeline.spec.action
    for i, output in enumerate(contract.outputs):
        if output.representation != "joint_delta":
            continue
        name, _ = contract.measured(output.select)
        if name not in fresh_inputs(pipeline)[action]:
            raise ContractError.at(
                contract,
                f"outputs[{i}].representation",
                repr(output.representation),
                f"the deltas are from '{name}' of the same observation, which '{action}' does not get or gets late, past a "
                "slower stage",
                "let every stage between them run at each decision: {every: 1} or {}",
            )


def _check_fork(pipeline: Pipeline) -> None:
    """Candidates must be able to differ, and must leave nothing behind but themselves."""
    contract, spec = pipeline.contract, pipeline.spec
    if contract.fork is None:
        return
    others = [b for b in pipeline.action.writes if b != spec.chunk]
    readers = [s.name for s in pipeline.stages if spec.noise in s.reads]
    if readers == [spec.action] and not others:
        return
    if others:
        why = f"also writes {listed(others)} there, of which a decision leaves only one behind"
    elif not readers:
        why = "takes no noise, so all candidates would be the same"
    else:
        why = f"takes it in {listed(readers)}, and candidates share all that comes before the action"
    raise ContractError.at(
        contract,
        "decision.fork",
        f"{contract.fork.candidates} candidates",
        f"a policy whose action alone takes noise, and writes its chunk only; '{spec.type}' {why}",
        "leave decision.fork out",
    )


def _check_staleness(pipeline: Pipeline) -> list[str]:
    """Refuses, or warns of, ratios below 1:1 that the policy was not trained for or that would gain nothing."""
    contract, spec = pipeline.contract, pipeline.spec
    slow = [s for s in pipeline.stages if is_slow(s)]
    if not slow:
        return []
    key, value = _what_slows(slow[0])
    if not fresh_inputs(pipeline)[spec.action]:
        raise ContractError.at(
            contract,
            key,
            value,
            f"no observation reaches '{spec.action}' past the slower stage: action-only resamples the same belief",
            "let every stage run at each decision: {every: 1} or {}",
        )
    if spec.trained_stale:
        return []
    if not contract.policy.allow_stale:
        raise ContractError.at(
            contract,
            key,
            value,
            f"the policy '{spec.type}' was not trained to act on stages older than its action",
            "write {} or {every: 1}, or set policy.allow_stale: true after judging it by closed-loop success",
        )
    return [
        f"allow_stale: '{spec.type}' was not trained for stages older than its action, and runs "
        f"{listed(s.name for s in slow)} below 1:1"
    ]


def _what_slows(stage: Stage) -> tuple[str, str]:
    """The key of a slow stage's rule that makes it slow, and its value."""
    key = f"stages.{stage.name}"
    if stage.every not in (None, 1):
        return f"{key}.every", str(stage.every)
    if stage.commit_after is not None:
        return f"{key}.overlap.commit_after", str(stage.commit_after)
    return f"{key}.on_change", listed(stage.on_change)


def _short_chunks(pipeline: Pipeline) -> list[str]:
    """Warns when a chunk may end before the next one can be there."""
    steps = pipeline.buffers[pipeline.spec.chunk].shape[0]
    needed = pipeline.period_ns + pipeline.contract.deadline_ns
    output = pipeline.contract.outputs[0]  # all have the same steps
    if (steps - 1) * output.step_ns + output.offset_ns >= needed:
        return []
    return [f"a chunk of {steps} steps lasts {(steps - 1) * output.step_ms:g} ms, less than period + deadline "
            f"({needed / 1e6:g} ms): the arm stops between chunks"]


def _check_times(pipeline: Pipeline, stage_ms: Mapping[str, float]) -> None:
    contract = pipeline.contract
    for name in stage_ms:
        if name not in pipeline.stage:
            raise ContractError.at(
                contract,
                f"stages.{name}",
                f"{stage_ms[name]:g} ms",
                "a time was given for an unknown stage",
                nearest(name, pipeline.stage),
            )
    for stage in pipeline.stages:
        key = f"stages.{stage.name}"
        if stage.name not in stage_ms:
            raise ContractError.at(
                contract, key, ABSENT, "no time was measured for this stage", "measure it with the others"
            )
        if stage.commit_after is not None:
            room_ms = stage.commit_after * pipeline.period_ns / 1e6
            if stage_ms[stage.name] > room_ms:
                raise ContractError.at(
                    contract,
                    f"{key}.overlap.commit_after",
                    str(stage.commit_after),
                    f"the stage takes {stage_ms[stage.name]:g} ms, {stage.commit_after} decisions last {room_ms:g} ms",
                    "raise commit_after, or lower decision.rate_hz",
                )
    # The first decision runs everything, and a stage whose commits came late runs in the foreground: both are judged at
    # run time. But where max_age_ms is all that refreshes a stage, it expires by plan.
    expiring = [
        s.name
        for s in pipeline.stages
        if s.max_age_ns is not None and any(hold(s, b) is None for b in timed_reads(pipeline, s))
    ]
    for plan in steady_plans(pipeline, expiring):
        names = [s.name for s in pipeline.stages if (s.name, False) in plan]
        total = sum(stage_ms[n] for n in names)
        if total > contract.deadline_ms:
            parts = " + ".join(f"{n} {stage_ms[n]:g}" for n in names)
            raise ContractError.at(
                contract,
                "decision.deadline_ms",
                f"{contract.deadline_ms:g} ms",
                f"a plan takes {total:g} ms in the foreground ({parts})",
                "overlap or split its slowest stage, or raise the deadline",
            )
