"""The picture of what latency costs: what is put together, and that a picture comes of it."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from flashrt_ros.bench import plot_latency
from flashrt_ros.bench.jobs import BLACK, MEASURED, POLICY, Setting
from flashrt_ros.bench.results_file import Run
from flashrt_ros.bench.rows import Result, Row, lines

RUN = Run("a machine", 2, "2026-01-01", "flashrt eval", "0.1.0")


def row(latency, strategy="latest", kind="pick", condition=POLICY, successes=8):
    episodes = tuple(Result(kind, 10_000 + i, "t", "t", i < successes, None if i < successes else "hovered", "", 3.0, 30, 0, 5.0, 9.0,
                            jerk_rad_s3=100.0 + i, mean_jump_rad=0.01 * i) for i in range(10))
    return Row(Setting("arm", condition=condition, latency=latency, strategy=strategy), kind, strategy, episodes)


def test_only_simulated_latencies_of_the_policy_make_an_axis():
    """A control, or a latency that was whatever the machine took, has no place on it."""
    found = plot_latency.latencies(lines([row(100.0), row(0.0), row(0.0, kind="belt"), row(50.0, condition=BLACK), row(MEASURED)]))
    assert found == [0.0, 100.0]


def test_tasks_are_put_together_and_strategies_apart(tmp_path, monkeypatch):
    """Success over all episodes of a strategy and latency; the intervals of the others are quartiles over episodes."""
    drawn = []
    original = plt.Axes.errorbar
    monkeypatch.setattr(plt.Axes, "errorbar", lambda axes, x, y, **more: drawn.append((more["label"], list(y))) or original(axes, x, y, **more))
    rows = [row(0.0), row(0.0, kind="belt", successes=4), row(200.0), row(0.0, "rtc"), row(200.0, "rtc", successes=10)]
    plot_latency.draw(lines(rows), [RUN], tmp_path / "new" / "latency.png")
    assert (tmp_path / "new" / "latency.png").read_bytes().startswith(b"\x89PNG")
    success = {label: y for label, y in drawn[::3]}
    assert success == {"latest": pytest.approx([60.0, 80.0]), "rtc": pytest.approx([80.0, 100.0])}
    assert drawn[1][1][1] == pytest.approx(np.median(100.0 + np.arange(10)))
