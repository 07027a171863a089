"""The engine digest: the identity of everything outside contract and weights that a bit of the result depends on.

Bit-for-bit promises (replay, restore, the refresh laws) hold between runs of equal engine digest.
"""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path

import torch


def engine_facts(device: torch.device, threads: int, precision: str) -> dict[str, object]:
    """What is digested, by name, in JSON types."""
    facts: dict[str, object] = {
        "torch": torch.__version__,
        "device": _device_name(device),
        "threads": threads,
        "precision": precision,
        "matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }
    if device.type == "cuda":
        facts |= {
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "cudnn_tf32": torch.backends.cudnn.allow_tf32,
            "capability": list(torch.cuda.get_device_capability(device)),
        }
    else:
        facts |= {
            "instruction_set": torch.backends.cpu.get_cpu_capability(),
            "mkldnn": torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled,
        }
    return facts


def digest_of(facts: dict[str, object]) -> str:
    """SHA-256 (hex) of the facts as canonical JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{platform.machine()} {model or platform.processor()}".strip()
