"""The import rules of docs/architecture.md: who breaks them couples a pure core to ROS or to torch without noticing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "flashrt_ros"
MAY_IMPORT = {
    "contract": {"contract"},
    "chunk": {"chunk"},
    "player": {"player", "chunk"},
    "policies": {"policies", "contract", "chunk"},
    "engine": {"engine", "policies", "contract", "chunk"},
    "capsule": {"capsule", "engine", "policies", "contract", "chunk"},
    "decode": {"decode", "contract"},
    "replay": {"replay", "capsule", "engine", "decode", "player", "policies", "contract", "chunk"},
    "sim": {"sim", "engine", "policies", "contract", "chunk", "player"},
    "train": {"train", "sim", "policies"},
}
ROS = {"rclpy", "sensor_msgs", "std_msgs", "std_srvs", "trajectory_msgs", "builtin_interfaces", "rosgraph_msgs", "lifecycle_msgs"}
NO_TORCH = ("contract", "chunk", "decode", "player", "sim")
FREE_OF_EVERYTHING = {"errors", "resources", "spawn", "__version__"}


def imports(path: Path) -> set[str]:
    """Absolute module names that a file imports anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names |= {node.module} | ({f"flashrt_ros.{a.name}" for a in node.names} if node.module == "flashrt_ros" else set())
    return names


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_a_folder_imports_only_what_lies_below_it(folder):
    for path in (PACKAGE / folder).rglob("*.py"):
        for name in imports(path):
            parts = name.split(".")
            assert parts[0] not in ROS, f"{path.name} imports {name}: only ros/ may"
            if parts[0] == "flashrt_ros" and len(parts) > 1 and parts[1] not in FREE_OF_EVERYTHING:
                assert parts[1] in MAY_IMPORT[folder], f"{folder}/{path.name} imports {name}"
            if folder in NO_TORCH:
                assert parts[0] != "torch", f"{folder}/{path.name} imports torch"


def test_nothing_imports_ros_but_ros_itself_and_the_command_line():
    """bench/camera_load.py and bench/loop*.py measure ros/ code, and are the only other exceptions."""
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "ros" and path.name not in ("cli.py", "camera_load.py", "loop.py", "loop_rows.py"):
            assert not any(name.startswith("flashrt_ros.ros") for name in imports(path)), path


def test_importing_the_package_is_light():
    """A user without torch or ROS can still run `flashrt plan`; and a node's start is not slowed by what it does not use."""
    code = "import sys, flashrt_ros, flashrt_ros.cli, flashrt_ros.contract.load; print([m for m in ('torch', 'rclpy', 'mujoco') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_process_of_worlds_loads_no_torch():
    """Training starts a dozen of them; each would take a quarter of a gigabyte and two seconds more."""
    code = "import sys, flashrt_ros.train.worlds; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
