"""What a policy declares in code: its buffers and stages. Pure Python; imports nothing of the package but errors.

The contract file (schema.py) binds topics, rates and limits to these declarations; verify.py joins the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from flashrt_ros.errors import FlashRTError

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1, "int32": 4, "int64": 8, "bool": 1}
BUFFER_KINDS = ("input", "derived", "state", "output")


class SpecError(FlashRTError):
    """A policy's own declaration is malformed (a programming error of the policy's author)."""


@dataclass(frozen=True, slots=True)
class BufferSpec:
    """One named array that stages exchange.

    kind: `input` is written from outside (images, joints, prompt, noise, ages); `derived` is a stage's pure function of
    its reads; `state` is recurrent: exactly one stage reads the previous boundary's value and writes the next; `output`
    leaves the pipeline. `timeless` inputs (a prompt, noise, an age) carry no stamp and never age.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    timeless: bool = False

    def __post_init__(self) -> None:
        if self.kind not in BUFFER_KINDS:
            raise SpecError(f"buffer '{self.name}': kind {self.kind!r} is not one of {', '.join(BUFFER_KINDS)}")
        if self.dtype not in DTYPE_BYTES:
            raise SpecError(f"buffer '{self.name}': dtype {self.dtype!r} is not one of {', '.join(DTYPE_BYTES)}")
        if not self.shape or any(not isinstance(n, int) or n < 1 for n in self.shape):
            raise SpecError(f"buffer '{self.name}': shape {self.shape} must be a non-empty tuple of positive integers")
        if self.timeless and self.kind != "input":
            raise SpecError(f"buffer '{self.name}': only inputs may be timeless; this one is {self.kind}")

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One step of the pipeline: a function of `reads` that overwrites `writes`. A state buffer stands in both."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A policy's declaration.

    action: the stage that writes the chunk; it runs at every decision.
    chunk: the output buffer, float32 [H, N]: H steps for the N names in `joints`.
    noise: the timeless input that the caller fills with fresh noise at each decision, or None.
    ages: pairs (buffer, source). Right before each run of the action, the engine fills `buffer`, a timeless float32 [1]
    that only the action reads, with the age of `source` in s: now minus its stamp, as the action finds it (negative for
    a stamp ahead of now). source: an input that ages, or what a stage before the action computes from one.
    plan: the timeless inputs (rows [H, N], firmness [H]), float32, that the caller fills at each decision with what the
    player is going to do in the chunk's own time (rad or m), and how firmly the chunk is to keep to each row: 1 for what
    will have been executed before the chunk can be entered, 0 for what is free or unknown. Only the action reads them.
    None: the policy does not continue a plan.
    trained_stale: the policy was trained (or built) to act on vision older than its action; without it, verify
    refuses to refresh any stage less often than the action.
    """

    type: str
    buffers: tuple[BufferSpec, ...]
    stages: tuple[StageSpec, ...]
    action: str
    chunk: str
    joints: tuple[str, ...]
    noise: str | None = None
    ages: tuple[tuple[str, str], ...] = ()
    plan: tuple[str, str] | None = None
    trained_stale: bool = False

    @property
    def by_name(self) -> dict[str, BufferSpec]:
        return {b.name: b for b in self.buffers}

    @property
    def engine_filled(self) -> frozenset[str]:
        """The inputs that no message fills and that are new at each decision: noise, ages and plan."""
        return frozenset(({self.noise} - {None}) | dict(self.ages).keys() | set(self.plan or ()))
