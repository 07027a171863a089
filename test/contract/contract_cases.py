"""The demo's contract, broken on purpose, and what its error must look like."""

from __future__ import annotations

from typing import Mapping, NamedTuple

import pytest

from contract_specs import CONTRACT, SERVO
from flashrt_ros.contract.errors import ContractError
from flashrt_ros.contract.load import loads
from flashrt_ros.contract.spec import PolicySpec
from flashrt_ros.contract.verify import verify

TEXT = CONTRACT.read_text()


class Case(NamedTuple):
    """The line that holds `find` (and those after it, up to the one that holds `until`) replaced by `put`. The error
    must point at the line that holds `at` and say `words`, where " ... " stands for anything."""

    find: str
    put: str
    words: str
    at: str = "#!"
    until: str = ""

    @property
    def text(self) -> str:
        lines = TEXT.splitlines()
        begin = line_of(TEXT, self.find) - 1
        end = line_of(TEXT, self.until, begin + 1) - 1 if self.until else begin + 1
        return "\n".join([*lines[:begin], *([self.put] if self.put else []), *lines[end:], ""])

    def check(self) -> None:
        error = refused(self.text)
        assert error.line == line_of(self.text, self.at)
        assert_says(error, self.words)


def line_of(text: str, words: str, after: int = 0) -> int:
    """Number of the first line after line `after` that holds the words."""
    return next(i for i, line in enumerate(text.splitlines(), 1) if i > after and words in line)


def refused(text: str, spec: PolicySpec = SERVO, stage_ms: Mapping[str, float] | None = None) -> ContractError:
    """The error that a contract's text must end in, of the form that every error must have."""
    with pytest.raises(ContractError) as caught:
        verify(loads(text, "arm.yaml"), spec, stage_ms)
    error = caught.value
    message = str(error)
    assert message.startswith(f"arm.yaml:{error.line}: {error.key}: value ") and len(message.splitlines()) == 1
    assert error.allowed and error.way_out and message.endswith(error.way_out)
    return error


def assert_says(error: ContractError, words: str) -> None:
    rest = str(error)
    for part in words.split(" ... "):
        assert part in rest
        rest = rest.split(part, 1)[1]
