"""Finds the files that travel beside the code: config/, msg/, srv/ and the CMake project that compiles them.

They lie in the checkout, or under `<prefix>/share/flashrt_ros` after pip or colcon installed the package.
"""

from __future__ import annotations

from pathlib import Path

from flashrt_ros.errors import FlashRTError

DEFAULT_CONTRACT = "config/tabletop_vla.contract.yaml"  # of `flashrt demo` and `flashrt eval`


class ResourceError(FlashRTError):
    """A file of the package is not where any way of installing would have put it."""


def roots() -> list[Path]:
    """Directories that may hold the package's files, nearest first."""
    package = Path(__file__).resolve().parent
    return [package.parent, *(parent / "share" / "flashrt_ros" for parent in package.parents)]


def find(relative: str) -> Path:
    """Path of a file or directory of the package, such as `config/fastdds.xml`. Raises ResourceError."""
    for root in roots():
        if (root / relative).exists():
            return root / relative
    raise ResourceError(f"{relative}: not found beside {Path(__file__).parent} nor under share/flashrt_ros of any of its "
                        "parents; install the package again (`pip install .` or `colcon build`)")
