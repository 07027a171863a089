"""What a drill of faults has shown: its episodes, the faults and their trips, the black boxes; the bars, and the table. Must not
import rclpy."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Mapping, Sequence

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from flashrt_ros.bench.intervals import paired_bootstrap, wilson
from flashrt_ros.bench.windows import Commanded, Violation, Window
from flashrt_ros.player.limits import Limits
from flashrt_ros.ros.drill_trial import limits_of
from flashrt_ros.ros.fault_plan import FROZEN, GUARD, Matching

LATE = ("position_step", "velocity_step")  # rules that a window breaks by when it comes, not by what it says
KEPT = 0.9  # of the success without faults that must be left with them
KINDS = {"with": True, "without": False}
CAPTION = ("planted: faults that were put in; matched: led to exactly one trip, at the same decision, of this guard; counted: "
           "trips of the guard in the policy's own status; black boxes: files, and how many of them came out the same")


@dataclass(frozen=True)
class Episode:
    """index: of the pair; seed: of the scene. faults: whether any were planted. success: the task was done in time; seconds: of
    simulated time that it took. windows, points: that were commanded; missed: windows that were not seen. violations: of all
    windows, from the task to the arm's rest after it."""

    index: int
    seed: int
    task: str
    faults: bool
    success: bool
    seconds: float
    windows: int
    points: int
    missed: int
    violations: tuple[Violation, ...]

    def steps(self) -> int:
        """Violations at take-overs."""
        return sum(violation.rule in LATE for violation in self.violations)

    def outside(self) -> int:
        """Violations within windows."""
        return len(self.violations) - self.steps()


@dataclass(frozen=True)
class BlackBoxes:
    """Of each guard, the files that were written, and those that were made again bit for bit. differ: what was said of the others."""

    written: Mapping[str, int]
    same: Mapping[str, int]
    differ: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """counted: trips of each guard, as the policy's status counts them."""

    episodes: tuple[Episode, ...]
    matching: Matching
    counted: Mapping[str, int]
    boxes: BlackBoxes

    @property
    def bars(self) -> dict[str, bool]:
        """What must hold, in words."""
        with_faults, without = self._successes(True), self._successes(False)
        wanted = Counter(GUARD[fault.cause] for fault, _ in self.matching.pairs if fault.cause != FROZEN)
        return {
            "no command is outside its limits, and all were seen": not any(e.missed or e.outside() for e in self.episodes),
            "no window came so late that the arm was commanded to step": not any(e.steps() for e in self.episodes),
            "each fault led to exactly one trip, and each trip came of a fault": self.matching.complete,
            "the policy's status counts the same trips": dict(self.counted) == dict(self.matching.trips()),
            f"success is at least {KEPT:.0%} of that without faults": sum(with_faults) >= KEPT * sum(without),
            "each decision that was stopped is in the black box": not wanted - Counter(self.boxes.written),
            "each black box came out the same, bit for bit": not self.boxes.differ,
        }

    def figures(self) -> dict:
        """Everything that the table says, as plain data."""
        with_faults, without = self._successes(True), self._successes(False)
        matching = self.matching
        return {
            "bars": self.bars,
            "causes": {cause: {"guard": guard, "planted": matching.planted(cause), "matched": matching.matched(cause),
                               "counted": self.counted.get(guard, 0), "black_boxes": self.boxes.written.get(guard, 0),
                               "same": self.boxes.same.get(guard, 0)} for cause, guard in GUARD.items()},
            "faults_without_trip": [asdict(fault) for fault in matching.missed],
            "trips_without_fault": [asdict(found) for found in matching.spare],
            "pairs": len(without),
            "success_with": sum(with_faults), "success_with_95": wilson(sum(with_faults), len(with_faults)),
            "success_without": sum(without), "success_without_95": wilson(sum(without), len(without)),
            "difference_95": paired_bootstrap(with_faults, without),
            "windows": sum(e.windows for e in self.episodes), "points": sum(e.points for e in self.episodes),
            "outside_limits": {name: sum(e.outside() for e in self._of(faults)) for name, faults in KINDS.items()},
            "steps": {name: sum(e.steps() for e in self._of(faults)) for name, faults in KINDS.items()},
            "windows_missed": sum(e.missed for e in self.episodes),
            "violations": [asdict(v) | {"episode": e.index, "faults": e.faults} for e in self.episodes for v in e.violations],
            "black_boxes_that_differ": list(self.boxes.differ),
            "episodes": [{key: value for key, value in asdict(e).items() if key != "violations"} for e in self.episodes],
        }

    def _successes(self, faults: bool) -> list[bool]:
        """In the order of the pairs."""
        return [e.success for e in self._of(faults)]

    def _of(self, faults: bool) -> list[Episode]:
        return [e for e in self.episodes if e.faults == faults]


def judge(windows: Mapping[str, Sequence[Window]], columns: Mapping[str, np.ndarray], limits: Limits) -> list[Violation]:
    """Of every window of every output, and of every take-over. columns: where each output's joints are among limits.names."""
    return [violation for name, of_output in windows.items() if of_output
            for violation in Commanded(of_output).judge(limits_of(limits, columns[name]))]


def table(report: Report) -> Group:
    """A row per cause; below, success and commands, whatever has no match, and the bars."""
    numbers = report.figures()
    result = Table(title=f"{len(report.matching.pairs)} faults found by their guards", title_justify="left", box=SIMPLE_HEAD,
                   pad_edge=False, caption=CAPTION, caption_justify="left")
    for column in ("cause", "guard", "planted", "matched", "counted", "black boxes"):
        result.add_column(column, justify="left" if column in ("cause", "guard") else "right")
    for cause, row in numbers["causes"].items():
        boxes = "none: nothing was decided" if cause == FROZEN else f"{row['same']} of {row['black_boxes']} the same"
        result.add_row(cause, row["guard"], str(row["planted"]), str(row["matched"]), str(row["counted"]), boxes)
    pairs, low_high = numbers["pairs"], "{:.0%} to {:.0%}"
    lines = [
        f"done: {numbers['success_with']} of {pairs} with faults ({low_high.format(*numbers['success_with_95'])}), "
        f"{numbers['success_without']} of {pairs} without ({low_high.format(*numbers['success_without_95'])}); difference "
        "{:+.0%} to {:+.0%} (95 %, same scenes)".format(*numbers["difference_95"]),
        f"commands: {numbers['windows']} windows, {numbers['points']} points, {numbers['windows_missed']} windows unseen; outside "
        "limits: {with} with faults, {without} without; ".format(**numbers["outside_limits"])
        + "steps at late windows: {with} with faults, {without} without".format(**numbers["steps"]),
    ]
    lines += [f"episode {e.index} {'with' if e.faults else 'without'} faults: {v.joint} {v.rule} {v.value:.4g}, allowed {v.allowed:.4g}"
              for e in report.episodes for v in e.violations]
    lines += [f"fault without a trip: {fault}" for fault in report.matching.missed]
    lines += [f"trip without a fault: {found.guard}, decision {found.decision}: {found.detail}" for found in report.matching.spare]
    lines += [f"black box: {said}" for said in report.boxes.differ]
    lines += [f"{'holds' if held else 'FAILS'}: {bar}" for bar, held in report.bars.items()]
    return Group(result, *lines)
