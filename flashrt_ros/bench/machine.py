"""Where and when something was measured: no figure is worth anything without it. Imports nothing of the package."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path


def cpu() -> str:
    """The processor's model."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def machine() -> dict[str, str]:
    """cpu, system, python, date; to be written beside every figure."""
    return {
        "cpu": f"{os.cpu_count()} x {cpu()}",
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }
