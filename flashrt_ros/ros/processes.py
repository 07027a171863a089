"""Nodes as child processes that never outlive us: not after Ctrl-C, an exception, nor a kill -9 of this process."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Iterator

from flashrt_ros.contract.load import load
from flashrt_ros.errors import FlashRTError
from flashrt_ros.resources import DEFAULT_CONTRACT, find
from flashrt_ros.ros import dds

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class ProcessError(FlashRTError):
    """A node's process ended on its own."""


class NodeProcesses:
    """Use as a context: leaving it interrupts every node (so that the arm comes to rest), waits, and kills what is left.

    environment: of the children, complete. logs: directory for one `<name>.log` each.
    """

    def __init__(self, environment: dict[str, str], logs: Path) -> None:
        self._environment, self._logs = environment, logs
        self._processes: dict[str, subprocess.Popen] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, parameters: dict[str, object], module: str = "") -> subprocess.Popen:
        """Run flashrt_ros.ros.<module or name_node> with these ROS parameters; a second start of a name replaces it."""
        command = [sys.executable, "-m", f"flashrt_ros.ros.{module or name + '_node'}", "--ros-args"]
        for key, value in parameters.items():
            command += ["-p", f"{key}:={str(value).lower() if isinstance(value, bool) else value}"]
        with open(self._logs / f"{name}.log", "ab") as log:
            self._processes[name] = subprocess.Popen(
                command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=_die_with_parent)
        return self._processes[name]

    def kill(self, name: str) -> None:
        """kill -9, and wait until it is gone; check() does not miss it."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def check(self) -> None:
        """Raises ProcessError, with the end of its log, for a node that has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                log = self._logs / f"{name}.log"
                tail = "\n  ".join(log.read_text(errors="replace").strip().splitlines()[-12:])
                raise ProcessError(f"{name}_node ended with status {process.returncode}; the end of {log}:\n  {tail}")

    def stop(self, timeout_s: float = 8.0) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in self._processes.values():
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def __enter__(self) -> NodeProcesses:
        return self

    def __exit__(self, *exception) -> None:
        self.stop()


@contextmanager
def robot(contract: Path | None, out: Path) -> Iterator[tuple[NodeProcesses, Path]]:
    """For a command that runs the built-in robot: the processes that it will start, in a ROS domain of their own, and the contract's
    path (None: the built-in policy's). out: for logs. SIGTERM ends it as Ctrl-C does.

    Raises ContractError before anything starts. This process's environment is that of the domain meanwhile.
    """
    path = (contract or find(DEFAULT_CONTRACT)).resolve()
    load(path)
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with dds.own_domain(out), NodeProcesses(dict(os.environ), out) as nodes:
        yield nodes, path


def where(contract: Path) -> dict[str, str]:
    """Where and when figures were measured: no figure is worth anything without it."""
    return {"machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores", "date": str(date.today()),
            "contract": contract.name}


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
