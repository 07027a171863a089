"""The middleware's surroundings: Fast DDS profile, discovery range, a ROS domain of one's own, left-over shared memory.

Must not import rclpy: the environment has to be complete before a process starts that does.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from flashrt_ros import resources
from flashrt_ros.errors import FlashRTError

SHARED_MEMORY = Path("/dev/shm")
# Above 101 the ports meet Linux's ephemeral ones; people choose low numbers, so we begin at the top.
DOMAINS = range(101, 0, -1)

# Fast DDS 3 names its files fastdds_*, Fast DDS 2 (Jazzy) fastrtps_*: a segment per participant and transport, a port
# (queue) per receiver. Beside them lie a lock file (flock; _el exclusive, _sl shared) and a port's named mutex.
_FILE = re.compile(
    r"(?:sem\.)?(?P<owner>fast(?:dds|rtps)_(?:port\d+|[0-9a-f]{16})|fast_datasharing_[0-9a-f._]+)(?:_el|_sl|_mutex)?"
)


class DdsError(FlashRTError):
    """The middleware cannot be set up as asked."""


def environment(profile: Path | None = None) -> dict[str, str]:
    """Variables for processes that use ROS: our Fast DDS profile, and discovery on this machine only.

    profile: a Fast DDS XML file; None: config/fastdds.xml of the checkout or of the installation.
    Raises DdsError if there is no such file, ResourceError if ours is not installed.
    """
    path = Path(profile or resources.find("config/fastdds.xml")).absolute()
    if not path.is_file():
        raise DdsError(f"Fast DDS profile {path} does not exist; allowed: an XML file. Name one, or none for ours")
    variables = {"FASTDDS_DEFAULT_PROFILES_FILE": str(path), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    # Fast DDS 2, known by its directory, reads the old name only; with both set, Kilted loads the file twice and
    # complains. It lies in a sourced workspace, or in this Python's own prefix (wheels).
    prefixes = [*filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)), sys.prefix]
    if any(Path(prefix, "share", "fastrtps").is_dir() for prefix in prefixes):
        variables["FASTRTPS_DEFAULT_PROFILES_FILE"] = str(path)
    return variables


@contextmanager
def claim_domain(scheme: str = "flashrt_ros") -> Iterator[int]:
    """A ROS_DOMAIN_ID that no other claim holds while the context lasts (or its process, if that is killed).

    A claim is a Unix socket with an abstract name: it reaches as far as the network namespace, as DDS itself does, so
    that users and containers that share a network see each other's, where lock files in a home directory do not.
    scheme: claims of different schemes do not see each other. A domain whose discovery port is taken by a process
    outside of it is passed over. On exit the shared memory of dead processes is cleaned.
    Raises DdsError when all domains are taken.
    """
    for domain in DOMAINS:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as claim:
            try:
                claim.bind(f"\0{scheme}/domain/{domain}")
            except OSError:
                continue
            if _discovery_port_taken(domain):
                continue
            try:
                yield domain
            finally:
                clean_shared_memory()
            return
    raise DdsError(
        f"all of the ROS domains {DOMAINS[-1]} to {DOMAINS[0]} are taken on this network; allowed: one free. "
        "Stop other demos and tests"
    )


@contextmanager
def own_domain(logs: Path) -> Iterator[None]:
    """This process's environment, and that of its children, is for a ROS domain of their own while the context lasts: our profile,
    ROS logs under `logs`, one OpenMP thread per process. Raises DdsError when all domains are taken."""
    before = dict(os.environ)
    with claim_domain() as domain:
        os.environ |= environment() | {"ROS_DOMAIN_ID": str(domain), "ROS_LOG_DIR": str(logs.resolve() / "ros_log"),
                                       "OMP_NUM_THREADS": "1"}
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def clean_shared_memory(directory: Path = SHARED_MEMORY) -> list[str]:
    """Remove what this user's dead processes left of Fast DDS in shared memory; returns the names removed.

    A participant that is killed leaves its segment (32 MiB with our profile) and its ports. A segment or port stays
    whole, with its lock and mutex, if a process holds its lock or maps one of its files, or if it is another user's.
    Fast DDS checks after locking that the lock file still has its name, so removing it under the lock is safe.
    """
    files: dict[str, list[Path]] = {}
    for path in sorted(directory.glob("*fast*")):
        if match := _FILE.fullmatch(path.name):
            files.setdefault(match["owner"], []).append(path)
    mapped = _mapped(directory) if files else set()
    removed = []
    for group in files.values():
        if mapped.isdisjoint(map(str, group)):
            removed += _remove(group)
    return removed


def _remove(group: list[Path]) -> list[str]:
    """Remove one owner's files unless a lock among them is held."""
    locks = []
    try:
        for path in group:
            if path.stat().st_uid != os.getuid():
                return []
            if path.name.endswith(("_el", "_sl")):
                locks.append(os.open(path, os.O_RDONLY))
                if not _try_lock(locks[-1]):
                    return []
        for path in group:
            path.unlink()
        return [path.name for path in group]
    except FileNotFoundError:  # its owner, or another cleaner, was faster
        return []
    finally:
        for lock in locks:
            os.close(lock)


def _mapped(directory: Path) -> set[str]:
    """Files of a directory that some process has mapped, as far as this user may see."""
    paths = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text(errors="replace").splitlines()
        except OSError:  # the process ended, or is another user's
            continue
        paths.update(line[line.index("/") :] for line in lines if f" {directory}/" in line)
    return paths


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _discovery_port_taken(domain: int) -> bool:
    """Whether some process listens as the domain's first participant (RTPS 2.3, section 9.6.1.1)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", 7400 + 250 * domain + 10))
        except OSError:
            return True
    return False
