"""Reads a contract file into a frozen, validated Contract.

Owns the file's grammar: which keys there are, their types, units and ranges, and what a message type needs beside it.
Whether the contract fits a policy is verify.py's to judge. Imports nothing of the package outside contract/.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Mapping

from flashrt_ros.contract.errors import ContractError, listed
from flashrt_ros.contract.nodes import MAX_BYTES, Block, Document, compose
from flashrt_ros.contract.overrides import override
from flashrt_ros.contract.schema import (
    CLOSEST,
    CONTINUES,
    SELECTS,
    Align,
    Channel,
    Contract,
    Fork,
    Gripper,
    Image,
    Input,
    Limits,
    Output,
    PolicyChoice,
    Refresh,
    Rollback,
)

IMAGE_TYPES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")
JOINT_TYPE = "sensor_msgs/msg/JointState"
TEXT_TYPE = "std_msgs/msg/String"
INPUT_TYPES = (*IMAGE_TYPES, JOINT_TYPE, TEXT_TYPE)
OUTPUT_TYPES = ("trajectory_msgs/msg/JointTrajectory", "std_msgs/msg/Float64MultiArray", JOINT_TYPE)
REPRESENTATIONS = ("joint", "joint_delta", "ee_delta", "ee_pose")
GUARDS = Rollback().guards
QOS = ("sensor_data", "reliable", "latched")

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_JOINT = r"[A-Za-z0-9_][A-Za-z0-9_./-]*"
_TOPIC = rf"(/|~/)?{_NAME}(/{_NAME})*"
_MS = "milliseconds"

# The ranges catch a wrong unit: seconds for milliseconds, degrees for radians, millimetres for metres.
_AGE = dict(low=1.0, high=600_000.0, unit=_MS)
_POSITION = dict(low=-20.0, high=20.0, unit="rad or m")
_VELOCITY = dict(low=1e-4, high=50.0, unit="rad/s or m/s")
_ACCELERATION = dict(low=1e-4, high=5e3, unit="rad/s^2 or m/s^2")
_JERK = dict(low=1e-4, high=1e6, unit="rad/s^3 or m/s^3")
_JUMP = dict(low=1e-4, high=3.2, unit="rad or m")
_VALUE = dict(low=-1e4, high=1e4, unit="the policy's unit")
_TRACKING = dict(low=1e-4, high=3.2, unit="rad or m")


def load(source: str | Path, overrides: Mapping[str, str] = MappingProxyType({})) -> Contract:
    """The contract in the file at a path. Raises ContractError: file:line, key, value, what is allowed, the way out.

    overrides: dotted key -> YAML text of the value that is to stand there instead, or that the file lacks; the file's
    rules hold for them too, and its errors then name them behind the file.
    """
    name = str(source)
    try:
        with open(source, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        problem = getattr(error, "strerror", None) or str(error)
        raise ContractError(name, 1, "file", repr(name), problem, "give the path of a YAML file") from None
    if len(raw) > MAX_BYTES:
        raise ContractError(
            name,
            1,
            "file",
            f"over {MAX_BYTES} bytes",
            f"at most {MAX_BYTES} bytes",
            "a contract is a page or two of YAML",
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ContractError(
            name, line, "file", f"byte #x{raw[error.start]:02x}", "UTF-8 text", "save the file as UTF-8"
        ) from None
    return loads(text, name, overrides)


def loads(text: str, source: str = "<text>", overrides: Mapping[str, str] = MappingProxyType({})) -> Contract:
    """The same for YAML text; source stands for the file's name in errors."""
    if overrides:
        source += f" [{', '.join(f'{key}={value}' for key, value in overrides.items())}]"
    document = Document(source)
    tree = compose(text, document)
    override(tree, overrides, document)
    root = Block(
        document,
        "",
        tree,
        ("contract", "policy", "decision", "inputs", "stages", "outputs", "limits", "rollback"),
    )
    version = root.integer("contract", low=1, high=1)
    policy = _policy(root)
    decision = root.block("decision", ("rate_hz", "deadline_ms", "fork"), required=True)
    outputs = _outputs(root)
    return Contract(
        policy=policy,
        rate_hz=decision.number("rate_hz", low=0.1, high=1000.0, unit="decisions per second"),
        deadline_ms=decision.number("deadline_ms", low=1.0, high=10_000.0, unit=_MS),
        inputs=_inputs(root),
        refresh=_stages(root),
        outputs=outputs,
        limits=_limits(root, tuple(joint for output in outputs for joint in output.select)),
        rollback=_rollback(root),
        fork=_fork(decision),
        version=version,
        source=source,
        lines=MappingProxyType(document.lines),
        text=text,
        overrides=MappingProxyType(dict(overrides)),
    )


def _policy(root: Block) -> PolicyChoice:
    block = root.block("policy", ("type", "checkpoint", "precision", "allow_stale", "continues"), required=True)
    return PolicyChoice(
        type=block.text("type", pattern=_NAME, meaning="the name of a policy"),
        checkpoint=block.text("checkpoint", "builtin", pattern=".+", meaning="'builtin' or a path"),
        precision=block.text("precision", "fp32", choices=("fp32", "bf16", "fp16")),
        allow_stale=block.flag("allow_stale", False),
        continues=block.text("continues", "", choices=CONTINUES),
    )


def _inputs(root: Block) -> tuple[Input, ...]:
    return tuple(
        _input(block, name)
        for name, block in _named(
            root, "inputs", ("channel", "image", "select", "apply", "align", "max_age_ms", "default")
        )
    )


def _input(block: Block, name: str) -> Input:
    channel = _channel(block, "channel", INPUT_TYPES)
    # Which keys belong to which kind of message; those with True must be there.
    kind = {"image": channel.type in IMAGE_TYPES, "select": channel.type == JOINT_TYPE}
    for key, of_this_type in kind.items():
        if of_this_type and key not in block.nodes:
            raise block.error(key, f"{channel.type} needs it", f"add '{key}'")
    for key, of_this_type in {**kind, "apply": kind["select"], "default": channel.type == TEXT_TYPE}.items():
        if key in block.nodes and not of_this_type:
            raise block.error(key, f"{channel.type} doesn't take it", "take it out, or correct channel.type")
    select = block.texts(
        "select",
        pattern=rf"(position|velocity|effort)\.{_JOINT}",
        meaning="position.<joint>, velocity.<joint> or effort.<joint>",
    )
    if kind["select"] and not select:
        raise block.error(
            "select", "at least one of position.<joint>, velocity.<joint>, effort.<joint>", "name the joints"
        )
    return Input(
        name=name,
        channel=channel,
        image=_image(block),
        select=select,
        apply=block.texts("apply", choices=("deg2rad", "rad2deg")),
        align=_align(block),
        max_age_ms=block.number("max_age_ms", None, **_AGE),
        default=block.text("default", None),
    )


def _channel(parent: Block, key: str, types: tuple[str, ...]) -> Channel:
    block = parent.block(key, ("topic", "type", "qos"), required=True)
    kind = block.text("type", choices=types)
    usual = "reliable" if types is OUTPUT_TYPES else "latched" if kind == TEXT_TYPE else "sensor_data"
    return Channel(
        topic=block.text("topic", pattern=_TOPIC, meaning="a topic name: words of letters, digits and _, joined by /"),
        type=kind,
        qos=block.text("qos", usual, choices=QOS),
    )


def _image(parent: Block) -> Image | None:
    block = parent.block("image", ("size", "resize"))
    if block is None:
        return None
    height, width = block.numbers("size", length=2, low=1, high=8192, unit="pixels", meaning="[height, width]")
    if height % 1 or width % 1:
        raise block.error("size", "[height, width], two whole numbers of pixels", "round them")
    return Image((int(height), int(width)), block.text("resize", "pad", choices=("pad", "stretch", "exact")))


def _align(parent: Block) -> Align:
    block = parent.block("align", ("strategy", "timeline", "tolerance_ms"))
    if block is None:
        return Align()
    return Align(
        strategy=block.text("strategy", "hold", choices=("hold", "asof")),
        timeline=block.text("timeline", "header", choices=("header", "receive")),
        tolerance_ms=block.number("tolerance_ms", None, **_AGE),
    )


def _stages(root: Block) -> tuple[Refresh, ...]:
    return tuple(
        _stage(block, name) for name, block in _named(root, "stages", ("every", "on_change", "max_age_ms", "overlap"))
    )


def _stage(block: Block, name: str) -> Refresh:
    overlap = block.block("overlap", ("commit_after",))
    return Refresh(
        stage=name,
        every=block.integer("every", None, low=1, high=1000),
        on_change=block.texts("on_change", pattern=_NAME, meaning="the name of a buffer"),
        max_age_ms=block.number("max_age_ms", None, **_AGE),
        commit_after=None if overlap is None else overlap.integer("commit_after", low=1, high=1000),
    )


def _outputs(root: Block) -> tuple[Output, ...]:
    outputs = []
    taken: dict[tuple[str, str], str] = {}
    keys = ("name", "select", "representation", "gripper", "step_ms", "offset_ms", "controller")
    for block in root.blocks("outputs", keys):
        output = Output(
            name=block.text("name", pattern=_NAME, meaning="a name of letters, digits and _"),
            channel=_channel(block, "controller", OUTPUT_TYPES),
            select=block.texts("select", pattern=_JOINT, meaning="the name of a joint"),
            representation=block.text("representation", "joint", choices=REPRESENTATIONS),
            step_ms=block.number("step_ms", low=1.0, high=1000.0, unit=_MS),
            offset_ms=block.number("offset_ms", 0.0, low=-1000.0, high=1000.0, unit=_MS),
            gripper=_gripper(block),
        )
        if not output.select:
            raise block.error("select", "at least one joint name", "name the joints that this controller drives")
        if output.gripper is not None and len(output.select) > 1:
            raise block.error("select", "one joint, for the output has a gripper block", "give the gripper an output of its own")
        if output.gripper is not None and output.representation != "joint":
            raise block.error("representation", "'joint', for the gripper block gives positions", "leave one of the two out")
        for key, value in (("name", output.name), ("controller.topic", output.channel.topic)):
            if (key, value) in taken:
                path = block.path(key)
                raise block.document.error(
                    block.document.lines[path],
                    path,
                    repr(value),
                    f"already taken by {taken[key, value]}",
                    "each output has its own name and topic",
                )
            taken[key, value] = block.key
        outputs.append(output)
    return tuple(outputs)


def _gripper(parent: Block) -> Gripper | None:
    block = parent.block("gripper", ("close_at", "open_at", "closed", "open"))
    if block is None:
        return None
    gripper = Gripper(
        close_at=block.number("close_at", **_VALUE),
        open_at=block.number("open_at", **_VALUE),
        closed=block.number("closed", **_POSITION),
        open=block.number("open", **_POSITION),
    )
    if gripper.close_at == gripper.open_at:
        raise block.error("open_at", f"another value than close_at, {gripper.close_at:g}", "leave a band where it stays as it is")
    if gripper.closed == gripper.open:
        raise block.error("open", f"another position than closed, {gripper.closed:g}", "give the two ends of its travel")
    return gripper


def _limits(root: Block, joints: tuple[str, ...]) -> Limits:
    keys = ("position", "velocity", "acceleration", "jerk", "boundary_jump", "tracking_error")
    block = root.block("limits", keys, required=True)
    ranges = block.block("position", None)
    position = {}
    for joint in ranges.nodes if ranges else ():
        lower, upper = ranges.numbers(joint, length=2, meaning="[lower, upper]", **_POSITION)
        if lower >= upper:
            raise ranges.error(
                joint, f"[lower, upper] with lower < upper, found [{lower:g}, {upper:g}]", "swap or correct them"
            )
        position[joint] = (lower, upper)
    return Limits(
        position=MappingProxyType(position),
        velocity=MappingProxyType(block.number_each("velocity", joints, **_VELOCITY)),
        acceleration=MappingProxyType(block.number_each("acceleration", joints, **_ACCELERATION)),
        jerk=MappingProxyType(block.number_each("jerk", joints, **_JERK)),
        boundary_jump=block.number("boundary_jump", None, **_JUMP),
        tracking_error=MappingProxyType(block.number_each("tracking_error", joints, **_TRACKING)),
    )


def _fork(decision: Block) -> Fork | None:
    block = decision.block("fork", ("candidates", "select"))
    if block is None:
        return None
    return Fork(block.integer("candidates", low=2, high=16), block.text("select", CLOSEST, choices=SELECTS))


def _rollback(root: Block) -> Rollback:
    block = root.block("rollback", ("depth", "guards", "max_consecutive", "black_box"))
    usual = Rollback()
    if block is None:
        return usual
    return Rollback(
        depth=block.integer("depth", usual.depth, low=1, high=1000),
        guards=block.texts("guards", choices=GUARDS) if "guards" in block.nodes else usual.guards,
        max_consecutive=block.integer("max_consecutive", usual.max_consecutive, low=1, high=1000),
        black_box=block.text("black_box", usual.black_box, pattern=".+", meaning="a directory"),
    )


def _named(root: Block, key: str, allowed: tuple[str, ...]) -> list[tuple[str, Block]]:
    """The blocks of a mapping whose keys are names, in the file's order; at least one."""
    parent = root.block(key, None, required=True)
    if not parent.nodes:
        raise root.error(key, f"at least one name with the keys {listed(allowed)}", "add one")
    return [(name, parent.block(name, allowed)) for name in parent.nodes]
