"""The demo's figures and the table that shows them. Everything here was measured by the recorder or reported by the
policy's status; nothing is computed from intentions."""

from __future__ import annotations

import numpy as np
from rich.console import Group
from rich.table import Table

from flashrt_ros.ros.convert import to_ns
from flashrt_ros.ros.recorder import Recorder, Trace


def figures(traces: list[Trace], recorder: Recorder, wall_s: float) -> dict:
    """Everything that the table says, as plain data: times in ms unless the key says s."""
    simulated_s = sum(t.end_ns - t.start_ns for t in traces) * 1e-9
    episode_wall_s = sum(t.wall_s for t in traces)
    chunks = [chunk for t in traces for chunk in t.chunks]
    ages = {}
    for chunk in chunks:
        for name, age in zip(chunk.stage_names, chunk.stage_ages):
            ages.setdefault(name, []).append(to_ns(age) * 1e-6)
    return {
        "episodes": len(traces), "successes": sum(bool(t.score["success"]) for t in traces), "wall_s": wall_s,
        "real_time_factor": simulated_s / episode_wall_s,
        "decisions_per_simulated_s": len(chunks) / simulated_s, "decisions_per_wall_s": len(chunks) / episode_wall_s,
        "sensor_to_chunk_ms": _percentiles(recorder.sensor_to_chunk_ms),
        "chunk_to_motion_ms": _percentiles(recorder.chunk_to_motion_ms),
        "decision_ms": [recorder.status.decision_p50_ms, recorder.status.decision_p99_ms],
        "skipped": recorder.status.skipped, "refused": recorder.status.refused,
        "deadline_misses": recorder.status.deadline_misses,
        "stages": {s.name: {"runs": s.runs, "background": s.background_runs, "misses": s.misses,
                            "duration_ms": [s.duration_p50_ms, s.duration_p99_ms], "age_ms": _percentiles(ages.get(s.name, []))}
                   for s in recorder.status.stages},
    }


def table(numbers: dict, traces: list[Trace]) -> Group:
    episodes = Table(title=f"{numbers['successes']} of {numbers['episodes']} episodes done right", title_justify="left")
    for column in ("task", "result", "simulated s"):
        episodes.add_column(column, justify="right" if column == "simulated s" else "left")
    for trace in traces:
        result = "done" if trace.score["success"] else f"not done: {trace.score['reason']}"
        episodes.add_row(trace.task, result, f"{(trace.end_ns - trace.start_ns) * 1e-9:.1f}")

    timing = Table(title="timing on this machine", title_justify="left")
    for column in ("", "p50", "p99"):
        timing.add_column(column, justify="left" if not column else "right")
    for label, key in (("sensor to chunk (camera frame or joint state received, to chunk received)", "sensor_to_chunk_ms"),
                       ("chunk to motion (chunk received, to the player executing it)", "chunk_to_motion_ms"),
                       ("decision (observation taken, to chunk handed out)", "decision_ms")):
        timing.add_row(label, *(f"{value:.1f} ms" for value in numbers[key]))
    timing.add_row("decisions per second of simulated time", f"{numbers['decisions_per_simulated_s']:.2f}", "")
    timing.add_row("real-time factor of the simulation", f"{numbers['real_time_factor']:.2f}", "")

    stages = Table(title="stages", title_justify="left")
    for column in ("stage", "runs", "in background", "missed commits", "p50 ms", "p99 ms", "age p50 ms", "age p99 ms"):
        stages.add_column(column, justify="left" if column == "stage" else "right")
    for name, stage in numbers["stages"].items():
        stages.add_row(name, *(str(stage[key]) for key in ("runs", "background", "misses")),
                       *(f"{value:.1f}" for value in (*stage["duration_ms"], *stage["age_ms"])))
    return Group(episodes, timing, stages)


def _percentiles(values: list[float]) -> list[float]:
    return np.percentile(values, (50, 99)).tolist() if values else [float("nan")] * 2
