"""What color_servo declares: its buffers and stages. Imports no torch: a contract is verified from this alone.

vision reads the joints for the wrist camera's pose, and action reads them again, newer, for the arm's own.
"""

from __future__ import annotations

from flashrt_ros.contract.schema import PolicyChoice
from flashrt_ros.contract.spec import BufferSpec, PolicySpec, StageSpec
from flashrt_ros.policies import PolicyChoiceError
from flashrt_ros.policies.tabletop_arm import JOINTS

IMAGE = 96  # pixels, both ways
TEXT_BYTES = 64
HORIZON = 32
STEP_S = 0.02  # between the chunk's rows


def spec(choice: PolicyChoice) -> PolicySpec:
    """The declaration. Raises PolicyChoiceError for a checkpoint or precision: there are no weights to choose."""
    if choice.checkpoint != "builtin":
        raise PolicyChoiceError(
            f"policy.checkpoint is {choice.checkpoint!r}; color_servo has no weights, only 'builtin': leave it out"
        )
    if choice.precision != "fp32":
        raise PolicyChoiceError(f"policy.precision is {choice.precision!r}; color_servo has only 'fp32': leave it out")
    if choice.continues:
        raise PolicyChoiceError(f"policy.continues is {choice.continues!r}; color_servo plans anew at every decision: leave it out")
    return PolicySpec(
        type="color_servo",
        buffers=(
            BufferSpec("scene", (IMAGE, IMAGE, 3), "uint8", "input"),
            BufferSpec("wrist", (IMAGE, IMAGE, 3), "uint8", "input"),
            BufferSpec("joints", (len(JOINTS),), "float32", "input"),
            BufferSpec("task", (TEXT_BYTES,), "uint8", "input", timeless=True),
            BufferSpec("vision_tokens", (16, 8), "float32", "derived"),
            BufferSpec("belief", (12,), "float32", "derived"),
            BufferSpec("chunk", (HORIZON, len(JOINTS)), "float32", "output"),
        ),
        stages=(
            StageSpec("vision", ("scene", "wrist", "joints"), ("vision_tokens",)),
            StageSpec("fuse", ("vision_tokens", "task"), ("belief",)),
            StageSpec("action", ("belief", "joints"), ("chunk",)),
        ),
        action="action",
        chunk="chunk",
        joints=JOINTS,
        trained_stale=True,
    )
