"""Joint limits out of a robot's description (URDF), and the tighter of two sets of limits. Owns what of the XML counts.

A description comes from the graph, so it is not trusted: a document type, and with it every entity, is refused, nothing is
fetched, and its size is bounded.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, replace
from math import inf, isfinite

import numpy as np

from flashrt_ros.errors import FlashRTError
from flashrt_ros.player.limits import FAR, Limits

MAX_CHARACTERS = 16 * 1024 * 1024
DRIVEN = ("revolute", "prismatic", "continuous")


class UrdfError(FlashRTError):
    """A robot description is malformed, unsafe, or lacks a joint that is driven."""


@dataclass(frozen=True, slots=True)
class JointRange:
    """lower, upper: rad or m; infinite for a continuous joint. velocity: per s; infinite if there is none."""

    lower: float
    upper: float
    velocity: float


class _Builder(ElementTree.TreeBuilder):
    def doctype(self, name, pubid, system) -> None:  # called before anything in it is read
        raise UrdfError("robot description: it has a document type (<!DOCTYPE ...>); allowed: none, for it may define "
                        "entities that grow without bound. Take it out")


def joint_ranges(text: str, joints: tuple[str, ...]) -> dict[str, JointRange]:
    """The ranges of these joints. Joints that are fixed, float or mimic another have none. Raises UrdfError."""
    if len(text) > MAX_CHARACTERS:
        raise UrdfError(f"robot description: {len(text)} characters; at most {MAX_CHARACTERS} are read")
    try:
        robot = ElementTree.fromstring(text, ElementTree.XMLParser(target=_Builder()))
    except (ElementTree.ParseError, ValueError) as error:  # ValueError: characters that no encoding can hold
        raise UrdfError(f"robot description: it is not XML ({error}); it must be the URDF itself, after xacro") from None
    if robot.tag != "robot":
        raise UrdfError(f"robot description: its root is <{robot.tag[:40]}>; it must be <robot>")
    # Only children of the robot: <joint> in <transmission> and <ros2_control> means something else.
    elements = robot.findall("joint")
    return {joint: _range(joint, elements) for joint in joints}


def tighten(limits: Limits, ranges: dict[str, JointRange]) -> tuple[Limits, tuple[str, ...]]:
    """For each joint the tighter of both; and for each limit that is wider than the URDF's, a warning with both values.
    Raises UrdfError if nothing is left of a joint's range."""
    found = [ranges[name] for name in limits.names]
    lower = np.maximum(limits.lower, [r.lower for r in found])
    upper = np.minimum(limits.upper, [r.upper for r in found])
    warnings = []
    for i, (name, theirs) in enumerate(zip(limits.names, found)):
        ours = (limits.lower[i], limits.upper[i])
        if lower[i] >= upper[i]:
            raise UrdfError(f"joint '{name}': position limits {_shown(ours)} of the contract and "
                            f"{_shown((theirs.lower, theirs.upper))} of the URDF leave no range. Correct one of them")
        unlimited = -ours[0] == ours[1] == FAR  # not given, so not wider
        if not unlimited and (theirs.lower > ours[0] or theirs.upper < ours[1]):
            warnings.append(f"joint '{name}': position {_shown(ours)} of the contract is wider than "
                            f"{_shown((theirs.lower, theirs.upper))} of the URDF, which counts")
        if theirs.velocity < limits.velocity[i]:
            warnings.append(f"joint '{name}': velocity {limits.velocity[i]:g} of the contract is wider than "
                            f"{theirs.velocity:g} of the URDF, which counts")
    velocity = np.minimum(limits.velocity, [r.velocity for r in found])
    return replace(limits, lower=lower, upper=upper, velocity=velocity), tuple(warnings)


def _range(joint: str, elements: list[ElementTree.Element]) -> JointRange:
    named = [element for element in elements if element.get("name") == joint]
    if len(named) != 1:
        has = ", ".join(e.get("name", "?") for e in elements if e.get("type") in DRIVEN and e.find("mimic") is None)
        raise UrdfError(f"joint '{joint}': the URDF has {len(named)} of that name; it must have one. It can move {has or 'none'}")
    element, kind = named[0], named[0].get("type")
    if kind not in DRIVEN:
        raise UrdfError(f"joint '{joint}': its type in the URDF is {kind!r}; a driven joint is {', '.join(DRIVEN)}")
    if (mimic := element.find("mimic")) is not None:
        raise UrdfError(f"joint '{joint}': in the URDF it mimics '{mimic.get('joint')}'; drive that one instead")
    limit = element.find("limit")
    if limit is None and kind != "continuous":
        raise UrdfError(f"joint '{joint}': its <limit> is missing in the URDF; a {kind} joint needs one")
    velocity = inf if limit is None or limit.get("velocity") is None else _number(joint, limit, "velocity")
    if not velocity > 0:
        raise UrdfError(f"joint '{joint}': velocity limit {velocity:g} in the URDF; it must be positive")
    if kind == "continuous":
        return JointRange(-inf, inf, velocity)
    lower, upper = _number(joint, limit, "lower"), _number(joint, limit, "upper")
    if lower >= upper:
        raise UrdfError(f"joint '{joint}': position limits {_shown((lower, upper))} in the URDF; lower must be below upper")
    return JointRange(lower, upper, velocity)


def _number(joint: str, limit: ElementTree.Element, key: str) -> float:
    text = limit.get(key, "0")  # what URDF says of an absent bound
    try:
        value = float(text)
    except ValueError:
        value = inf
    if not isfinite(value):
        raise UrdfError(f"joint '{joint}': {key} limit {text[:40]!r} in the URDF; it must be a finite number")
    return value


def _shown(bounds: tuple[float, float]) -> str:
    return f"[{bounds[0]:g}, {bounds[1]:g}]"
