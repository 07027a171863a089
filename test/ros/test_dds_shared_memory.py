"""Pins that clean-up takes all that the dead left and nothing that the living use: a killed node leaves 32 MiB, and a
segment that is pulled from under a running one loses its images."""

import fcntl
import mmap
import os
import subprocess
import sys

import pytest

from flashrt_ros.ros import dds

# A real participant with our profile; says which shared memory it has mapped, and lives until it is killed.
PARTICIPANT = """
import sys
import rclpy
rclpy.init()
node = rclpy.create_node("participant")
maps = open("/proc/self/maps").read().splitlines()
print(*sorted({line.rsplit("/", 1)[1] for line in maps if "/dev/shm/" in line and "fast" in line}), flush=True)
sys.stdin.read()
"""


def test_a_killed_participant_is_cleaned_up_and_a_living_one_is_not():
    with dds.claim_domain() as domain:
        env = {**os.environ, **dds.environment(), "ROS_DOMAIN_ID": str(domain)}
        command = [sys.executable, "-c", PARTICIPANT]
        with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            mapped = set(child.stdout.readline().split())
            sizes = [os.path.getsize(dds.SHARED_MEMORY / name) for name in mapped]
            assert max(sizes) >= 32 * 2**20  # the profile was taken
            assert mapped.isdisjoint(dds.clean_shared_memory())
            assert all((dds.SHARED_MEMORY / name).exists() for name in mapped)
            child.kill()
            child.wait()
        dds.clean_shared_memory()
        locks = {f"{name}_el" for name in mapped if not name.startswith("sem.")}
        assert not (mapped | locks) & {path.name for path in dds.SHARED_MEMORY.iterdir()}


@pytest.fixture
def shm(tmp_path):
    """A port and a segment as Fast DDS leaves them, and a stranger's file."""
    for name in ("fastdds_port7411", "fastdds_port7411_el", "sem.fastdds_port7411_mutex", "fastrtps_0123456789abcdef",
                 "fastrtps_0123456789abcdef_el", "fast_datasharing_01.0f.aa_0.0.1.4", "fastdds_notes.txt", "breakfast"):
        (tmp_path / name).write_bytes(bytes(16))
    return tmp_path


def test_only_names_of_fast_dds_are_touched(shm):
    assert len(dds.clean_shared_memory(shm)) == 6
    assert sorted(path.name for path in shm.iterdir()) == ["breakfast", "fastdds_notes.txt"]


@pytest.mark.parametrize("kind", [fcntl.LOCK_EX, fcntl.LOCK_SH])
def test_a_held_lock_keeps_the_whole_group(shm, kind):
    """Locks hold across containers that share /dev/shm, where the owner is not to be seen in /proc."""
    with open(shm / "fastdds_port7411_el", "rb") as owner:
        fcntl.flock(owner, kind)
        assert len(dds.clean_shared_memory(shm)) == 3
        left = {path.name for path in shm.iterdir()}
        assert left >= {"fastdds_port7411", "fastdds_port7411_el", "sem.fastdds_port7411_mutex"}
    assert len(dds.clean_shared_memory(shm)) == 3


def test_a_mapped_file_keeps_the_whole_group(shm):
    """A sender maps a receiver's port without holding its lock."""
    with open(shm / "fastdds_port7411", "r+b") as file, mmap.mmap(file.fileno(), 0):
        assert len(dds.clean_shared_memory(shm)) == 3
        assert (shm / "fastdds_port7411").exists() and (shm / "sem.fastdds_port7411_mutex").exists()
    assert len(dds.clean_shared_memory(shm)) == 3


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_another_users_files_stay(shm):
    os.chown(shm / "fastdds_port7411", 12345, -1)
    assert "fastdds_port7411_el" not in dds.clean_shared_memory(shm)


def test_without_shared_memory_there_is_nothing_to_clean(tmp_path):
    assert dds.clean_shared_memory(tmp_path / "missing") == []
