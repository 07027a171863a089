"""Whether a contract's inputs, outputs and limits fit the buffers and joints of a policy.

Owns what lies between a topic and a buffer: shapes, kinds, joint names, and that every driven joint has its limits.
Pure Python; imports nothing of the package outside contract/.
"""

from __future__ import annotations

from flashrt_ros.contract.errors import ContractError, listed, nearest
from flashrt_ros.contract.load import IMAGE_TYPES, JOINT_TYPE, TEXT_TYPE
from flashrt_ros.contract.schema import Contract, Input
from flashrt_ros.contract.spec import BufferSpec, PolicySpec


def check_inputs(contract: Contract, spec: PolicySpec) -> None:
    """Every input buffer but the noise is bound, to messages that can fill it. Raises ContractError."""
    wanted = {b.name: b for b in spec.buffers if b.kind == "input" and b.name != spec.noise}
    for entry in contract.inputs:
        key = f"inputs.{entry.name}"
        if entry.name == spec.noise:
            raise ContractError.at(contract, key, entry.channel.topic, "the engine fills the noise itself", "take the input out")
        if entry.name not in wanted:
            raise ContractError.at(contract, key, entry.channel.topic,
                                   f"the policy '{spec.type}' has no such input; it has {listed(wanted)}",
                                   nearest(entry.name, wanted))
        _check_input(contract, key, entry, wanted[entry.name])
    bound = {entry.name for entry in contract.inputs}
    for name, buffer in wanted.items():
        if name not in bound:
            raise ContractError.at(contract, f"inputs.{name}", None,
                                   f"the policy '{spec.type}' needs the input '{name}', {describe(buffer)}", "bind a topic to it")


def _check_input(contract: Contract, key: str, entry: Input, buffer: BufferSpec) -> None:
    kind = entry.channel.type
    if buffer.timeless != (kind == TEXT_TYPE):
        ages = "never ages and takes std_msgs/msg/String" if buffer.timeless else "ages and takes images or joint states"
        raise ContractError.at(contract, f"{key}.channel.type", kind, f"the buffer '{buffer.name}' {ages}",
                               "bind a topic of such a type")
    if buffer.timeless and entry.max_age_ms is not None:
        raise ContractError.at(contract, f"{key}.max_age_ms", entry.max_age_ms, "text never ages", "take it out")
    if not buffer.timeless and entry.max_age_ms is None:
        raise ContractError.at(contract, f"{key}.max_age_ms", None,
                               f"'{entry.name}' would reach the action without an age bound", "give the oldest age that is safe")
    if kind in IMAGE_TYPES:
        expected = (*entry.image.size, 3)
        if buffer.dtype != "uint8" or buffer.shape != expected:
            raise ContractError.at(contract, f"{key}.image.size", list(entry.image.size),
                                   f"the buffer '{buffer.name}' is {describe(buffer)}, the image uint8 {list(expected)}",
                                   f"write {list(buffer.shape[:2])}" if _is_image(buffer) else "this buffer takes no image")
    elif kind == JOINT_TYPE:
        if buffer.dtype != "float32" or buffer.shape != (len(entry.select),):
            raise ContractError.at(contract, f"{key}.select", f"{len(entry.select)} names",
                                   f"the buffer '{buffer.name}' is {describe(buffer)}, the selection float32 [{len(entry.select)}]",
                                   "select as many names as the buffer has places")


def _is_image(buffer: BufferSpec) -> bool:
    return buffer.dtype == "uint8" and len(buffer.shape) == 3 and buffer.shape[2] == 3


def describe(buffer: BufferSpec) -> str:
    return f"{buffer.dtype} {list(buffer.shape)}"


def check_outputs(contract: Contract, spec: PolicySpec) -> None:
    """Every joint of the policy is driven by exactly one output, as absolute positions. Raises ContractError."""
    driven: dict[str, str] = {}
    for i, output in enumerate(contract.outputs):
        key = f"outputs[{i}]"
        if output.representation != "joint":
            raise ContractError.at(contract, f"{key}.representation", output.representation,
                                   "this version plays absolute joint positions only", "write 'joint'")
        for j, joint in enumerate(output.select):
            path = f"{key}.select[{j}]"
            if joint not in spec.joints:
                raise ContractError.at(contract, path, joint, f"the policy '{spec.type}' drives {listed(spec.joints)}",
                                       nearest(joint, spec.joints))
            if joint in driven:
                raise ContractError.at(contract, path, joint, f"already driven by the output '{driven[joint]}'",
                                       "each joint has one controller")
            driven[joint] = output.name
    for joint in spec.joints:
        if joint not in driven:
            raise ContractError.at(contract, "outputs", listed(driven),
                                   f"the policy drives '{joint}' too, and no output takes it", "select it in one of the outputs")


def check_limits(contract: Contract, spec: PolicySpec) -> None:
    """Limits name known joints; each driven joint has position and velocity limits. Raises ContractError."""
    limits = contract.limits
    for what in ("position", "velocity", "acceleration", "jerk"):
        table = getattr(limits, what)
        for joint in table:
            if joint not in spec.joints:
                raise ContractError.at(contract, f"limits.{what}.{joint}", table[joint],
                                       f"no output drives '{joint}'; driven: {listed(spec.joints)}", nearest(joint, spec.joints))
        if what in ("position", "velocity"):
            for joint in spec.joints:
                if joint not in table:
                    raise ContractError.at(contract, f"limits.{what}.{joint}", None,
                                           f"every driven joint has a {what} limit", "take it from the robot's data sheet")
    if "jump" in contract.rollback.guards and limits.boundary_jump is None:
        raise ContractError.at(contract, "limits.boundary_jump", None, "the guard 'jump' compares with it",
                               "give it, or list rollback.guards without 'jump'")
