"""Where and when something was measured: no figure is worth anything without it. Imports nothing of the package."""

from __future__ import annotations

import os
import platform
import time


def machine() -> dict[str, str]:
    """cpu, system, python, date; to be written beside every figure."""
    with open("/proc/cpuinfo") as file:
        cpu = next((line.split(": ")[1].strip() for line in file if line.startswith("model name")), "?")
    return {
        "cpu": f"{os.cpu_count()} x {cpu}",
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }
