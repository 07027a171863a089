"""What is followed when a new chunk arrives: itself, an average over predictions, or the continuation of what was planned.

Owns the alignment of chunks in time and what becomes of their rows. How the motion joins the result, and its limits, are
the player's. Pure functions, numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol, Sequence

import numpy as np

from flashrt_ros.chunk.chunk import Chunk, ChunkError
from flashrt_ros.chunk.sample import sample
from flashrt_ros.errors import FlashRTError


# Over so much of its length, at its end, an earlier chunk's part in a mean fades: the mean must not jump where it ends.
FADING_SHARE = 0.5


class SpliceError(FlashRTError):
    """A strategy is unknown, or a number given to one makes no sense."""


class Planned(NamedTuple):
    """A chunk that was accepted earlier, and the step of it (may be fractional) that belongs to the present."""

    chunk: Chunk
    step: float


class Prediction(NamedTuple):
    """What an earlier chunk says for the rows of a new one. position, velocity: float64 [H, N], in the new chunk's joint
    order; said: bool [H], False for rows of which it says nothing (before its start, past its end); share: float64 [H], its
    part in a mean, 1 and towards its end falling to 0."""

    position: np.ndarray
    velocity: np.ndarray
    said: np.ndarray
    share: np.ndarray


class Strategy(Protocol):
    """memory: how many earlier chunks count, the newest of them. join: see splice; earlier: oldest first."""

    memory: int

    def join(self, earlier: Sequence[Prediction], new: Chunk, consumed: float) -> Chunk: ...


@dataclass(frozen=True, slots=True)
class Latest:
    """The new chunk as it is."""

    memory: ClassVar[int] = 0

    def join(self, earlier: Sequence[Prediction], new: Chunk, consumed: float) -> Chunk:
        return _unfrozen(new)


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The mean of all predictions for the same moment, weighted by exp(-decay * i), i = 0 for the oldest of them: temporal
    ensembling (Zhao et al., "Learning Fine-Grained Bimanual Manipulation with Low-Cost Hardware", 2023, arXiv 2304.13705;
    the default decay is theirs).

    So the oldest counts most; with decay 0 all count alike, with a negative one the newest counts most. memory: how many
    earlier chunks take part at most. Towards the end of an earlier chunk its weight fades (FADING_SHARE).
    """

    decay: float = 0.01
    memory: int = 8

    def __post_init__(self) -> None:
        if not -100 <= self.decay <= 100:
            raise SpliceError(f"ensemble: decay is {self.decay}; allowed: -100 to 100. Above 0 the oldest prediction counts most, "
                              "at 0 all count alike, below 0 the newest counts most")
        if self.memory < 1:
            raise SpliceError(f"ensemble: memory is {self.memory}; it must be at least 1 earlier chunk")

    def weights(self, shares: np.ndarray) -> np.ndarray:
        """float64 [P, H] for P predictions, oldest first, and their shares of each row [P, H]. They add up to 1 where any
        has a share."""
        exponent = -self.decay * np.arange(len(shares))
        raw = np.exp(exponent - exponent.max())[:, None] * shares
        total = raw.sum(axis=0)
        return raw / np.where(total > 0, total, 1.0)

    def join(self, earlier: Sequence[Prediction], new: Chunk, consumed: float) -> Chunk:
        weights = self.weights(np.array([*(e.share for e in earlier), np.ones(new.horizon)]))
        positions, velocities = new.positions, new.velocities
        # As differences to the new chunk: predictions that agree with it leave every bit of it as it is.
        for weight, old in zip(weights[:, :, None], earlier):
            positions = positions + np.where(weight > 0, weight * (old.position - new.positions), 0.0)
        if velocities is not None:
            rates = np.gradient(weights, new.step_ns * 1e-9, axis=1) if new.horizon > 1 else np.zeros_like(weights)
            for weight, rate, old in zip(weights[:, :, None], rates[:, :, None], earlier):
                change = weight * (old.velocity - new.velocities) + rate * (old.position - new.positions)
                velocities = velocities + np.where(weight > 0, change, 0.0)
        return replace(_unfrozen(new), positions=positions, velocities=velocities)


@dataclass(frozen=True, slots=True)
class Rtc:
    """The new chunk, made by a policy that continues the one before it: its first `frozen_prefix` steps are what was planned
    anyway (real-time chunking: Black, Galliker and Levine, "Real-Time Execution of Action Chunking Flow Policies", 2025,
    arXiv 2506.07339). That is checked for the steps still to be played: where one differs from the newest earlier chunk by
    more than `tolerance` (rad or m), or has no counterpart there, the chunk is taken as by `latest`."""

    tolerance: float = 0.02
    memory: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < np.inf:
            raise SpliceError(f"rtc: tolerance is {self.tolerance}; it must be 0 or more, in rad or m, and finite")

    def join(self, earlier: Sequence[Prediction], new: Chunk, consumed: float) -> Chunk:
        ahead = slice(max(0, int(np.floor(consumed))), new.frozen_prefix)
        said = new.positions[ahead]
        if len(said) == 0:
            return new
        plan = earlier[-1] if earlier else None
        kept = plan is not None and plan.said[ahead].all() and (np.abs(plan.position[ahead] - said) <= self.tolerance).all()
        return new if kept else _unfrozen(new)


STRATEGIES: dict[str, type[Strategy]] = {"latest": Latest, "ensemble": Ensemble, "rtc": Rtc}


def strategy(name: str, **parameters: float) -> Strategy:
    """The strategy of that name. Raises SpliceError."""
    if name not in STRATEGIES:
        raise SpliceError(f"strategy '{name}' is unknown; allowed: {', '.join(STRATEGIES)}")
    return STRATEGIES[name](**parameters)


def splice(planned: Sequence[Planned], new: Chunk, consumed: float, strategy: Strategy) -> Chunk:
    """The chunk to follow now that `new` has come, of which `consumed` steps have been played since its base: its start,
    steps, order and base are those of `new`.

    Steps of all chunks are counted from what was played, so a row of `new` and a step of an earlier chunk belong to the
    same moment if both lie equally far from the present; no stamp and no latency is looked at. consumed is negative if the
    start of `new` lies ahead. Only chunks of the same session and epoch and of earlier decisions count, of a repeated
    decision the last attempt. Nothing is said beyond the ends of a chunk. If the result has a frozen prefix, it is known to
    continue the plan. Raises ChunkError if the chunks' joints differ by more than their order.
    """
    of_seq: dict[int, Planned] = {}
    for old in sorted(planned, key=lambda p: p.chunk.order):
        if old.chunk.order[:2] == new.order[:2] and old.chunk.seq < new.seq:
            of_seq[old.chunk.seq] = old
    counting = list(of_seq.values())[-strategy.memory:] if strategy.memory else []
    return strategy.join([_prediction(old, new, consumed) for old in counting], new, consumed)


def soft_mask(horizon: int, delay: int, overlap: int) -> np.ndarray:
    """How firmly each step of a chunk is to keep to the plan, float64 [horizon]: 1 for the first `delay` steps, then falling
    exponentially to 0 at `overlap`, the number of steps for which there is a plan, and 0 from there on.

    Equation 5 of arXiv 2506.07339: c (e^c - 1) / (e - 1) with c = (overlap - i) / (overlap - delay + 1). Raises SpliceError.
    """
    if not 0 <= delay <= overlap <= horizon:
        raise SpliceError(f"soft mask: delay {delay}, overlap {overlap}, horizon {horizon}; allowed: 0 <= delay <= overlap <= "
                          "horizon")
    i = np.arange(horizon)
    c = np.clip((overlap - i) / (overlap - delay + 1), 0.0, 1.0)
    return np.where(i < delay, 1.0, c * np.expm1(c) / np.expm1(1.0))


def _prediction(old: Planned, new: Chunk, consumed: float) -> Prediction:
    chunk = old.chunk
    if set(chunk.names) != set(new.names):
        raise ChunkError(f"chunk {new.order} has the joints {', '.join(new.names)}, chunk {chunk.order} before it "
                         f"{', '.join(chunk.names)}; within an epoch they must be the same")
    columns = [chunk.names.index(name) for name in new.names]
    first_ns = chunk.start_ns + round(old.step * chunk.step_ns - consumed * new.step_ns)
    at_ns = first_ns + np.arange(new.horizon, dtype=np.int64) * new.step_ns
    says = sample(chunk, at_ns)
    said = ~(says.before_start | says.past_end)
    left = np.clip((chunk.end_ns - at_ns) / max(1.0, FADING_SHARE * (chunk.end_ns - chunk.start_ns)), 0.0, 1.0)
    share = np.where(said, left * left * (3 - 2 * left), 0.0)  # begins and ends without a step in velocity
    return Prediction(says.position[:, columns], says.velocity[:, columns], said, share)


def _unfrozen(chunk: Chunk) -> Chunk:
    return replace(chunk, frozen_prefix=0) if chunk.frozen_prefix else chunk
