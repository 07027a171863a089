"""The error of a contract that can't be taken, and how its one line is put together. Imports nothing but errors."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Iterable

from flashrt_ros.errors import FlashRTError

if TYPE_CHECKING:
    from flashrt_ros.contract.schema import Contract

ABSENT = "(absent)"  # shown as the value of a key that should be there
_LONGEST_VALUE = 60


class ContractError(FlashRTError):
    """A contract is malformed, contradicts itself, the policy or the measured times.

    Its text is one line, `file:line: key: value X: what is allowed: way out`; the parts are attributes too.
    """

    def __init__(self, source: str, line: int, key: str, value: str, allowed: str, way_out: str) -> None:
        self.source, self.line, self.key, self.value = source, line, key, value
        self.allowed, self.way_out = allowed, way_out
        shown = value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 3] + "..."
        super().__init__(" ".join(f"{source}:{line}: {key}: value {shown}: {allowed}: {way_out}".split()))

    @classmethod
    def at(cls, contract: Contract, key: str, value: str, allowed: str, way_out: str) -> ContractError:
        """The error of a contract that was read: the line is that of the key, or of the block around it."""
        return cls(contract.source, contract.line(key), key, value, allowed, way_out)


def nearest(word: str, allowed: Iterable[str]) -> str:
    """The way out of a misspelt word: the allowed one that is most like it."""
    close = get_close_matches(word, list(allowed), n=1, cutoff=0.0)
    return f"did you mean '{close[0]}'?" if close else "take it out"


def listed(words: Iterable[str]) -> str:
    return ", ".join(words) or "none"
