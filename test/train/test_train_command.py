"""`flashrt train tabletop_vla`, the whole way at a hundredth of its size: legs, their end, and what comes of them."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file

from flashrt_ros.bench.closed_loop import ClosedLoop
from flashrt_ros.cli import main
from flashrt_ros.contract.load import load
from flashrt_ros.resources import find
from flashrt_ros.train.checkpoint import PROGRESS, WEIGHTS, Progress
from flashrt_ros.train.leg import Leg
from flashrt_ros.train.recipe import Recipe, TrainError

SIZE = {"device": "cpu", "processes": 1, "worlds": 2, "seed": 3, "rounds": 6, "steps": 1, "batch": 2, "draws": 1, "first-rounds": 3,
        "expert-rounds": 3, "ramp": 1, "warm-up": 2}
FILES = {"log.json", "parameters_0.safetensors", "parameters_1.safetensors", PROGRESS, "second.safetensors", WEIGHTS}


def arguments(out: Path, **options) -> list[str]:
    given = SIZE | {name.replace("_", "-"): value for name, value in options.items()}
    return ["train", "tabletop_vla", "--out", str(out), *(str(word) for name, value in given.items() for word in (f"--{name}", value))]


def progress(leg: Path) -> dict:
    return json.loads((leg / PROGRESS).read_text())


@pytest.fixture(scope="module")
def leg(tmp_path_factory) -> Path:
    """The first leg's folder."""
    out = tmp_path_factory.mktemp("train") / "first"
    assert main(arguments(out)) == 0
    return out


def test_a_leg_leaves_its_files(leg):
    assert {path.name for path in leg.iterdir()} == FILES
    done = progress(leg)
    assert (done["step"], done["rounds"], done["leg"], done["seed"], done["staleness"]) == (4, 6, 1, 3, 8)
    assert {tensor.dtype for tensor in load_file(leg / WEIGHTS).values()} == {torch.float16}


def test_the_weights_run_by_their_path_in_a_contract(leg):
    """They say by themselves that they may be run with stale vision."""
    class Enough(Exception):
        pass

    chunks = []

    def watch(episode, chunk) -> None:
        chunks.append(chunk)
        if len(chunks) == 3:
            raise Enough

    untrained = {"policy.checkpoint": str(leg / WEIGHTS), "rollback.guards": "[nonfinite]"}  # after these few steps they say nonsense
    loop = ClosedLoop(load(find("config/tabletop_vla.contract.yaml"), untrained))
    with pytest.raises(Enough):
        loop.run("pick", 10_000, watch=watch)
    loop.close()
    assert all(chunk is not None and chunk.shape == (32, 7) and np.isfinite(chunk).all() for chunk in chunks)


def test_a_repeated_leg_is_the_same_and_another_one_goes_on(leg, tmp_path):
    """In two processes instead of one; to the byte of every file but the clock's."""
    again, second = tmp_path / "again", tmp_path / "second"
    assert main(arguments(again, processes=2, worlds=1)) == 0
    for name in FILES - {PROGRESS, "log.json"}:
        assert (again / name).read_bytes() == (leg / name).read_bytes(), name
    before = {path.name: path.read_bytes() for path in leg.iterdir()}
    assert main(arguments(second, resume=leg, rounds=10)) == 0
    assert {path.name: path.read_bytes() for path in leg.iterdir()} == before
    done = progress(second)
    assert (done["step"], done["rounds"], done["leg"]) == (4 + 2, 10, 2) and done["seconds"] > progress(leg)["seconds"]
    first, then = (load_file(folder / WEIGHTS) for folder in (leg, second))
    assert torch.equal(first["action_scale"], then["action_scale"])  # else the old weights would mean other joint targets
    assert not torch.equal(first["words.weight"], then["words.weight"])


@pytest.mark.parametrize("options, said", [
    ({"seed": 4}, "is of --seed 3 --staleness 8; this leg asks for 4 and 8: give the same"),
    ({"staleness": 0}, "is of --seed 3 --staleness 8; this leg asks for 3 and 0"),
    ({"rounds": 8}, "6 of 8 --rounds are done.* gathers 3 before.*give more --rounds"),
])
def test_a_leg_that_cannot_go_on_is_refused(leg, tmp_path, capsys, options, said):
    assert main(arguments(tmp_path / "out", resume=leg, **options)) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"flashrt: --resume {leg}") and re.search(said, error) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("options, said", [
    ({"processes": 0}, "--processes 0: give a value from 1 to"), ({"worlds": 0}, "--worlds 0"), ({"minutes": 0.5}, "--minutes 0.5"),
    ({"threads": 0}, "--threads 0"), ({"seed": -1}, "--seed -1"), ({"batch": 0}, "--batch 0"), ({"rounds": 3}, "--rounds 3"),
    ({"device": "abacus"}, "--device abacus: give cuda or cpu"), ({"device": "meta"}, "--device meta: give cuda or cpu"),
    ({"resume": "nowhere"}, "--resume nowhere: no finished leg is there"),
])
def test_what_cannot_be_is_refused_before_anything_runs(tmp_path, capsys, options, said):
    assert main(arguments(tmp_path / "out", **options)) == 1
    assert f"flashrt: {said}" in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused(tmp_path, capsys):
    assert main(arguments(tmp_path / "out", device="cuda")) == 1
    assert "--device cuda: torch finds no CUDA device here; give cpu" in capsys.readouterr().err


@pytest.mark.parametrize("below", ["", "leg"])
def test_a_folder_that_cannot_be_written_is_told_before_anything_runs(tmp_path, capsys, below):
    """Not after the nine minutes whose result it was to take."""
    (tmp_path / "file").touch()
    out = tmp_path / "file" / below
    assert main(arguments(out)) == 1
    assert f"flashrt: --out {out}: nothing can be written there" in capsys.readouterr().err


def test_a_leg_that_is_over_before_its_first_step_is_an_error():
    """A slow machine, and too little time: its untrained weights would look like any others."""
    leg = Leg(Recipe(), Progress(3, 8), 1, torch.device("cpu"))
    with pytest.raises(TrainError, match="after 0 rounds.*nothing was learned or saved; give more --minutes"):
        leg.run(None, limit_s=0)


def test_ctrl_c_ends_all_processes_and_saves_nothing(tmp_path):
    """As a terminal sends it: to the worlds, too. A leg stopped half-way is no leg, and no process or memory stays."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "flashrt_ros.cli", *arguments(out, processes=2, worlds=1, rounds=1000)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                          # Under a job in the background of a shell, Ctrl-C is ignored, and that is handed down.
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
        assert process.stdout.readline().startswith("2 worlds, 0 of 1000 rounds done")
        children = psutil.Process(process.pid).children(recursive=True)
        memory = {m.path for child in children for m in child.memory_maps() if m.path.startswith("/dev/shm/psm_")}
        os.killpg(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and error == "interrupted\n"
    assert len(children) >= 2 and not psutil.wait_procs(children, timeout=20)[1]
    assert len(memory) == 1 and not any(Path(path).exists() for path in memory)
    assert not list(out.iterdir())
