"""How old what a stage reads can be: the worst-case age of every buffer and of every path from an input to the action.

Owns the formula. It bounds what refresh.py can produce while no commit is late and no decision is skipped; then the
runtime bound, `max_age_ms`, takes over. Pure Python; imports nothing of the package outside contract/.

Let P be the period and A(b) the worst age of buffer b, as read at its place in any decision. For an input, A is its
max_age_ms. A stage adds a hold h(r) for each read r, in decisions; with n = every, c = commit_after, and r *watched*
when the stage follows r or r stands in its on_change:

    foreground   n = 1, or r watched: 0                            otherwise n given: n - 1
    overlapped   r watched: 2c - 1                                 otherwise n given: n + c - 1
    neither watched nor n given: no bound, so max_age_ms itself is the bound: the stage is run when it would be exceeded

and what it writes has A = max over its reads of A(r) + h(r) * P. Timeless reads and the stage's own state don't count.

Why 2c - 1: a run launched at d is committed at d + c. If a watched buffer changed at d + 1 at the earliest, the next
launch is at d + c and lands at d + 2c, so the first result is last used at d + 2c - 1. Sums along a chain take each
stage at its worst moment, so a chain of several slow stages may stay below its bound; one slow stage attains it.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashrt_ros.contract.pipeline import Pipeline, Stage
from flashrt_ros.contract.refresh import own_state


@dataclass(frozen=True, slots=True)
class Path:
    """A way from an input to the action. stages: from the input's reader to the action; holds: the hold of each, in
    decisions. age_ns: the oldest that the input can be when the action uses it this way. None: without bound."""

    input: str
    stages: tuple[str, ...]
    holds: tuple[int | None, ...]
    age_ns: int | None


def watches(stage: Stage, buffer: str) -> bool:
    """Whether a new version of the buffer makes the stage due."""
    return stage.follows or buffer in stage.on_change


def hold(stage: Stage, buffer: str) -> int | None:
    """How many decisions later the stage may still show a value of a buffer that it read; None: no limit."""
    if stage.commit_after is None:
        if stage.every == 1 or watches(stage, buffer):
            return 0
        return None if stage.every is None else stage.every - 1
    if watches(stage, buffer):
        return 2 * stage.commit_after - 1
    return None if stage.every is None else stage.every + stage.commit_after - 1


def is_slow(stage: Stage) -> bool:
    """Whether the stage may show something older than what lies in its reads: its ratio to the action is below 1:1."""
    return any(hold(stage, b) != 0 for b in stage.reads if b not in own_state(stage))


def timed_reads(pipeline: Pipeline, stage: Stage) -> tuple[str, ...]:
    """The reads of a stage that carry a stamp, its own state left out."""
    timed = worst_ages(pipeline)
    return tuple(b for b in stage.reads if b in timed and b not in own_state(stage))


def worst_ages(pipeline: Pipeline) -> dict[str, int | None]:
    """Buffer -> its worst age in ns, None without bound; buffers that never age are absent."""
    ages: dict[str, int | None] = {
        b.name: pipeline.input[b.name].max_age_ns for b in pipeline.spec.buffers if b.kind == "input" and not b.timeless
    }
    for stage in pipeline.stages:
        reads = [b for b in stage.reads if b in ages and b not in own_state(stage)]
        if reads:
            steps = [_after(pipeline, stage, b, ages[b]) for b in reads]
            ages.update(dict.fromkeys(stage.writes, None if None in steps else max(steps)))
    return ages


def _after(pipeline: Pipeline, stage: Stage, buffer: str, age: int | None) -> int | None:
    """The age (ns) at which the stage may show a buffer that it read at `age`."""
    held = hold(stage, buffer)
    if age is None or held is None:
        return stage.max_age_ns
    return age + held * pipeline.period_ns


def paths(pipeline: Pipeline) -> tuple[Path, ...]:
    """Every way from an input that ages to the action, in the order of the contract's inputs."""
    found: list[Path] = []

    def follow(buffer: str, path: Path) -> None:
        for stage in pipeline.stages:
            if buffer in stage.reads:
                longer = Path(
                    path.input,
                    (*path.stages, stage.name),
                    (*path.holds, hold(stage, buffer)),
                    _after(pipeline, stage, buffer, path.age_ns),
                )
                if stage.name == pipeline.spec.action:
                    found.append(longer)
                for written in set(stage.writes) - own_state(stage):
                    follow(written, longer)

    for entry in pipeline.contract.inputs:
        if not pipeline.buffers[entry.name].timeless:
            follow(entry.name, Path(entry.name, (), (), entry.max_age_ns))
    return tuple(dict.fromkeys(found))  # two buffers between the same two stages are one way
