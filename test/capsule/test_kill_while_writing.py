"""kill -9 at any moment leaves no half file that loads: power is cut when it is cut, and often because of what the file is
about."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from flashrt_ros.capsule.checks import CapsuleRefused
from flashrt_ros.capsule.file import SUFFIX, load


def killed(folder: Path, *arguments: str) -> int:
    command = [sys.executable, str(Path(__file__).parent / "killed_writer.py"), str(folder), *arguments]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def held(path: Path) -> str:
    """Which of the two capsules it is; one that is not whole fails the test. Raises CapsuleRefused."""
    stored, _ = load(path)
    assert {float(value) for value in stored.tensors["big"].unique()} == {float(stored.record.parent)}
    return stored.record.parent


def whole(folder: Path) -> list[str]:
    return [held(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]


def test_killed_before_any_call_of_a_write(tmp_path):
    """Between any two calls: the old file is there as it was, until the new one is there in its place."""
    rounds = killed(tmp_path, "calls")
    found = whole(tmp_path)
    assert len(found) == rounds > 8
    assert found[0] == "0" and found[-1] == "1" and found == sorted(found)


def test_killed_at_random_moments(tmp_path):
    """In the middle of a write too. What remains of it bears another name, and is refused unless it was complete."""
    wrote = killed(tmp_path, "anytime", "12", "5")
    assert len(whole(tmp_path)) == wrote > 0
    for part in tmp_path.glob(".*.part"):
        with suppress(CapsuleRefused):
            held(part)

