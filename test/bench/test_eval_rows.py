"""From episodes to figures, and through files: what is compared with what, and which results may be put together."""

import json
from dataclasses import replace

import pytest

from flashrt_ros.bench.intervals import paired_bootstrap, unpaired_bootstrap, wilson
from flashrt_ros.bench.jobs import BLACK, HELD_OUT_PAIRS, POLICY, EvaluationError, Setting
from flashrt_ros.bench.results_file import Run, merge, read, write
from flashrt_ros.bench.rows import Result, Row, lines
from flashrt_ros.policies.instruction import is_held_out
from flashrt_ros.sim.layout import draw_instruction

RUN = Run("a machine", 2, "2026-01-01", "flashrt eval", "0.1.0")
SEEDS = range(10_000, 10_060)


def row(kind="pick", condition=POLICY, successes=lambda seed: True, seeds=SEEDS, digest="d", ms=5.0, **setting) -> Row:
    episodes = []
    for seed in seeds:
        success = bool(successes(seed))
        task = draw_instruction(kind, seed).text
        episodes.append(Result(kind, seed, task, task, success, None if success else "hovered", "why", 3.0, 30, 1, ms, 2 * ms))
    return Row(Setting("arm", condition=condition, **setting), kind, digest, tuple(episodes))


def test_each_row_is_compared_with_the_first_of_its_task_scene_by_scene():
    first, second = row(successes=lambda s: s % 2), row(condition=BLACK, successes=lambda s: s % 3 == 0)
    belt = row("belt", successes=lambda s: s % 5)
    got = lines([first, belt, second])
    assert [line.row for line in got] == [first, second, belt]
    assert got[0].baseline is None and got[2].baseline is None and got[1].baseline is first and got[1].paired
    assert got[1].difference == pytest.approx(100 * (20 - 30) / 60)
    low, high = paired_bootstrap([s % 3 == 0 for s in SEEDS], [s % 2 == 1 for s in SEEDS])
    assert got[1].difference_interval == pytest.approx((100 * low, 100 * high))
    assert (got[1].successes, got[1].n, got[1].interval) == (20, 60, wilson(20, 60))


def test_how_smooth_a_row_is_is_told_where_it_was_measured():
    """Of the median episode; files of earlier versions have none, and can still be compared in everything else."""
    measured = row()
    episodes = tuple(replace(e, jerk_rad_s3=float(i), mean_jump_rad=0.1 * i) for i, e in enumerate(measured.episodes[:5]))
    line, = lines([replace(measured, episodes=(*episodes, *measured.episodes[5:]))])
    assert (line.jerk_rad_s3, line.mean_jump_rad) == (2.0, 0.2)
    assert (lines([measured])[0].jerk_rad_s3, lines([measured])[0].mean_jump_rad) == (None, None)


def test_figures_of_a_row():
    line, = lines([row(successes=lambda s: s < 10_050)])
    assert line.causes == (("hovered", 10),) and line.refused == 60 and line.median_s == 3.0
    assert (line.decision_ms, line.decision_p95_ms) == (5.0, 10.0)
    assert lines([row(successes=lambda s: False)])[0].median_s is None


def test_place_shows_held_out_pairs_beside_the_others():
    """A policy that has learned pairs by heart, not words: 100 % on the others and 0 % on held-out ones."""
    knows = lambda seed: not is_held_out(draw_instruction("place", seed))  # noqa: E731
    whole, others, held_out = lines([row("place", successes=knows)])
    assert (others.row.task, others.successes) == ("place, other pairs", others.n)
    assert (held_out.row.task, held_out.successes) == ("place, held-out pairs", 0) and held_out.n + others.n == whole.n
    assert held_out.difference == -100 and held_out.baseline == others.row and not held_out.paired
    assert held_out.difference_interval == pytest.approx([100 * x for x in unpaired_bootstrap([0] * held_out.n, [1] * others.n)])


def test_too_few_held_out_pairs_are_not_shown_by_themselves():
    assert len(lines([row("place", seeds=range(10_000, 10_012))])) == 1


def test_the_held_out_condition_is_compared_in_the_scenes_of_the_other_pairs():
    """Where the ordinary instruction is held out, too, there is nothing to compare."""
    policy, held_out = row("place"), row("place", HELD_OUT_PAIRS, successes=lambda s: s % 2)
    line = lines([policy, held_out])[-1]
    assert line.row is held_out and line.paired and line.baseline.part == "other pairs"
    shared = [seed for seed in SEEDS if not is_held_out(draw_instruction("place", seed))]
    assert line.difference == pytest.approx(100 * (sum(s % 2 for s in shared) / len(shared) - 1))


def test_rows_come_back_from_a_file_as_they_were(tmp_path):
    rows = [row("place", overrides=(("a.b", "1"), ("c", "[0, 1]")), strategy="ensemble"),
            row("place", HELD_OUT_PAIRS, latency="measured")]
    write(tmp_path / "new" / "a.json", [RUN], lines(rows))
    assert read(tmp_path / "new" / "a.json") == ([RUN], rows)
    data = json.loads((tmp_path / "new" / "a.json").read_text())
    assert {r["part"] for r in data["rows"]} == {"", "other pairs", "held-out pairs"}
    assert data["rows"][0]["wilson_95"] == list(wilson(60, 60)) and data["rows"][0]["digest"] == "d"


def test_a_file_from_before_there_were_strategies_is_read(tmp_path):
    """Its chunks were played as they came, and nobody looked at their smoothness."""
    write(tmp_path / "a.json", [RUN], lines([row()]))
    data = json.loads((tmp_path / "a.json").read_text())
    for figures in (data["rows"][0], data["rows"][0]["episodes"][0]):
        for key in ("strategy", "jerk_rad_s3", "mean_jump_rad"):
            figures.pop(key, None)
    (tmp_path / "a.json").write_text(json.dumps(data))
    assert read(tmp_path / "a.json") == ([RUN], [row()])


@pytest.mark.parametrize("text", ["", "[]", "{}", "{\"format\": 1}", "{\"format\": 1, \"runs\": [], \"rows\": [{\"part\": \"\"}]}"])
def test_a_file_that_holds_no_results_is_refused_by_name(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(EvaluationError, match="a.json: not results"):
        read(tmp_path / "a.json")


def test_another_format_and_no_file_are_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"format": 2}')
    with pytest.raises(EvaluationError, match="format 2"):
        read(tmp_path / "a.json")
    with pytest.raises(EvaluationError, match="No such file"):
        read(tmp_path / "b.json")


def test_rows_of_several_machines_come_together():
    one, other = row(overrides=(("every", "1"),)), row(overrides=(("every", "2"),))
    runs, rows = merge([("a", [RUN], [one]), ("b", [RUN, RUN], [replace(other, runs=(1,))])])
    assert len(runs) == 3 and rows == [one, replace(other, runs=(2,))]


def test_halves_of_one_row_become_one():
    """Seeds may be shared out over machines; a row given twice counts once."""
    first, second = row(seeds=range(10_000, 10_010)), row(seeds=range(10_005, 10_020), ms=9.0)
    _, (joined,) = merge([("a", [RUN], [first]), ("b", [RUN], [second])])
    assert joined.seeds == tuple(range(10_000, 10_020)) and joined.runs == (0, 1)
    assert [e.decision_ms for e in joined.episodes[:6]] == [5.0] * 5 + [9.0]


def test_rows_of_two_strategies_stay_two():
    """They are what is compared."""
    _, rows = merge([("a", [RUN], [row()]), ("b", [RUN], [row(strategy="ensemble", successes=lambda s: s % 2)])])
    assert [r.setting.strategy for r in rows] == ["latest", "ensemble"]


@pytest.mark.parametrize(("theirs", "words"), [
    (row(successes=lambda s: s != 10_007), "seed 10007 ended differently"), (row(digest="e"), "contracts or weights differ")])
def test_one_row_with_two_results_is_refused(theirs, words):
    with pytest.raises(EvaluationError, match=f"b: row .arm, policy, pick.*also in a.*{words}"):
        merge([("a", [RUN], [row()]), ("b", [RUN], [theirs])])


def test_rows_of_different_scenes_are_not_put_side_by_side():
    with pytest.raises(EvaluationError, match="b: row .*20 seeds from 20000 to 20019.*scene by scene.*share none"):
        merge([("a", [RUN], [row()]), ("b", [RUN], [row(condition=BLACK, seeds=range(20_000, 20_020))])])
    merge([("a", [RUN], [row()]), ("b", [RUN], [row(condition=BLACK, seeds=range(10_000, 10_005))])])  # some in common
    merge([("a", [RUN], [row()]), ("b", [RUN], [row("belt", seeds=range(10_000, 10_020))])])  # another task: nothing to pair
