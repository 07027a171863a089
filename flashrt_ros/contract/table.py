"""What a verified pipeline will do, as tables: rates, plans, ages, what outlives a boundary, outputs and limits.

Owns the words and numbers that `flashrt plan` prints; `grids` gives rows for any renderer, `text` plain columns. Pure
Python; imports nothing of the package outside contract/.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashrt_ros.contract.age import Path, paths, worst_ages
from flashrt_ros.contract.closure import Plan, closure, plans, schedule
from flashrt_ros.contract.fresh import fresh_inputs
from flashrt_ros.contract.pipeline import Pipeline, Stage

MOST_RARE_PLANS = 8  # listed; they are all subsets of the first decision's plan, and soon too many to read


@dataclass(frozen=True, slots=True)
class Grid:
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def grids(pipeline: Pipeline) -> tuple[Grid, ...]:
    """The tables, in the order in which they are best read; what the engine fills, and warnings, only if there are any."""
    tables = [_stages(pipeline), _plans(pipeline), _ages(pipeline), _live(pipeline), _outputs(pipeline), _limits(pipeline)]
    if pipeline.spec.engine_filled:
        tables.append(_filled(pipeline))
    if pipeline.warnings:
        tables.append(Grid("Warnings", ("warning",), tuple((w,) for w in pipeline.warnings)))
    return tuple(tables)


def text(pipeline: Pipeline) -> str:
    """The same as plain text in aligned columns, ending in a newline."""
    lines = [f"{pipeline.contract.policy.type}: {pace(pipeline)}"]
    for grid in grids(pipeline):
        widths = [max(len(row[i]) for row in (grid.header, *grid.rows)) for i in range(len(grid.header))]
        lines += ["", grid.title]
        for row in (grid.header, tuple("-" * w for w in widths), *grid.rows):
            lines.append(("  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths))).rstrip())
    return "\n".join(lines) + "\n"


def ms(ns: int | None) -> str:
    """A time in ns as text in ms; None, which never ages, as a dash."""
    return "-" if ns is None else f"{ns / 1e6:g} ms"


def pace(pipeline: Pipeline) -> str:
    """When decisions are made and what each of them makes, in words."""
    contract = pipeline.contract
    words = f"{contract.rate_hz:g} decisions per second, one per {ms(pipeline.period_ns)}; deadline {contract.deadline_ms:g} ms"
    if contract.fork is None:
        return words
    return f"{words}; {contract.fork.candidates} candidates each, of which {contract.fork.select} is taken"


def rule(stage: Stage) -> str:
    """When a stage runs, in words."""
    parts = [] if stage.every is None else ["every decision" if stage.every == 1 else f"every {stage.every} decisions"]
    if stage.on_change:
        parts.append("on change of " + ", ".join(stage.on_change))
    return ", or ".join(parts) or "follows its reads"


def overlap(stage: Stage) -> str:
    return "-" if stage.commit_after is None else f"commit after {stage.commit_after}"


def rate(pipeline: Pipeline, stage: Stage) -> str:
    """How often the stage runs in the nominal schedule; a dash if only new text makes it run."""
    nominal = schedule(pipeline)
    runs = sum(any(r.stage == stage.name for r in plan) for plan in nominal)
    return f"{pipeline.contract.rate_hz * runs / len(nominal):.3g} Hz" if runs else "-"


def filling(pipeline: Pipeline, buffer: str) -> str:
    """What the engine fills an input with, in words."""
    spec = pipeline.spec
    if buffer in (spec.plan or ()):
        return "the player's plan" if buffer == spec.plan[0] else "how firm the plan is"
    return "new noise" if buffer == spec.noise else f"age of {dict(spec.ages)[buffer]} in s"


def path_words(path: Path, arrow: str = " > ") -> str:
    return arrow.join((path.input, *path.stages))


def age_sum(pipeline: Pipeline, path: Path) -> str:
    """What the age of a path is made of."""
    terms = [f"{pipeline.input[path.input].max_age_ms:g} ms ({path.input})"]
    for name, held in zip(path.stages, path.holds):
        if held is None:  # only its max_age_ms refreshes the stage, whatever came before
            terms = [f"max_age {ms(pipeline.stage[name].max_age_ns)} ({name})"]
        elif held:
            terms.append(f"{held} x {ms(pipeline.period_ns)} ({name})")
    return " + ".join(terms)


def _stages(pipeline: Pipeline) -> Grid:
    ages, fresh = worst_ages(pipeline), fresh_inputs(pipeline)
    rows = tuple(
        (
            s.name,
            rule(s),
            rate(pipeline, s),
            overlap(s),
            ms(ages.get(s.writes[0])),
            ms(s.max_age_ns),
            ", ".join(fresh[s.name]) or "none",
        )
        for s in pipeline.stages
    )
    return Grid("Stages", ("stage", "runs", "rate", "overlap", "worst age", "max_age", "fresh observations"), rows)


def _plans(pipeline: Pipeline) -> Grid:
    nominal = schedule(pipeline)
    turns: dict[Plan, list[int]] = {}
    for turn, plan in enumerate(nominal):
        turns.setdefault(plan, []).append(turn)
    first, *others = plans(pipeline)
    rows = [(_turns(numbers, len(nominal)), *_sides(pipeline, plan)) for plan, numbers in turns.items()]
    if first not in turns:
        rows.append(("the first decision", *_sides(pipeline, first)))
    rare = [plan for plan in others if plan not in turns]
    rows += [("otherwise", *_sides(pipeline, plan)) for plan in rare[:MOST_RARE_PLANS]]
    if len(rare) > MOST_RARE_PLANS:
        rows.append((f"{len(rare) - MOST_RARE_PLANS} more such plans", "", ""))
    every = "every decision" if len(nominal) == 1 else f"every {len(nominal)} decisions"
    otherwise = "new text, a late commit, a skipped decision, an age over its bound"
    title = f"Plans (the schedule repeats {every}; otherwise: {otherwise})"
    return Grid(title, ("when", "foreground", "background"), tuple(rows))


def _turns(numbers: list[int], length: int) -> str:
    if len(numbers) == length:
        return "every decision"
    few = ", ".join(map(str, numbers[:8])) + (f", ... ({len(numbers)} turns)" if len(numbers) > 8 else "")
    return f"turn {few} of {length}"


def _sides(pipeline: Pipeline, plan: Plan) -> tuple[str, str]:
    return tuple(", ".join(s.name for s in pipeline.stages if (s.name, side) in plan) or "-" for side in (False, True))


def _ages(pipeline: Pipeline) -> Grid:
    rows = tuple((path_words(p), ms(p.age_ns), age_sum(pipeline, p)) for p in paths(pipeline))
    return Grid("Worst-case age at the action", ("path", "age", "is at most"), rows)


def _live(pipeline: Pipeline) -> Grid:
    held = closure(pipeline)
    rows = tuple(
        (b.name, b.kind, f"{b.dtype} {list(b.shape)}", str(b.nbytes))
        for b in (pipeline.buffers[name] for name in (*held.buffers, *held.inputs))
    )
    return Grid("Live at a decision boundary", ("buffer", "kind", "holds", "bytes"), rows)


def _outputs(pipeline: Pipeline) -> Grid:
    rows = []
    for output in pipeline.contract.outputs:
        kind, gripper = output.representation, output.gripper
        if kind == "joint_delta":
            kind += f" from {pipeline.contract.measured(output.select)[0]}"
        words = "-" if gripper is None else (
            f"closed ({gripper.closed:g}) {_reached(gripper.close_at, gripper.open_at)}, "
            f"open ({gripper.open:g}) {_reached(gripper.open_at, gripper.close_at)}"
        )
        rows.append((output.name, ", ".join(output.select), kind, words))
    return Grid("Outputs", ("output", "joints", "representation", "gripper"), tuple(rows))


def _reached(value: float, other: float) -> str:
    return f"from {value:g} {'up' if value > other else 'down'}"


def _limits(pipeline: Pipeline) -> Grid:
    limits, rows = pipeline.contract.limits, []
    for joint in pipeline.spec.joints:
        lower, upper = limits.position[joint]
        others = (limits.velocity, limits.acceleration, limits.jerk, limits.tracking_error)
        rows.append((joint, f"{lower:g} to {upper:g}", *(f"{o[joint]:g}" if joint in o else "-" for o in others)))
    header = ("joint", "position", "velocity", "acceleration", "jerk", "tracking error")
    return Grid("Limits (rad or m, per s, per s^2, per s^3)", header, tuple(rows))


def _filled(pipeline: Pipeline) -> Grid:
    ages, sources = worst_ages(pipeline), dict(pipeline.spec.ages)
    rows = tuple(
        (b.name, filling(pipeline, b.name), ms(ages[sources[b.name]]) if b.name in sources else "-")
        for b in pipeline.spec.buffers
        if b.name in pipeline.spec.engine_filled
    )
    return Grid("Filled by the engine at each decision", ("buffer", "with", "is at most"), rows)
