"""Where messages become an observation: the newest sample of every input, and the one place that judges alignment,
age and soundness. Live nodes and bag replay share it.

numpy only: no ROS, no torch. `offer` runs on an executor thread and only stores; decoding happens in `take`, on the
worker's thread.
"""

from __future__ import annotations

import threading
import zlib
from dataclasses import dataclass, replace
from typing import Any, Callable

import numpy as np

from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.engine.observation import InputValue, Observation
from flashrt_ros.engine.slot import FUTURE_NS, InputCounts, Sample, Slot
from flashrt_ros.errors import FlashRTError

# Why an observation is refused.
MISSING, STALE, FUTURE, FROZEN, TOLERANCE, NONFINITE, DECODE = REASONS = (
    "missing", "stale", "future", "frozen", "tolerance", "nonfinite", "decode",
)  # fmt: skip

Decode = Callable[[str, Any], np.ndarray]
Payload = Callable[[str, Any], Any]


class IntakeError(FlashRTError):
    """A sample was offered for an input that the contract does not have."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """No observation: `input` is not fit for use. reason: one of REASONS; detail: one sentence with the figures."""

    input: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class InputStatus:
    """One input as it stands. stamp_ns, age_ns, crc: of the sample that the last decision looked at (age at the time
    asked), None where it has none. last_receive_ns: of the newest message. refusal: the last decision's reason or None.
    """

    name: str
    counts: InputCounts
    rate_hz: float | None
    last_receive_ns: int | None
    stamp_ns: int | None
    age_ns: int | None
    crc: int | None
    refusal: str | None


class Intake:
    """check_frozen: refuse a camera whose payload stays the same for longer than its max_age_ms. Turn it off only for
    a source that is exactly repeatable while nothing moves, such as a noiseless simulated camera."""

    def __init__(self, pipeline: Pipeline, check_frozen: bool = True) -> None:
        self._check_frozen = check_frozen
        self._lock = threading.Lock()
        self._slots = {
            name: Slot(declared, pipeline.buffers[name].timeless) for name, declared in pipeline.input.items()
        }
        self._refusals: dict[str, Refusal] = {}

    def offer(self, name: str, raw: Any, stamp_ns: int | None, receive_ns: int) -> None:
        """Store one message. stamp_ns: of its header, or None if it has none: then the receive time counts.
        raw is kept by reference; of a text input it is the str. Raises IntakeError for an unknown input."""
        slot = self._slots.get(name)
        if slot is None:
            raise IntakeError(f"'{name}' is not an input of this contract; its inputs are {', '.join(self._slots)}")
        with self._lock:
            slot.offer(raw, stamp_ns, receive_ns)

    def take(
        self, decision: int, now_ns: int, decode: Decode, payload: Payload | None = None
    ) -> Observation | Refusal:
        """One consistent observation for a decision at `now_ns`, or the first reason against it.

        decode(name, raw) -> an array of the input buffer's shape and dtype; it is called once per message taken, and a
        FlashRTError of its refuses the input with its message. payload(name, raw) -> the bytes over which CRC32 is
        taken; without it, the decoded array's. The policy's noise is no message: the caller adds it.
        """
        with self._lock:
            picked = {name: self._pick(slot, now_ns) for name, slot in self._slots.items()}
        refusals: dict[str, Refusal] = {}
        for name, slot in self._slots.items():
            found = self._judge(slot, picked[name], now_ns, decode, payload)
            if found is not None:
                refusals[name] = Refusal(name, *found)
        if not refusals:
            refusals = self._misaligned(picked)
        self._refusals = refusals
        if refusals:
            return next(iter(refusals.values()))
        with self._lock:
            for name, slot in self._slots.items():
                slot.counts.used += not picked[name].used
                picked[name].used = True
        values = {name: InputValue(s.value, s.ident, s.stamp_ns, s.crc) for name, s in picked.items()}
        return Observation(decision, now_ns, values)

    def status(self, now_ns: int) -> tuple[InputStatus, ...]:
        with self._lock:
            return tuple(self._status(name, slot, now_ns) for name, slot in self._slots.items())

    def reset(self) -> None:
        """Forget every sample, instructions too; counts and idents go on."""
        with self._lock:
            for slot in self._slots.values():
                slot.clear()
        self._refusals = {}

    def clear_after(self, now_ns: int) -> None:
        """The clock jumped back to `now_ns`: forget what is stamped later. Timeless inputs stay."""
        with self._lock:
            for slot in self._slots.values():
                slot.clear_after(now_ns)

    @staticmethod
    def _pick(slot: Slot, now_ns: int) -> Sample | None:
        sample = slot.pick(now_ns)
        if sample is None and slot.timeless and slot.declared.default is not None:
            return slot.start_with(slot.declared.default, now_ns)
        return sample

    def _judge(
        self, slot: Slot, sample: Sample | None, now_ns: int, decode: Decode, payload: Payload | None
    ) -> tuple[str, str] | None:
        """(reason, detail) against the slot's sample, decoding it where it is new; None if it is fit for use."""
        if sample is None or (slot.ahead and _too_old(slot, sample.stamp_ns, now_ns)):
            if slot.ahead:
                return FUTURE, f"its stamps are more than {FUTURE_NS / 1e9:g} s ahead of now; check the clocks"
            if slot.waiting:
                return MISSING, f"none of its {len(slot.waiting)} samples is stamped at or before now"
            return MISSING, f"no message has come on {slot.declared.channel.topic}"
        if _too_old(slot, sample.stamp_ns, now_ns):
            slot.counts.stale += 1
            hint = "" if sample.stamp_ns else "; its header has no stamp: set align.timeline to receive"
            return STALE, _ages("it is", now_ns - sample.stamp_ns, slot) + hint
        if sample.value is None and sample.fault is None:
            self._decode(slot, sample, decode, payload)
        if sample.fault is not None:
            return sample.fault
        since_ns = slot.payload_since_ns
        if self._check_frozen and slot.declared.image and _too_old(slot, since_ns, now_ns):
            slot.counts.frozen += 1
            return FROZEN, _ages("its payload has not changed for", now_ns - since_ns, slot)
        return None

    @staticmethod
    def _decode(slot: Slot, sample: Sample, decode: Decode, payload: Payload | None) -> None:
        name = slot.declared.name
        try:
            value = decode(name, sample.raw)
        except FlashRTError as error:
            slot.counts.decode_errors += not sample.used
            sample.fault = (DECODE, str(error))
            return
        data = value if payload is None else payload(name, sample.raw)
        sample.crc = zlib.crc32(np.ascontiguousarray(data) if payload is None else data)
        if sample.crc != slot.payload_crc:
            slot.payload_crc, slot.payload_since_ns = sample.crc, sample.stamp_ns
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            bad = int(np.flatnonzero(~np.isfinite(value))[0])
            slot.counts.nonfinite += 1
            sample.fault = (NONFINITE, f"element {bad} is {value.flat[bad]}")
            return
        sample.value, sample.ident = value, slot.next_ident()

    def _misaligned(self, picked: dict[str, Sample]) -> dict[str, Refusal]:
        newest = max((s.stamp_ns for s in picked.values() if s.stamp_ns is not None), default=None)
        refusals = {}
        for name, slot in self._slots.items():
            stamp, tolerance_ms = picked[name].stamp_ns, slot.declared.align.tolerance_ms
            if stamp is None or tolerance_ms is None or newest - stamp <= round(tolerance_ms * 1e6):
                continue
            slot.counts.misaligned += 1
            behind = f"its stamp is {(newest - stamp) / 1e6:.1f} ms behind the newest input's"
            refusals[name] = Refusal(name, TOLERANCE, f"{behind}; tolerance_ms is {tolerance_ms:g}")
        return refusals

    def _status(self, name: str, slot: Slot, now_ns: int) -> InputStatus:
        current, refusal = slot.current, self._refusals.get(name)
        stamp = None if current is None else current.stamp_ns
        return InputStatus(
            name=name,
            counts=replace(slot.counts),
            rate_hz=slot.rate_hz,
            last_receive_ns=slot.last_receive_ns,
            stamp_ns=stamp,
            age_ns=None if stamp is None else now_ns - stamp,
            crc=None if current is None else current.crc,
            refusal=None if refusal is None else refusal.reason,
        )


def _too_old(slot: Slot, stamp_ns: int | None, now_ns: int) -> bool:
    max_age_ns = slot.declared.max_age_ns
    return max_age_ns is not None and stamp_ns is not None and now_ns - stamp_ns > max_age_ns


def _ages(what: str, age_ns: int, slot: Slot) -> str:
    return f"{what} {age_ns / 1e6:.1f} ms; max_age_ms is {slot.declared.max_age_ms:g}"
