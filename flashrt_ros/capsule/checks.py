"""Whether a capsule may be restored here: the first of two phases. Everything is checked before anything is changed.

Owns the reasons for refusal. Knows no ROS.
"""

from __future__ import annotations

from typing import Mapping

from flashrt_ros.capsule.record import Digests, Record
from flashrt_ros.engine.slab import Region
from flashrt_ros.errors import FlashRTError

# Why a capsule is refused.
CONTRACT, WEIGHTS, ENGINE, BUFFER, CONTENT, TASK, GONE, FILE = REASONS = (
    "contract", "weights", "engine", "buffer", "content", "task", "gone", "file",
)  # fmt: skip


class CapsuleRefused(FlashRTError):
    """A capsule can't be restored; nothing was changed. reason: one of REASONS."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def check_owner(record: Record, here: Digests) -> None:
    """Refuse a capsule of another contract, policy declaration or weights. Raises CapsuleRefused."""
    if record.digests.weights != here.weights:
        raise CapsuleRefused(WEIGHTS, f"capsule {record.id[:12]} was made with the weights {record.digests.weights[:12]}; this pipeline "
                                      f"has {here.weights[:12]}: load the policy with its weights")
    if record.digests.contract != here.contract:
        raise CapsuleRefused(CONTRACT, f"capsule {record.id[:12]} belongs to the contract {record.digests.contract[:12]}; this one is "
                                       f"{here.contract[:12]}: load the contract that it was made under")


def check_engine(record: Record, here: Digests) -> None:
    """Refuse a capsule of an engine whose bits may differ, for an exact restore. Raises CapsuleRefused."""
    if record.digests.engine != here.engine:
        raise CapsuleRefused(ENGINE, f"capsule {record.id[:12]} was made by the engine {record.digests.engine[:12]}; this one is "
                                     f"{here.engine[:12]} (another device, library version or thread count), and its bits may differ")


def check_task(record: Record, task: str) -> None:
    """Refuse a capsule of another task, for a live restore: the task that was given since stands. Raises CapsuleRefused."""
    if record.outside.task != task:
        raise CapsuleRefused(TASK, f"capsule {record.id[:12]} was made for the task '{record.outside.task}'; the task now is '{task}': give "
                                   "that task again first, or start afresh with reset")


def check_layout(record: Record, found: Mapping[str, tuple[tuple[int, ...], str]], regions: Mapping[str, Region]) -> None:
    """Refuse tensors (name -> shape, dtype) that are not exactly those of `regions`. Raises CapsuleRefused."""
    capsule = f"capsule {record.id[:12]}"
    for name in regions.keys() - found.keys():
        raise CapsuleRefused(BUFFER, f"{capsule} lacks the buffer '{name}', which is live at a boundary of this pipeline")
    for name in found.keys() - regions.keys():
        raise CapsuleRefused(BUFFER, f"{capsule} holds the buffer '{name}', which this pipeline does not keep")
    for name, region in regions.items():
        if found[name] != (region.shape, region.dtype):
            shape, dtype = found[name]
            raise CapsuleRefused(BUFFER, f"{capsule}: buffer '{name}' is {dtype} {list(shape)}; this pipeline's is {region.dtype} "
                                         f"{list(region.shape)}")
