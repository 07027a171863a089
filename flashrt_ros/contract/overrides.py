"""Other values for some keys of a contract, set in the YAML tree before anything is read: so that settings of one file can
be compared, and each is judged by the file's own rules. Imports nothing of the package but errors and nodes."""

from __future__ import annotations

import re
from typing import Mapping

import yaml

from flashrt_ros.contract.errors import ContractError
from flashrt_ros.contract.nodes import Document, compose, shown

_NAME = r"[^.\[\]\s]+"
_PATH = re.compile(rf"{_NAME}(\[\d+\])*(\.{_NAME}(\[\d+\])*)*")
_STEP = re.compile(rf"{_NAME}|\[\d+\]")
_TEXT, _MAP, _NULL = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "map", "null"))


def override(root: yaml.MappingNode, overrides: Mapping[str, str], document: Document) -> None:
    """Set dotted keys (`stages.vision.every`, `outputs[0].step_ms`) of a contract's root to values, each written as YAML.

    Blocks on the way are made where there are none; null takes a key out. What is set takes the line of what it replaces, or of the block around
    it. Whether a key or a value may be there is for load to judge. Raises ContractError for a key that is no path, for one
    that leads through a value or past the end of a list, and for a value that is not YAML.
    """
    for key, text in overrides.items():
        if not _PATH.fullmatch(key):
            raise document.error(1, key, repr(text), "a key is names joined by dots, items of a list counted from 0",
                                 "write it like stages.vision.every or outputs[0].step_ms")
        _set(root, _STEP.findall(key), _value(key, text, document), key, document)


def _value(key: str, text: str, document: Document) -> yaml.Node:
    try:
        root = compose(f"value: {text}", document)
    except ContractError as error:
        problem = f"not a value in YAML ({error.allowed})"
    else:
        if len(root.value) == 1:
            return root.value[0][1]
        problem = "one value"
    raise document.error(1, key, repr(text), problem, "write it as in the file, on one line")


def _set(node: yaml.Node, steps: list[str], value: yaml.Node, key: str, document: Document) -> yaml.Node:
    """The node with the value set at `steps` below it; a mapping in place of null."""
    if not steps:
        _stand_at(value, node.start_mark)
        return value
    step, rest = steps[0], steps[1:]
    if step.startswith("["):
        if not isinstance(node, yaml.SequenceNode) or int(step[1:-1]) >= len(node.value):
            raise document.error(node, key, shown(node), f"a list with an item {step}", "items are counted from 0")
        node.value[int(step[1:-1])] = _set(node.value[int(step[1:-1])], rest, value, key, document)
        return node
    if isinstance(node, yaml.ScalarNode) and node.tag == _NULL:
        node = yaml.MappingNode(_MAP, [], node.start_mark)
    if not isinstance(node, yaml.MappingNode):
        raise document.error(node, key, shown(node), f"a block that '{step}' can stand in", "set the value itself")
    for i, (name, child) in enumerate(node.value):
        if name.value == step and not rest and value.tag == _NULL:
            del node.value[i]
            return node
        if name.value == step:
            node.value[i] = (name, _set(child, rest, value, key, document))
            return node
    absent = yaml.ScalarNode(_NULL, "", node.start_mark)
    node.value.append((yaml.ScalarNode(_TEXT, step, node.start_mark), _set(absent, rest, value, key, document)))
    return node


def _stand_at(node: yaml.Node, mark: yaml.Mark) -> None:
    node.start_mark = mark
    for child in node.value if isinstance(node.value, list) else ():
        for part in child if isinstance(child, tuple) else (child,):
            _stand_at(part, mark)
