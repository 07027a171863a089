"""One input's waiting samples: which of them a decision takes, and the counts of what became of the others.

Knows the input's align strategy and timeline; decodes nothing and judges no content. numpy only; not thread-safe (the
Intake holds the lock).
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import Any

import numpy as np

from flashrt_ros.contract.schema import Input

FUTURE_NS = 1_000_000_000  # a stamp further ahead of `now` comes from an unsynchronised clock
RING = 64  # samples kept for `asof`: a third of a second of joint states at 200 Hz
_RATE_SMOOTHING = 1 / 8  # as TCP's round-trip estimator (RFC 6298)


@dataclass(slots=True, eq=False)
class Sample:
    """One message. stamp_ns: on the input's timeline; None for a timeless input. value, ident, crc: once decoded.
    fault: (reason, detail) once decoding or its result was refused."""

    raw: Any
    stamp_ns: int | None
    receive_ns: int
    value: np.ndarray | None = None
    ident: int = 0
    crc: int | None = None
    fault: tuple[str, str] | None = None
    used: bool = False


@dataclass(slots=True)
class InputCounts:
    """Messages: received = used + replaced + out_of_order + future + decode_errors + nonfinite + those still waiting.

    replaced: dropped unused when a newer one came or a reset cleared it. out_of_order: older than one already held or
    taken. future: stamped more than 1 s ahead of a decision. The last three count decisions refused by this input.
    """

    received: int = 0
    used: int = 0
    replaced: int = 0
    out_of_order: int = 0
    future: int = 0
    decode_errors: int = 0
    nonfinite: int = 0
    stale: int = 0
    frozen: int = 0
    misaligned: int = 0


class Slot:
    """waiting: samples not yet taken, oldest first (one at most for `hold`, RING for `asof`). current: the last taken.
    """

    def __init__(self, declared: Input, timeless: bool) -> None:
        self.declared = declared
        self.timeless = timeless
        self.counts = InputCounts()
        self.waiting: list[Sample] = []
        self.current: Sample | None = None
        self.ahead = False  # the last pick met stamps from the future
        self.payload_since_ns: int | None = None  # stamp of the first sample that had the present payload
        self.payload_crc: int | None = None
        self.last_receive_ns: int | None = None
        self._interval_ns: float | None = None
        self._idents = 0

    @property
    def rate_hz(self) -> float | None:
        """Smoothed rate of arrival on the receive clock; None before two messages."""
        return None if self._interval_ns is None else 1e9 / self._interval_ns

    def next_ident(self) -> int:
        """Never repeats, across resets too."""
        self._idents += 1
        return self._idents

    def offer(self, raw: Any, stamp_ns: int | None, receive_ns: int) -> None:
        self.counts.received += 1
        self._measure_rate(receive_ns)
        if self.timeless:
            self._replace_waiting(Sample(raw, None, receive_ns))
            return
        by_header = self.declared.align.timeline == "header" and stamp_ns is not None
        sample = Sample(raw, stamp_ns if by_header else receive_ns, receive_ns)
        if self.current is not None and sample.stamp_ns < self.current.stamp_ns:
            self.counts.out_of_order += 1
        elif self.declared.align.strategy == "asof":
            insort(self.waiting, sample, key=_stamp)
            if len(self.waiting) > RING:
                self._drop(self.waiting.pop(0))
        elif self.waiting and sample.stamp_ns < self.waiting[-1].stamp_ns:
            self.counts.out_of_order += 1
        else:
            self._replace_waiting(sample)

    def pick(self, now_ns: int) -> Sample | None:
        """The sample for a decision at `now_ns`: a newly taken one, else the one taken before, else None."""
        if self.timeless:
            self._take(len(self.waiting))
            return self.current
        kept = [s for s in self.waiting if s.stamp_ns <= now_ns + FUTURE_NS]
        self.ahead = len(kept) < len(self.waiting)
        self.counts.future += len(self.waiting) - len(kept)
        self.waiting = kept
        if self.declared.align.strategy == "asof":
            self._take(sum(s.stamp_ns <= now_ns for s in kept))
        else:
            self._take(len(kept))
        return self.current

    def start_with(self, raw: Any, now_ns: int) -> Sample:
        """Take the input's default, which is not a message and is counted nowhere."""
        self.current = Sample(raw, None, now_ns, used=True)
        return self.current

    def clear(self) -> None:
        """Forget every sample."""
        self._replace_waiting()
        self._drop(self.current)
        self.current = None
        self._forget_payload()

    def clear_after(self, now_ns: int) -> None:
        """Forget the samples stamped after `now_ns`. Timeless ones stay: a latched instruction is sent only once."""
        if self.timeless:
            return
        for sample in self.waiting:
            if sample.stamp_ns > now_ns:
                self._drop(sample)
        self.waiting = [s for s in self.waiting if s.stamp_ns <= now_ns]
        if self.current is not None and self.current.stamp_ns > now_ns:
            self._drop(self.current)
            self.current = None
        self._forget_payload()

    def _take(self, count: int) -> None:
        """Make the newest of the `count` oldest waiting samples the current one."""
        if count == 0:
            return
        for sample in self.waiting[: count - 1]:
            self._drop(sample)
        self._drop(self.current)
        self.current = self.waiting[count - 1]
        del self.waiting[:count]

    def _replace_waiting(self, *by: Sample) -> None:
        for sample in self.waiting:
            self._drop(sample)
        self.waiting = list(by)

    def _drop(self, sample: Sample | None) -> None:
        if sample is not None and not sample.used and sample.fault is None:
            self.counts.replaced += 1

    def _measure_rate(self, receive_ns: int) -> None:
        last, self.last_receive_ns = self.last_receive_ns, receive_ns
        if last is None or receive_ns <= last:  # the clock may have jumped
            return
        interval = receive_ns - last
        if self._interval_ns is None:
            self._interval_ns = float(interval)
        else:
            self._interval_ns += (interval - self._interval_ns) * _RATE_SMOOTHING

    def _forget_payload(self) -> None:
        self.payload_since_ns = self.payload_crc = None


def _stamp(sample: Sample) -> int:
    return sample.stamp_ns
