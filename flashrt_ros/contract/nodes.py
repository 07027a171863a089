"""YAML with line numbers: reads a text into nodes and hands out checked scalars, each error naming file, line and key.

Owns the dialect: YAML 1.2 numbers and booleans in plain scalars, no aliases, no tags, no repeated keys. Knows nothing
of what a contract means. Imports nothing of the package but errors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Iterable, Sequence, TypeVar

import yaml

from flashrt_ros.contract.errors import ABSENT, ContractError, listed, nearest

MAX_BYTES = 1 << 20
MAX_DEPTH = 12

REQUIRED = object()
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
_PREFIX = "tag:yaml.org,2002:"
_TAGS = {_PREFIX + t for t in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp", "merge", "value")}

T = TypeVar("T")


@dataclass
class Document:
    """A text being read. lines: dotted key -> line number, filled as keys are met; items of a list are `key[0]`, ..."""

    source: str
    lines: dict[str, int] = field(default_factory=dict)

    def error(self, node: yaml.Node | int, key: str, value: str, allowed: str, way_out: str) -> ContractError:
        line = node if isinstance(node, int) else node.start_mark.line + 1
        return ContractError(self.source, line, key, value, allowed, way_out)


class _Loader(yaml.SafeLoader):
    """Composes nodes; refuses what lets a small text stand for a large or endless one."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node:
        mark = self.peek_event().start_mark
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not allowed; write the value out", problem_mark=mark
            )
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=f"nested deeper than {MAX_DEPTH} levels", problem_mark=mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        if node.tag not in _TAGS:
            raise yaml.MarkedYAMLError(
                problem=f"the tag {node.tag} is not allowed; write plain values", problem_mark=mark
            )
        return node


def compose(text: str, document: Document) -> yaml.MappingNode:
    """The root mapping of a YAML text. Raises ContractError for anything else."""
    if (size := len(text.encode("utf-8", "surrogatepass"))) > MAX_BYTES:
        raise document.error(
            1, "file", f"{size} bytes", f"at most {MAX_BYTES} bytes", "a contract is a page or two of YAML"
        )
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = ", ".join(words for words in (error.context, error.problem) if words)
        tab = "\\t" in problem or "tab" in problem
        way_out = "indent with spaces, not tabs" if tab else "mend the YAML there"
        raise document.error(mark.line + 1, "file", f"column {mark.column + 1}", problem, way_out) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise document.error(
            line,
            "file",
            f"character #x{ord(text[error.position]):04x}",
            "printable text only",
            "take the character out",
        ) from None
    if root is None or _is_null(root):
        raise document.error(
            1,
            "file",
            "(empty)",
            "a mapping that begins with 'contract: 1'",
            "see config/color_servo.contract.yaml for a whole one",
        )
    if not isinstance(root, yaml.MappingNode):
        raise document.error(
            root, "file", shown(root), "a mapping that begins with 'contract: 1'", "write 'key: value' lines"
        )
    return root


def shown(node: yaml.Node) -> str:
    """A node's value as an error message shows it."""
    if isinstance(node, yaml.MappingNode):
        return f"a mapping of {len(node.value)} keys"
    if isinstance(node, yaml.SequenceNode):
        return f"a list of {len(node.value)}"
    return repr(node.value) if node.style or node.tag == _PREFIX + "str" else node.value or "null"


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _PREFIX + "null"


class Block:
    """A mapping: its keys checked at construction, its values on the way out. A null block is an empty one.

    allowed: the keys that may stand in it; None: any name. All getters raise ContractError.
    """

    def __init__(self, document: Document, key: str, node: yaml.Node, allowed: Sequence[str] | None) -> None:
        self.document, self.key, self.node = document, key, node
        self.nodes: dict[str, yaml.Node] = {}
        if _is_null(node):
            return
        if not isinstance(node, yaml.MappingNode):
            keys = "names" if allowed is None else listed(allowed)
            raise document.error(node, key, shown(node), f"a mapping with the keys {keys}", "write 'key: value' lines")
        for name_node, value in node.value:
            if not isinstance(name_node, yaml.ScalarNode) or not name_node.value:
                raise document.error(name_node, key or "file", shown(name_node), "keys are plain words", "name the key")
            name = name_node.value
            path = self.path(name)
            if name in self.nodes:
                raise document.error(
                    name_node,
                    path,
                    shown(value),
                    f"given twice, first on line {document.lines[path]}",
                    "keep one of them",
                )
            if allowed is not None and name not in allowed:
                raise document.error(
                    name_node,
                    path,
                    shown(value),
                    f"unknown key; allowed here: {listed(allowed)}",
                    nearest(name, allowed),
                )
            document.lines[path] = name_node.start_mark.line + 1
            self.nodes[name] = value

    def path(self, name: str) -> str:
        return f"{self.key}.{name}" if self.key else name

    def error(self, name: str, allowed: str, way_out: str) -> ContractError:
        node = self.nodes.get(name)
        line = self.document.lines.get(self.key, 1) if node is None else node
        return self.document.error(line, self.path(name), ABSENT if node is None else shown(node), allowed, way_out)

    def block(self, name: str, allowed: Sequence[str] | None, required: bool = False) -> Block | None:
        if name in self.nodes:
            return Block(self.document, self.path(name), self.nodes[name], allowed)
        if required:
            raise self.error(
                name,
                f"a mapping with the keys {'of your choice' if allowed is None else listed(allowed)}",
                "add the block",
            )
        return None

    def blocks(self, name: str, allowed: Sequence[str]) -> list[Block]:
        """A non-empty list of mappings."""
        node = self.nodes.get(name)
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            raise self.error(name, f"a list of mappings with the keys {listed(allowed)}", "write '- {name: ...}' lines")
        self._number_items(name, node)
        return [Block(self.document, f"{self.path(name)}[{i}]", item, allowed) for i, item in enumerate(node.value)]

    def text(
        self, name: str, default: T = REQUIRED, *, choices: Sequence[str] = (), pattern: str = "", meaning: str = "text"
    ) -> str | T:
        """A string: one of `choices` if they are given, matching `pattern` if that is (`meaning` says it in words)."""
        if name not in self.nodes:
            return self._default(name, default, listed(choices) if choices else meaning)
        return self._text(self.nodes[name], self.path(name), choices, pattern, meaning)

    def texts(
        self, name: str, *, choices: Sequence[str] = (), pattern: str = "", meaning: str = "text"
    ) -> tuple[str, ...]:
        """A list of different strings; absent: empty."""
        node = self.nodes.get(name)
        if node is None:
            return ()
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(name, f"a list, each item {listed(choices) if choices else meaning}", "write it as [a, b]")
        self._number_items(name, node)
        out: list[str] = []
        for i, item in enumerate(node.value):
            path = f"{self.path(name)}[{i}]"
            word = self._text(item, path, choices, pattern, meaning)
            if word in out:
                raise self.document.error(item, path, shown(item), "each item stands once", "take the repetition out")
            out.append(word)
        return tuple(out)

    def number(self, name: str, default: T = REQUIRED, *, low: float, high: float, unit: str) -> float | T:
        """A number in [low, high]; unit is part of the message."""
        if name not in self.nodes:
            return self._default(name, default, f"a number from {low:g} to {high:g} ({unit})")
        return self._number(self.nodes[name], self.path(name), low, high, unit)

    def integer(self, name: str, default: T = REQUIRED, *, low: int, high: int) -> int | T:
        allowed = f"a whole number from {low} to {high}"
        node = self.nodes.get(name)
        if node is None:
            return self._default(name, default, allowed)
        if not (_plain(node) and _INTEGER.fullmatch(node.value)) or not low <= int(node.value) <= high:
            raise self.error(name, allowed, "write it without quotes, unit or fraction")
        return int(node.value)

    def flag(self, name: str, default: bool) -> bool:
        node = self.nodes.get(name)
        if node is None:
            return default
        if not _plain(node) or node.value not in ("true", "false"):
            raise self.error(name, "true or false", "write one of the two, without quotes")
        return node.value == "true"

    def numbers(self, name: str, *, length: int, low: float, high: float, unit: str, meaning: str) -> tuple[float, ...]:
        """A list of `length` numbers in [low, high]."""
        node = self.nodes.get(name)
        if not isinstance(node, yaml.SequenceNode) or len(node.value) != length:
            raise self.error(name, f"{meaning}, two numbers from {low:g} to {high:g} ({unit})", "write it as [a, b]")
        return tuple(self._number(n, f"{self.path(name)}[{i}]", low, high, unit) for i, n in enumerate(node.value))

    def number_each(self, name: str, keys: Iterable[str], *, low: float, high: float, unit: str) -> dict[str, float]:
        """A mapping of name -> number; a single number stands for every one of `keys`. Absent: empty."""
        node = self.nodes.get(name)
        if node is None:
            return {}
        if isinstance(node, yaml.ScalarNode) and not _is_null(node):
            return dict.fromkeys(keys, self._number(node, self.path(name), low, high, unit))
        block = Block(self.document, self.path(name), node, None)
        return {k: block.number(k, low=low, high=high, unit=unit) for k in block.nodes}

    def _default(self, name: str, default: T, allowed: str) -> T:
        if default is REQUIRED:
            raise self.error(name, f"required: {allowed}", "add the key")
        return default

    def _number_items(self, name: str, node: yaml.SequenceNode) -> None:
        for i, item in enumerate(node.value):
            self.document.lines[f"{self.path(name)}[{i}]"] = item.start_mark.line + 1

    def _text(self, node: yaml.Node, path: str, choices: Sequence[str], pattern: str, meaning: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or (_plain(node) and node.tag != _PREFIX + "str"):
            raise self.document.error(
                node, path, shown(node), listed(choices) if choices else meaning, "put it in quotes if text is meant"
            )
        if choices and node.value not in choices:
            raise self.document.error(
                node, path, shown(node), f"allowed: {listed(choices)}", nearest(node.value, choices)
            )
        if pattern and not re.fullmatch(pattern, node.value):
            raise self.document.error(node, path, shown(node), meaning, "spell it that way")
        return node.value

    def _number(self, node: yaml.Node, path: str, low: float, high: float, unit: str) -> float:
        allowed = f"a number from {low:g} to {high:g} ({unit})"
        if not (_plain(node) and _NUMBER.fullmatch(node.value)):
            raise self.document.error(node, path, shown(node), allowed, "write the bare number, without quotes or unit")
        value = float(node.value) + 0.0  # -0 reads as 0
        if not low <= value <= high:
            raise self.document.error(node, path, shown(node), allowed, f"convert it to {unit}, or correct it")
        return value


def _plain(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.style
