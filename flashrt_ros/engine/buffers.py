"""The pipeline's named arrays on one device, with their versions and stamps.

Every tensor of the engine comes from an Arena, whose counter proves that the hot path allocates none. Must not import
the rest of the engine but for its error.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Collection, Iterable, Mapping

import numpy as np
import torch

from flashrt_ros.contract.spec import DTYPE_BYTES, BufferSpec
from flashrt_ros.engine.decision import EngineError
from flashrt_ros.engine.observation import InputValue

TORCH_DTYPE = {name: getattr(torch, name) for name in DTYPE_BYTES}
# numpy has no bfloat16: such inputs arrive as float32 and are rounded to nearest even on the way in.
NUMPY_DTYPE = {name: np.dtype("float32" if name == "bfloat16" else name) for name in DTYPE_BYTES}


class InputError(EngineError):
    """An observation does not fit the pipeline's input buffers."""


class Arena:
    """The one place that allocates. allocations: tensors handed out so far."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.allocations = 0

    def tensor(self, spec: BufferSpec) -> torch.Tensor:
        """A zeroed tensor of the buffer's shape and dtype on the device."""
        self.allocations += 1
        return torch.zeros(spec.shape, dtype=TORCH_DTYPE[spec.dtype], device=self.device)

    def memory(self, nbytes: int, host: bool = False) -> torch.Tensor:
        """Zeroed bytes, uint8 [nbytes]: on the device, or page-locked on its host."""
        self.allocations += 1
        if host:
            return torch.zeros(nbytes, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        return torch.zeros(nbytes, dtype=torch.uint8, device=self.device)

    def host(self, spec: BufferSpec) -> torch.Tensor:
        """A zeroed CPU tensor of the dtype that numpy sees; page-locked when the device is a GPU."""
        self.allocations += 1
        dtype = TORCH_DTYPE[NUMPY_DTYPE[spec.dtype].name]
        return torch.zeros(spec.shape, dtype=dtype, pin_memory=self.device.type == "cuda")


class Buffers:
    """tensors, versions, stamps: per buffer name. A version is the number of writes so far and is never taken back;
    a stamp (ns) is that of the oldest observation in the content, None when timeless or never written. ages: the inputs
    that no observation holds, and that write_age fills. placed: tensors that exist already; the others are allocated."""

    def __init__(self, specs: Iterable[BufferSpec], arena: Arena, ages: Collection[str] = (),
                 placed: Mapping[str, torch.Tensor] = MappingProxyType({})) -> None:
        self.specs = {s.name: s for s in specs}
        self.tensors = {name: placed[name] if name in placed else arena.tensor(spec) for name, spec in self.specs.items()}
        self.versions = {name: 0 for name in self.specs}
        self.stamps: dict[str, int | None] = {name: None for name in self.specs}
        inputs = [s for s in self.specs.values() if s.kind == "input"]
        self._ages = frozenset(ages)
        self._idents: dict[str, int | None] = {s.name: None for s in inputs if s.name not in self._ages}
        self._staging = {s.name: _Staging(s, self.tensors[s.name], arena) for s in inputs}

    @property
    def inputs(self) -> tuple[str, ...]:
        """Those that every observation holds."""
        return tuple(self._idents)

    def check(self, inputs: Mapping[str, InputValue]) -> None:
        """Raises InputError, naming buffer, found and expected, unless `inputs` fits every input buffer exactly."""
        for name in inputs:
            if name in self._ages:
                raise InputError(f"input '{name}' is an age, which the engine fills itself; take it out of the observation")
            if name not in self._idents:
                raise InputError(f"'{name}' is not an input of this pipeline; its inputs are {', '.join(self.inputs)}")
        for name in self.inputs:
            if name not in inputs:
                raise InputError(f"input '{name}' is missing; every observation holds {', '.join(self.inputs)}")
            _check_value(self.specs[name], inputs[name].value)
            _check_stamp(self.specs[name], inputs[name].stamp_ns)

    def write_inputs(self, inputs: Mapping[str, InputValue]) -> None:
        """Write each checked value whose ident differs from the last one written."""
        for name, given in inputs.items():
            if given.ident != self._idents[name]:
                self._staging[name].write(given.value)
                self.versions[name] += 1
                self.stamps[name] = given.stamp_ns
                self._idents[name] = given.ident

    def fill(self, name: str, value: np.ndarray) -> None:
        """Set an input's content and nothing else (for warm-up). Raises InputError for a value that does not fit."""
        _check_value(self.specs[name], value)
        self._staging[name].write(value)

    def write_age(self, name: str, age_ns: int) -> None:
        """Write an age (ns) as seconds."""
        self._staging[name].write(np.float32(age_ns / 1e9))
        self.versions[name] += 1

    def wrote(self, names: Iterable[str], stamp_ns: int | None) -> None:
        """Record that a stage wrote these buffers."""
        for name in names:
            self.versions[name] += 1
            self.stamps[name] = stamp_ns

    @property
    def idents(self) -> dict[str, int | None]:
        """Per input, which value was written last; a copy."""
        return dict(self._idents)

    def become(self, versions: Mapping[str, int], stamps: Mapping[str, int | None], idents: Mapping[str, int | None]) -> None:
        """Take these for content that was put into the tensors from outside."""
        self.versions.update(versions)
        self.stamps.update(stamps)
        self._idents.update(idents)

    def clear(self) -> None:
        """Zero every buffer and forget stamps and idents; versions stay. The next observation is written in full."""
        for name, tensor in self.tensors.items():
            tensor.zero_()
            self.stamps[name] = None
        self._idents = dict.fromkeys(self._idents)


def copy(pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Copy (to, from) pairs of equal shape and dtype, byte for byte."""
    for to, source in pairs:
        to.copy_(source, non_blocking=True)


def _check_value(spec: BufferSpec, value: object) -> None:
    expected = NUMPY_DTYPE[spec.dtype]
    if not isinstance(value, np.ndarray):
        raise InputError(f"input '{spec.name}': found a {type(value).__name__}; expected a numpy array {spec.shape}")
    if value.dtype != expected:
        note = " (bfloat16 is given as float32)" if spec.dtype == "bfloat16" else ""
        raise InputError(f"input '{spec.name}': found dtype {value.dtype}; expected {expected}{note}")
    if value.shape != spec.shape:
        raise InputError(f"input '{spec.name}': found shape {value.shape}; expected {spec.shape}")


def _check_stamp(spec: BufferSpec, stamp_ns: int | None) -> None:
    if spec.timeless != (stamp_ns is None):
        wanted = "None, for it is timeless" if spec.timeless else "an integer in ns, for its age counts"
        raise InputError(f"input '{spec.name}': found stamp_ns {stamp_ns}; expected {wanted}")


class _Staging:
    """The host side of one input. On a GPU two page-locked slots alternate, each with an event that says when its copy
    is done, so that writing one never waits for the copy just issued; on a CPU the buffer itself is written."""

    def __init__(self, spec: BufferSpec, target: torch.Tensor, arena: Arena) -> None:
        self._target = target
        on_gpu = target.device.type == "cuda"
        if on_gpu or spec.dtype == "bfloat16":
            self._slots = [arena.host(spec) for _ in range(2 if on_gpu else 1)]
        else:
            self._slots = [target]
        self._copied = [torch.cuda.Event() for _ in self._slots] if on_gpu else []
        self._turn = 0

    def write(self, value: np.ndarray | np.float32) -> None:
        slot = self._slots[self._turn]
        if self._copied:
            self._copied[self._turn].synchronize()
        np.copyto(slot.numpy(), value)
        if slot is not self._target:
            self._target.copy_(slot, non_blocking=True)
        if self._copied:
            self._copied[self._turn].record()
        self._turn = (self._turn + 1) % len(self._slots)
