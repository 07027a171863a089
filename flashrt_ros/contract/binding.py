"""Binds a contract's inputs, outputs, limits and stages to the buffers, joints and stages of a policy.

Owns what lies between a topic and a buffer (shapes, kinds, joint names, that every driven joint has its limits) and
between a rule and a stage. Ages and rates, which take the whole pipeline, are verify.py's.
Pure Python; imports nothing of the package outside contract/.
"""

from __future__ import annotations

from flashrt_ros.contract.errors import ABSENT, ContractError, listed, nearest
from flashrt_ros.contract.load import IMAGE_TYPES, JOINT_TYPE, TEXT_TYPE
from flashrt_ros.contract.pipeline import Stage
from flashrt_ros.contract.refresh import own_state
from flashrt_ros.contract.schema import Contract, Input, Output, Refresh
from flashrt_ros.contract.spec import BufferSpec, PolicySpec, StageSpec

PLAYED = ("joint", "joint_delta")  # the representations whose numbers this version can make positions


def check_inputs(contract: Contract, spec: PolicySpec) -> None:
    """Every input buffer but those that the engine fills is bound, to messages that can fill it. Raises ContractError."""
    wanted = {b.name: b for b in spec.buffers if b.kind == "input" and b.name not in spec.engine_filled}
    for entry in contract.inputs:
        key = f"inputs.{entry.name}"
        if entry.name in spec.engine_filled:
            raise ContractError.at(
                contract, key, repr(entry.channel.topic), "the engine fills it itself", "take the input out"
            )
        if entry.name not in wanted:
            raise ContractError.at(
                contract,
                key,
                repr(entry.channel.topic),
                f"the policy '{spec.type}' has no such input; it has {listed(wanted)}",
                nearest(entry.name, wanted),
            )
        _check_input(contract, key, entry, wanted[entry.name])
    bound = {entry.name for entry in contract.inputs}
    for name, buffer in wanted.items():
        if name not in bound:
            raise ContractError.at(
                contract,
                f"inputs.{name}",
                ABSENT,
                f"the policy '{spec.type}' needs the input '{name}', {describe(buffer)}",
                "bind a topic to it",
            )


def _check_input(contract: Contract, key: str, entry: Input, buffer: BufferSpec) -> None:
    kind = entry.channel.type
    if buffer.timeless != (kind == TEXT_TYPE):
        ages = (
            "never ages and takes std_msgs/msg/String" if buffer.timeless else "ages and takes images or joint states"
        )
        raise ContractError.at(
            contract,
            f"{key}.channel.type",
            repr(kind),
            f"the buffer '{buffer.name}' {ages}",
            "bind a topic of such a type",
        )
    if buffer.timeless and entry.max_age_ms is not None:
        raise ContractError.at(contract, f"{key}.max_age_ms", f"{entry.max_age_ms:g}", "text never ages", "take it out")
    if not buffer.timeless and entry.max_age_ms is None:
        raise ContractError.at(
            contract,
            f"{key}.max_age_ms",
            ABSENT,
            f"'{entry.name}' would reach the action without an age bound",
            "give the oldest age that is safe",
        )
    if kind in IMAGE_TYPES:
        expected = (*entry.image.size, 3)
        if buffer.dtype != "uint8" or buffer.shape != expected:
            raise ContractError.at(
                contract,
                f"{key}.image.size",
                str(list(entry.image.size)),
                f"the buffer '{buffer.name}' is {describe(buffer)}, the image uint8 {list(expected)}",
                f"write {list(buffer.shape[:2])}" if _is_image(buffer) else "this buffer takes no image",
            )
    elif kind == JOINT_TYPE:
        if buffer.dtype != "float32" or buffer.shape != (len(entry.select),):
            raise ContractError.at(
                contract,
                f"{key}.select",
                f"{len(entry.select)} names",
                f"the buffer '{buffer.name}' is {describe(buffer)}, the selection float32 [{len(entry.select)}]",
                "select as many names as the buffer has places",
            )


def _is_image(buffer: BufferSpec) -> bool:
    return buffer.dtype == "uint8" and len(buffer.shape) == 3 and buffer.shape[2] == 3


def describe(buffer: BufferSpec) -> str:
    return f"{buffer.dtype} {list(buffer.shape)}"


def check_outputs(contract: Contract, spec: PolicySpec) -> None:
    """Every joint of the policy is driven by exactly one output, and its numbers can be made positions. Raises
    ContractError."""
    driven: dict[str, str] = {}
    for i, output in enumerate(contract.outputs):
        key = f"outputs[{i}]"
        _check_representation(contract, spec, key, output)
        for field in ("step_ms", "offset_ms"):
            value, first = getattr(output, field), getattr(contract.outputs[0], field)
            if value != first:
                raise ContractError.at(
                    contract,
                    f"{key}.{field}",
                    f"{value:g}",
                    f"one chunk carries all joints, and outputs[0] has {first:g}",
                    f"write {first:g} in both",
                )
        for j, joint in enumerate(output.select):
            path = f"{key}.select[{j}]"
            if joint not in spec.joints:
                raise ContractError.at(
                    contract,
                    path,
                    repr(joint),
                    f"the policy '{spec.type}' drives {listed(spec.joints)}",
                    nearest(joint, spec.joints),
                )
            if joint in driven:
                raise ContractError.at(
                    contract,
                    path,
                    repr(joint),
                    f"already driven by the output '{driven[joint]}'",
                    "each joint has one controller",
                )
            driven[joint] = output.name
    for joint in spec.joints:
        if joint not in driven:
            raise ContractError.at(
                contract,
                "outputs",
                listed(driven),
                f"the policy drives '{joint}' too, and no output takes it",
                "select it in one of the outputs",
            )


def _check_representation(contract: Contract, spec: PolicySpec, key: str, output: Output) -> None:
    what = f"{key}.representation"
    if output.representation not in PLAYED:
        raise ContractError.at(
            contract,
            what,
            repr(output.representation),
            f"this version plays {listed(PLAYED)}",
            "let the policy itself turn motions of its tool into those of joints",
        )
    if output.representation == "joint_delta" and contract.measured(output.select) is None:
        raise ContractError.at(
            contract,
            what,
            repr(output.representation),
            f"deltas are from measured positions, and no input holds position.<joint> of all of {listed(output.select)} in "
            "rad or m",
            "select them in one input",
        )
    if spec.plan is not None and (output.representation != "joint" or output.gripper is not None):
        raise ContractError.at(
            contract,
            what if output.gripper is None else f"{key}.gripper",
            repr(output.representation) if output.gripper is None else "a gripper block",
            "a policy that continues the plan reads positions, and its numbers must be positions too",
            "take policy.continues out, or this",
        )


def check_limits(contract: Contract, spec: PolicySpec) -> None:
    """Limits name known joints; each driven joint has position and velocity limits. Raises ContractError."""
    limits = contract.limits
    for what in ("position", "velocity", "acceleration", "jerk", "tracking_error"):
        table = getattr(limits, what)
        for joint in table:
            if joint not in spec.joints:
                raise ContractError.at(
                    contract,
                    f"limits.{what}.{joint}",
                    str(table[joint]),
                    f"no output drives '{joint}'; driven: {listed(spec.joints)}",
                    nearest(joint, spec.joints),
                )
        if what in ("position", "velocity"):
            for joint in spec.joints:
                if joint not in table:
                    raise ContractError.at(
                        contract,
                        f"limits.{what}.{joint}",
                        ABSENT,
                        f"every driven joint has a {what} limit",
                        "take it from the robot's data sheet",
                    )
    for i, output in enumerate(contract.outputs):
        for end in ("closed", "open") if output.gripper is not None else ():
            position, (lower, upper) = getattr(output.gripper, end), limits.position[output.select[0]]
            if not lower <= position <= upper:
                raise ContractError.at(
                    contract,
                    f"outputs[{i}].gripper.{end}",
                    f"{position:g}",
                    f"limits.position of '{output.select[0]}' is {lower:g} to {upper:g}",
                    "give a position within it",
                )
    if "jump" in contract.rollback.guards and limits.boundary_jump is None:
        raise ContractError.at(
            contract,
            "limits.boundary_jump",
            ABSENT,
            "the guard 'jump' compares with it",
            "give it, or list rollback.guards without 'jump'",
        )


def bind_stages(contract: Contract, spec: PolicySpec, order: tuple[StageSpec, ...]) -> tuple[Stage, ...]:
    """The policy's stages in `order`, each with the contract's rule for it. Raises ContractError."""
    rules = {r.stage: r for r in contract.refresh}
    names = [s.name for s in spec.stages]
    for name in rules:
        if name not in names:
            raise ContractError.at(
                contract,
                f"stages.{name}",
                repr(name),
                f"the policy '{spec.type}' has the stages {listed(names)}",
                nearest(name, names),
            )
    for name in names:
        if name not in rules:
            raise ContractError.at(
                contract,
                f"stages.{name}",
                ABSENT,
                f"the policy '{spec.type}' has this stage",
                f"add '{name}: {{}}' if it just follows what it reads",
            )
    return tuple(_stage(contract, spec, stage, rules[stage.name]) for stage in order)


def _stage(contract: Contract, spec: PolicySpec, stage: StageSpec, rule: Refresh) -> Stage:
    key = f"stages.{stage.name}"
    followable = [b for b in stage.reads if b not in own_state(stage)]
    for i, buffer in enumerate(rule.on_change):
        if buffer not in followable:
            raise ContractError.at(
                contract,
                f"{key}.on_change[{i}]",
                repr(buffer),
                f"the stage reads {listed(followable)}",
                nearest(buffer, followable),
            )
    if stage.name == spec.action:
        _check_action(contract, key, rule)
    if rule.commit_after is not None and rule.every is not None and rule.commit_after > rule.every:
        raise ContractError.at(
            contract,
            f"{key}.overlap.commit_after",
            str(rule.commit_after),
            f"at most every = {rule.every}: a run must land before the next one starts",
            "lower commit_after or raise every",
        )
    return Stage(
        stage.name,
        stage.reads,
        stage.writes,
        1 if stage.name == spec.action else rule.every,
        rule.on_change,
        rule.max_age_ns,
        rule.commit_after,
    )


def _check_action(contract: Contract, key: str, rule: Refresh) -> None:
    if rule.every not in (None, 1):
        raise ContractError.at(
            contract,
            f"{key}.every",
            str(rule.every),
            "the action runs at every decision",
            "write 1, and lower decision.rate_hz if it is too much",
        )
    if rule.on_change:
        raise ContractError.at(
            contract, f"{key}.on_change", listed(rule.on_change), "the action runs at every decision", "take it out"
        )
    if rule.commit_after is not None:
        raise ContractError.at(
            contract,
            f"{key}.overlap",
            f"commit_after {rule.commit_after}",
            "the action runs in the foreground",
            "overlap a stage before it",
        )
