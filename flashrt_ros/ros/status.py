"""The policy node's messages: what it publishes, made from a decider's state. No subscriptions, no timing."""

from __future__ import annotations

from flashrt_ros.capsule.black_box import BlackBox
from flashrt_ros.capsule.maker import Made
from flashrt_ros.capsule.record import Digests
from flashrt_ros.engine.decision import Decision
from flashrt_ros.msg import ActionChunk, InputStatus, PipelineStatus, StageStatus
from flashrt_ros.ros.convert import chunk_message, to_duration, to_time
from flashrt_ros.ros.decider import Decider
from flashrt_ros.ros.inputs import Inputs

TIMELESS = to_duration(-1_000_000_000)
STATES = {"running": PipelineStatus.RUNNING, "waiting": PipelineStatus.WAITING, "idle": PipelineStatus.IDLE,
          "hold": PipelineStatus.HOLD, "fault": PipelineStatus.FAULT}


def action_chunk(made: Made, decider: Decider) -> ActionChunk:
    """The message for a chunk that was made."""
    pipeline, decision = decider.pipeline, made.decision
    message = chunk_message(made.chunk)
    message.decision = decision.index
    message.contract_digest = made.record.digests.contract
    message.capsule_id, message.parent_capsule_id = made.record.id, made.record.parent
    for declared in pipeline.contract.inputs:
        given = made.observation.inputs[declared.name]
        message.input_names.append(declared.name)
        message.input_stamps.append(to_time(given.stamp_ns or 0))
        message.input_crc32.append(given.crc or 0)
    for stage in decision.stages:
        message.stage_names.append(stage.name)
        message.stage_versions.append(stage.version)
        message.stage_ages.append(TIMELESS if stage.age_ns is None else to_duration(stage.age_ns))
    return message


def pipeline_status(decider: Decider | None, inputs: Inputs | None, now_ns: int, reason: str, digests: Digests,
                    warnings: tuple[str, ...], black_box: BlackBox | None) -> PipelineStatus:
    """reason: of the last failed transition, or empty. decider, black_box: None before activation, or configuration."""
    message = PipelineStatus(state=PipelineStatus.INACTIVE, reason=reason, contract_digest=digests.contract, engine_digest=digests.engine,
                             warnings=list(warnings))
    message.header.stamp = to_time(now_ns)
    if black_box is not None:
        message.black_boxes, message.black_boxes_lost = black_box.written, black_box.lost
        message.black_box = str(black_box.last or "")
        message.warnings += [f"black box: {black_box.problem}"] if black_box.problem else []
    if decider is None:
        return message
    message.state, message.reason = STATES[decider.state], decider.reason or reason
    message.task, message.session = decider.task, decider.session.id
    message.epoch, message.seq = decider.session.epoch, decider.session.seq
    message.decisions, message.chunks, message.skipped = decider.decisions, decider.chunks, decider.skipped
    message.refused, message.deadline_misses = decider.refused, decider.deadline_misses
    guards = _guards(decider)
    message.guard_names, message.guard_trips = list(guards), list(guards.values())
    capsules = decider.maker.ring.capsules
    message.capsule_depth, message.capsule_id = len(capsules), capsules[-1].record.id if capsules else ""
    message.decision_p50_ms, message.decision_p99_ms = decider.latency.percentiles()
    message.stages = _stages(decider)
    message.inputs = _inputs(decider, inputs, now_ns)
    return message


def _guards(decider: Decider) -> dict[str, int]:
    """Trips of each guard of the contract, and of those that judge unasked once they have tripped."""
    listed = decider.pipeline.contract.rollback.guards
    return {guard: n for guard, n in decider.maker.rollback.trips.items() if n or guard in listed}


def _stages(decider: Decider) -> list[StageStatus]:
    last: Decision | None = decider.last
    states = {state.name: state for state in last.stages} if last else {}
    messages = []
    for stage in decider.pipeline.stages:
        p50, p99 = decider.stage_latency[stage.name].percentiles()
        message = StageStatus(
            name=stage.name, last_run=-1, age=TIMELESS, max_age=to_duration(stage.max_age_ns or 0), runs=decider.runs[stage.name],
            background_runs=decider.background_runs[stage.name], errors=decider.stage_errors[stage.name],
            duration_p50_ms=p50, duration_p99_ms=p99)
        state = states.get(stage.name)
        if state is not None:
            message.version, message.misses = state.version, state.misses
            message.last_run = -1 if state.last_run is None else state.last_run
            message.age = TIMELESS if state.age_ns is None else to_duration(state.age_ns)
        messages.append(message)
    return messages


def _inputs(decider: Decider, inputs: Inputs, now_ns: int) -> list[InputStatus]:
    messages = []
    for status in decider.intake.status(now_ns):
        declared = decider.pipeline.input[status.name]
        causes = decider.refusals[status.name]
        messages.append(InputStatus(
            name=status.name, topic=inputs.topic(status.name), encoding=inputs.decode.encodings.get(status.name, ""),
            rate_hz=status.rate_hz or 0.0, age=TIMELESS if status.age_ns is None else to_duration(status.age_ns),
            max_age=to_duration(declared.max_age_ns or 0), received=status.counts.received, used=status.counts.used,
            refused=sum(causes.values()), reason=decider.last_refusal.get(status.name, ""),
            refusal_causes=list(causes), refusal_counts=list(causes.values())))
    return messages
