"""A verified pipeline: the contract and the policy's declaration joined, stages in topological order.

Made by verify.verify() only; everything that runs takes a Pipeline and need not check it again. Pure Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from flashrt_ros.contract.schema import Contract, Input
from flashrt_ros.contract.spec import BufferSpec, PolicySpec


@dataclass(frozen=True, slots=True)
class Stage:
    """A policy stage with the contract's refresh rule. every=None and on_change=(): it follows what it reads.
    commit_after=None: foreground. The action stage always has every=1 and runs in the foreground."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    every: int | None = None
    on_change: tuple[str, ...] = ()
    max_age_ns: int | None = None
    commit_after: int | None = None

    @property
    def follows(self) -> bool:
        return self.every is None and not self.on_change


@dataclass(frozen=True)
class Pipeline:
    contract: Contract
    spec: PolicySpec
    stages: tuple[Stage, ...]  # topological
    warnings: tuple[str, ...] = ()  # published while running: for example, allow_stale

    @cached_property
    def buffers(self) -> dict[str, BufferSpec]:
        return self.spec.by_name

    @cached_property
    def writer(self) -> dict[str, str]:
        """Buffer -> the stage that writes it; inputs are absent."""
        return {b: s.name for s in self.stages for b in s.writes}

    @cached_property
    def stage(self) -> dict[str, Stage]:
        return {s.name: s for s in self.stages}

    @cached_property
    def input(self) -> dict[str, Input]:
        return {i.name: i for i in self.contract.inputs}

    @cached_property
    def texts(self) -> tuple[Input, ...]:
        """The inputs that instructions come by: those with a topic that never age."""
        return tuple(i for i in self.contract.inputs if self.buffers[i.name].timeless)

    @property
    def instruction(self) -> str:
        """The instruction in force before the first message; empty: none."""
        return next((i.default or "" for i in self.texts), "")

    @property
    def action(self) -> Stage:
        return self.stage[self.spec.action]

    @property
    def period_ns(self) -> int:
        return self.contract.period_ns
