"""An instruction: one of three tasks on a named cube, and its text. Pure Python; imports no torch and no ROS."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flashrt_ros.errors import FlashRTError
from flashrt_ros.policies.tabletop_cell import COLOURS

KINDS = ("pick", "place", "belt")
_FORMS = {
    "pick": "pick up the {colour} cube",
    "place": "put the {colour} cube in the {bin} bin",
    "belt": "pick the {colour} cube from the moving belt",
}
_PATTERNS = {
    kind: re.compile(form.format(colour=r"(?P<colour>\w+)", bin=r"(?P<bin>\w+)")) for kind, form in _FORMS.items()
}

# (cube colour, bin colour) of place instructions that no training episode states. Each colour occurs in training as a cube and
# as a bin, so a policy that follows the words manages these pairs too; one that has learned pairs by heart does not.
HELD_OUT = frozenset({("red", "blue"), ("green", "yellow"), ("blue", "red"), ("yellow", "green")})


class InstructionError(FlashRTError):
    """A text is none of the instructions, or a field of one is out of range."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """kind: pick, place or belt; colour: the named cube's; bin: the named bin's colour (place only, else None)."""

    kind: str
    colour: str
    bin: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InstructionError(f"kind {self.kind!r} is not one of {', '.join(KINDS)}")
        if self.colour not in COLOURS:
            raise InstructionError(f"cube colour {self.colour!r} is not one of {', '.join(COLOURS)}")
        if self.kind == "place" and self.bin not in COLOURS:
            raise InstructionError(f"bin colour {self.bin!r} is not one of {', '.join(COLOURS)}")
        if self.kind != "place" and self.bin is not None:
            raise InstructionError(f"a {self.kind} instruction names no bin, but bin is {self.bin!r}")

    @property
    def text(self) -> str:
        return _FORMS[self.kind].format(colour=self.colour, bin=self.bin)


def is_held_out(instruction: Instruction) -> bool:
    """Whether it names a pair of HELD_OUT; never so for pick and belt."""
    return (instruction.colour, instruction.bin) in HELD_OUT


def parse(text: str) -> Instruction:
    """The instruction that a text states; case, surrounding and repeated white space do not matter.

    Raises InstructionError, which names the text and the allowed forms.
    """
    plain = " ".join(text.split()).lower()
    for kind, pattern in _PATTERNS.items():
        match = pattern.fullmatch(plain)
        if match:
            named = match.groupdict()
            if all(word in COLOURS for word in named.values()):
                return Instruction(kind, named["colour"], named.get("bin"))
    forms = "; ".join(f"'{form}'" for form in _FORMS.values())
    raise InstructionError(
        f"instruction {text!r} is not understood; allowed are {forms}, with colours {', '.join(COLOURS)}"
    )
