"""One victim's turn as it was recorded, what is to be said of it, and the table. Must not import rclpy."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from flashrt_ros.bench.windows import Commanded, Violation, Window, judge_start
from flashrt_ros.errors import FlashRTError
from flashrt_ros.player.limits import Limits
from flashrt_ros.policies.tabletop_arm import ARM, forward

VICTIMS = ("policy", "camera", "player")
CAPTION = ("speed: of the fastest joint at the kill, of its limit; rest: from the kill until the arm rests, and how far tool and "
           "joints went meanwhile; again: from the restart until it moves (real time); windows: judged, at every point and in "
           "between; step: the largest of the arm's commanded velocity where a window took over; done: the task, in the end")
BEFORE_NS = 500_000_000  # joint states so long before the first window of a new run may be the ones that it began from


class DrillError(FlashRTError):
    """The drill could not be carried through."""


@dataclass(frozen=True, eq=False)
class Trial:
    """Stamps in ns of simulated time: rest_ns, motion_ns are None for what did not happen in time. waited_s: of real time, from
    the restart to motion. done: whether the task was, in the end. columns: where each output's joints are among limits.names.
    windows: per output, as they came; joints: (stamp, positions [N], velocities [N]); missed: windows that were not seen.
    violations: of all windows of the turn."""

    victim: str
    task: str
    kill_ns: int
    rest_ns: int | None
    restart_ns: int
    motion_ns: int | None
    waited_s: float | None
    done: bool
    limits: Limits
    columns: dict[str, np.ndarray]
    windows: dict[str, list[Window]]
    joints: list[tuple[int, np.ndarray, np.ndarray]]
    missed: int
    violations: list[Violation] = field(init=False)

    def __post_init__(self) -> None:
        found = [violation for name in self.columns for violation in self._judge(name)]
        object.__setattr__(self, "violations", found)

    @property
    def passed(self) -> bool:
        return self.rest_ns is not None and self.motion_ns is not None and not self.violations

    def worst(self) -> list[str]:
        """Of the violations of each rule, joint and phase the one that goes farthest beyond, as text."""
        worst: dict[tuple[str, str, str], Violation] = {}
        for violation in self.violations:
            key = self._phase(violation), violation.joint, violation.rule
            if key not in worst or abs(violation.value - violation.allowed) > abs(worst[key].value - worst[key].allowed):
                worst[key] = violation
        return [f"{phase}: {joint} {rule} {v.value:.4g}, allowed {v.allowed:.4g}" for (phase, joint, rule), v in worst.items()]

    def commanded(self, times_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions, velocities, accelerations [T, N] of all joints, as an executor of the windows has them; NaN before any."""
        result = np.full((3, len(times_ns), len(self.limits.names)), np.nan)
        for name, columns in self.columns.items():
            if self.windows[name]:
                result[:, :, columns] = Commanded(self.windows[name]).at(times_ns)
        return tuple(result)

    def figures(self) -> dict:
        """Everything that the table says, as plain data: s, rad, m."""
        speed = np.abs(self.commanded(np.array([self.kill_ns]))[1][0]) / self.limits.velocity
        return {
            "victim": self.victim, "task": self.task, "passed": self.passed,
            "joint_at_kill": self.limits.names[int(np.nanargmax(speed))], "speed_at_kill": float(np.nanmax(speed)),
            "rest_s": None if self.rest_ns is None else (self.rest_ns - self.kill_ns) * 1e-9, **self._distances(),
            "restart_to_motion_s": self.waited_s, "task_done": self.done,
            "windows": sum(map(len, self.windows.values())),
            "points": sum(len(window.times_ns) for windows in self.windows.values() for window in windows),
            "windows_after_kill": sum(w.received_ns > self.kill_ns for windows in self.windows.values() for w in windows),
            "windows_missed": self.missed, "position_step": self._largest_step(0), "velocity_step": self._largest_step(1),
            "violations": [asdict(violation) | {"phase": self._phase(violation)} for violation in self.violations],
        }

    def _phase(self, violation: Violation) -> str:
        if violation.time_ns <= self.kill_ns:
            return "before the kill"
        return "until rest" if self.rest_ns is None or violation.time_ns <= self.rest_ns else "after the restart"

    def _largest_step(self, which: int) -> float:
        """Of the arm, where a window took over: 0 of position (rad), 1 of velocity (rad/s)."""
        arm = {joint.name for joint in ARM}
        return max((float(np.nanmax(run.steps()[which], initial=0.0)) for name in self.columns for run in self._runs(name)
                    if arm.issuperset(self.limits.names[i] for i in self.columns[name])), default=0.0)

    def _runs(self, name: str) -> list[Commanded]:
        """Of one output. A new player begins a new run, from where the arm is and not from where it was commanded last."""
        begin_ns = self.restart_ns if self.victim == "player" else np.inf
        before = [window for window in self.windows[name] if window.received_ns <= begin_ns]
        return [Commanded(run) for run in (before, self.windows[name][len(before):]) if run]

    def _judge(self, name: str) -> list[Violation]:
        columns, runs = self.columns[name], self._runs(name)
        limits = limits_of(self.limits, columns)
        found = [violation for run in runs for violation in run.judge(limits)]
        if len(runs) == 2 and not self.missed:  # else the first window that was seen need not be the first
            first = runs[1].windows[0]
            seen = [position[columns] for at_ns, position, _ in self.joints if 0 <= first.received_ns - at_ns <= BEFORE_NS]
            found += judge_start(first, np.array(seen), limits)
        return found

    def _distances(self) -> dict:
        """From the kill to rest: how far the tool went (m), and the arm's joint that went farthest (rad), as measured."""
        if self.rest_ns is None:
            return {"tool_m": None, "joint_rad": None}
        path = np.array([position for at_ns, position, _ in self.joints if self.kill_ns <= at_ns <= self.rest_ns])
        arm = [self.limits.names.index(joint.name) for joint in ARM]
        tool = np.array([forward(q)[:3, 3] for q in path[:, arm]])
        return {"tool_m": float(np.linalg.norm(np.diff(tool, axis=0), axis=1).sum()),
                "joint_rad": float(np.abs(np.diff(path[:, arm], axis=0)).sum(axis=0).max())}


def table(trials: list[Trial]) -> Group:
    """One row per turn; below, the worst violation of each rule and joint."""
    passed = sum(trial.passed for trial in trials)
    result = Table(title=f"{passed} of {len(trials)} times the arm came to rest within its limits, and went on",
                   title_justify="left", box=SIMPLE_HEAD, pad_edge=False, caption=CAPTION, caption_justify="left")
    for column in ("killed", "speed\n%", "rest\ns", "tool\ncm", "joint\nrad", "again\ns", "windows", "viola-\ntions",
                   "step\nrad/s", "done"):
        result.add_column(column, justify="left" if column == "killed" else "right")
    for trial in trials:
        row = trial.figures()
        result.add_row(
            row["victim"], f"{100 * row['speed_at_kill']:.0f}", _said(row["rest_s"], "{:.2f}", "never"),
            _said(row["tool_m"] and 100 * row["tool_m"], "{:.1f}"), _said(row["joint_rad"], "{:.2f}"),
            _said(row["restart_to_motion_s"], "{:.1f}", "never"),
            f"{row['windows']}" + (f" (+{trial.missed} unseen)" if trial.missed else ""), str(len(trial.violations)),
            f"{row['velocity_step']:.3f}", "yes" if row["task_done"] else "no")
    return Group(result, *(f"{trial.victim}, {line}" for trial in trials for line in trial.worst()))


def _said(value: float | None, form: str, nothing: str = "-") -> str:
    return nothing if value is None else form.format(value)


def limits_of(limits: Limits, columns: np.ndarray) -> Limits:
    return Limits(tuple(limits.names[i] for i in columns), limits.lower[columns], limits.upper[columns], limits.velocity[columns],
                  limits.acceleration[columns])
