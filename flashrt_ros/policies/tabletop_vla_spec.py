"""What tabletop_vla declares: its buffers and stages, and which weights there are. Imports no torch: a
contract is verified from this alone.

The three-stage shape of pi0.5: vision -> prefix keys and values -> flow-matching action expert. vision reads the joints
for the pose at image time; action reads them again, newer, and how old the vision is.
"""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open

from flashrt_ros.contract.schema import PolicyChoice
from flashrt_ros.contract.spec import BufferSpec, PolicySpec, StageSpec
from flashrt_ros.policies import PolicyChoiceError
from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.policies.tabletop_vla_words import TEXT

IMAGE = 96  # pixels, both ways
HORIZON = 32
STEP_S = 0.02  # between the chunk's rows
TOKENS = 2 * 36 + 1  # two cameras, and the joints at image time
PREFIX = TOKENS + TEXT
LAYERS, HEAD = 4, 64  # of the prefix's key/value cache

# Shipped weights: `builtin`, and the ablation that was trained on fresh vision only.
BUILTIN = {"builtin": "tabletop_vla.safetensors", "builtin-fresh": "tabletop_vla_fresh.safetensors"}


def weights_file(choice: PolicyChoice) -> Path:
    """The file of the chosen weights. Raises PolicyChoiceError if there is none."""
    if choice.checkpoint in BUILTIN:
        return Path(__file__).parent / "weights" / BUILTIN[choice.checkpoint]
    path = Path(choice.checkpoint).expanduser()
    if not path.is_file():
        raise PolicyChoiceError(f"policy.checkpoint is {choice.checkpoint!r}: there is no such file; give the path of one that "
                                f"`flashrt train tabletop_vla` wrote, or {' or '.join(map(repr, BUILTIN))}")
    return path


def spec(choice: PolicyChoice) -> PolicySpec:
    """The declaration; whether the weights were trained on stale vision stands in their file. Raises PolicyChoiceError for
    weights that are missing or not of this policy, or an unknown precision."""
    if choice.precision != "fp32":
        raise PolicyChoiceError(f"policy.precision is {choice.precision!r}; tabletop_vla computes in 'fp32' only: leave it out")
    path = weights_file(choice)
    try:
        with safe_open(path, framework="numpy") as file:
            facts = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise PolicyChoiceError(f"policy.checkpoint {path}: not a readable safetensors file ({error})") from error
    if facts.get("policy") != "tabletop_vla":
        raise PolicyChoiceError(f"policy.checkpoint {path}: its metadata says policy {facts.get('policy')!r}, not 'tabletop_vla'; "
                                "give weights that `flashrt train tabletop_vla` wrote")
    return declare(facts.get("trained_stale") == "true", choice.continues)


def declare(trained_stale: bool, continues: str = "") -> PolicySpec:
    """continues: with an action that also reads what the player is about to do."""
    n = len(JOINTS)
    plan = (BufferSpec("planned", (HORIZON, n), "float32", "input", timeless=True),
            BufferSpec("firmness", (HORIZON,), "float32", "input", timeless=True)) if continues else ()
    planned = tuple(buffer.name for buffer in plan)
    return PolicySpec(
        type="tabletop_vla",
        buffers=(
            BufferSpec("scene", (IMAGE, IMAGE, 3), "uint8", "input"),
            BufferSpec("wrist", (IMAGE, IMAGE, 3), "uint8", "input"),
            BufferSpec("joints", (n,), "float32", "input"),
            BufferSpec("task", (TEXT,), "int32", "input", timeless=True),
            BufferSpec("noise", (HORIZON, n), "float32", "input", timeless=True),
            BufferSpec("vision_age", (1,), "float32", "input", timeless=True),
            *plan,
            BufferSpec("vision_tokens", (TOKENS, 256), "float32", "derived"),
            BufferSpec("prefix_kv", (LAYERS, 2, PREFIX, HEAD), "float32", "derived"),
            BufferSpec("chunk", (HORIZON, n), "float32", "output"),
        ),
        stages=(
            StageSpec("vision", ("scene", "wrist", "joints"), ("vision_tokens",)),
            StageSpec("prefix", ("vision_tokens", "task"), ("prefix_kv",)),
            StageSpec("action", ("prefix_kv", "joints", "vision_age", "noise") + planned, ("chunk",)),
        ),
        action="action",
        chunk="chunk",
        joints=JOINTS,
        noise="noise",
        ages=(("vision_age", "prefix_kv"),),
        plan=planned or None,
        trained_stale=trained_stale,
    )
