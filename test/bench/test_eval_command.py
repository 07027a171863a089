"""`flashrt eval` as it is typed: what it refuses, and what it leaves behind."""

import json
import subprocess
import sys

import pytest
from rich.console import Console

from flashrt_ros.bench.jobs import Setting
from flashrt_ros.bench.plot import draw
from flashrt_ros.bench.report import success_table, varying
from flashrt_ros.bench.results_file import Run
from flashrt_ros.bench.rows import Result, Row, lines
from flashrt_ros.cli import main
from flashrt_ros.resources import DEFAULT_CONTRACT, find

CONTRACT = str(find("config/color_servo.contract.yaml"))
RUN = Run("a machine", 2, "2026-01-01", "flashrt eval", "0.1.0")


def made_up(contract="arm", kind="pick", done=9, condition="policy", latency=40.0, splice="latest", **overrides) -> Row:
    episodes = tuple(Result(kind, 10_000 + i, "pick up the red cube", "pick up the red cube", i < done,
                            None if i < done else "hovered", "why", 3.0, 30, 0, 5.0, 9.0, 1234.56, 0.0789) for i in range(12))
    keys = tuple((key.replace("_", "."), value) for key, value in overrides.items())
    return Row(Setting(contract, keys, condition, latency, strategy=splice), kind, "d", episodes)


SWEEP = [made_up(kind=kind, vision_every=every, decision_rate=rate, done=done) for kind in ("pick", "place", "belt")
         for every, done in (("1", 12), ("2", 9), ("8", 3)) for rate in ("10", "20")]


def test_a_sweep_ends_in_tables_a_file_and_pictures(tmp_path, capsys):
    """The whole way once: two settings, two scenes, and the same table again from the file."""
    arguments = [CONTRACT, "--tasks", "pick", "--episodes", "2", "--workers", "1", "--set", "stages.vision.every=1,2"]
    out = ["--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.png"), "--failures", str(tmp_path / "failed")]
    assert main(["eval", *arguments, *out]) == 0
    data = json.loads((tmp_path / "a.json").read_text())
    assert [(r["overrides"], r["success"], r["n"]) for r in data["rows"]] == [
        ({"stages.vision.every": "1"}, 2, 2), ({"stages.vision.every": "2"}, 2, 2)]
    assert [e["seed"] for e in data["rows"][1]["episodes"]] == [10_000, 10_001]
    assert data["runs"][0]["command"].startswith(f"flashrt eval {CONTRACT} --tasks pick") and data["runs"][0]["cores"] >= 1
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    table = printed[printed.index("success in the built-in world"):].split("every episode")[0]
    assert "vision." in table and "2/2" in table

    assert main(["eval", "--from", str(tmp_path / "a.json"), "--plot", str(tmp_path / "again.png")]) == 0
    assert table in capsys.readouterr().out and (tmp_path / "again.png").exists()


@pytest.mark.parametrize(("arguments", "words"), [
    (["--seed", "0"], "belong to training"),
    (["--tasks", "dance"], "pick, place, belt"),
    ([CONTRACT, "--set", "stages.vision.evry=1,2"], "did you mean 'every'?"),
    ([CONTRACT, "--set", "stages.vision.every=1,2,8"], "the worst-case age is 950 ms"),
    (["nowhere.yaml"], "No such file"),
    (["--expert", "--controls"], "ask for one of the two"),
    (["--threads", "0"], "at least 1 thread"),
    (["--latency", "soon"], "--latency soon"),
    (["--strategy", "average"], "--strategy average: allowed: latest, ensemble"),
    (["--plot", "out/picture.doc"], "must end in one of .png"),
    (["--json", "/proc/nowhere/a.json"], "can be written"),
    (["--from", "a.json", "--set", "a=1"], "runs nothing"),
    (["--from", "nowhere.json"], "No such file"),
])
def test_what_cannot_be_run_is_refused_at_once_in_one_line(arguments, words, capsys):
    """Not after an hour, and not as a traceback."""
    assert main(["eval", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("flashrt: ") and words in error and len(error.strip().splitlines()) == 1


def test_tables_of_earlier_runs_need_no_engine_and_no_world():
    """They are put together on a desk, from files of other machines; and every worker's parent stays small."""
    heavy = ("torch", "mujoco", "matplotlib", "rclpy")
    code = f"import sys, flashrt_ros.bench.evaluate; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_the_default_contract_is_there():
    """Demo and evaluation run without arguments."""
    assert find(DEFAULT_CONTRACT).is_file()


def test_the_table_fits_132_columns_and_shows_what_varies():
    console = Console(width=132, record=True, file=open("/dev/null", "w"))
    rows = [made_up(vision_every=every, condition=condition, kind="place", done=done) for every, done in (("1", 12), ("16", 0))
            for condition in ("policy", "black images", "wrong instruction", "held-out pairs")]
    console.print(success_table(lines(rows)))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 132
    for line in ("wrong instruction", "held-out pairs", "-100.0 [-100.0, -100.0]", "vision.", "0/12", "75.8–100.0", "1234.6", "0.079"):
        assert line in text
    assert "arm" in text.splitlines()[0] and "strategy latest" in text.splitlines()[0] and varying(lines(rows)) == ["vision.every"]


def test_rows_of_two_strategies_are_told_apart():
    console = Console(width=120, record=True, file=open("/dev/null", "w"))
    console.print(success_table(lines([made_up(splice=value) for value in ("latest", "ensemble")])))
    text = console.export_text()
    assert "strategy" not in text.splitlines()[0] and "latest" in text and "ensemble" in text


@pytest.mark.parametrize("rows", [
    SWEEP,
    [*SWEEP, made_up("servo"), made_up("servo", "belt", condition="expert")],  # rows without the swept key
    [made_up(rate=value) for value in ("10", "15", "30")],
    [made_up(strategy=value) for value in ("hold", "asof")],
    [made_up(condition=condition) for condition in ("policy", "black images")],
    [made_up(latency=value) for value in (0.0, 40.0, "measured")],
    [made_up(splice=value) for value in ("latest", "ensemble")],
    [made_up()],
], ids=["two keys", "with contracts as they are", "numbers", "words", "controls", "latencies", "strategies", "one row"])
def test_whatever_was_swept_can_be_drawn(rows, tmp_path):
    draw(lines(rows), [RUN], tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
