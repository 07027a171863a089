"""`flashrt replay --capsule FILE` on what a black box wrote while the built-in policy drove the built-in arm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flashrt_ros.bench.closed_loop import ClosedLoop
from flashrt_ros.capsule.black_box import BlackBox
from flashrt_ros.capsule.file import SUFFIX, load as load_file, save
from flashrt_ros.capsule.maker import ChunkMaker
from flashrt_ros.capsule.stored import Stored, seal
from flashrt_ros.cli import main
from flashrt_ros.contract.load import load
from flashrt_ros.resources import find

CONTRACT = find("config/tabletop_vla.contract.yaml")
NAN, FAR, RAISE = 7, 10, 13  # the decisions at which a fault is planted, each with another part of the 1:4 schedule behind it
SETTINGS = {"as it comes": {}, "continuing": {"policy.continues": "future_state"},
            "of three candidates": {"decision.fork": "{candidates: 3, select: medoid}"}}


class Enough(Exception):
    """Nothing more is needed of the episode."""


def plant(observation, attempt):
    """A fault in the first attempt at some decisions."""
    changed = {}
    if attempt == 0 and observation.decision in (NAN, FAR):
        given = observation.inputs["noise"]
        changed["noise"] = replace(given, value=given.value * np.float32(np.nan if observation.decision == NAN else 1000.0))
    if attempt == 0 and observation.decision == RAISE:
        given = observation.inputs["task"]
        changed["task"] = replace(given, value=given.value + 9999, ident=-1)  # words that no embedding has
    return replace(observation, inputs={**observation.inputs, **changed})


def files(folder: Path, overrides: dict[str, str], until: int) -> dict[int, Path]:
    """Decision -> what the black box wrote of it, in the first decisions of one episode."""

    def watch(episode, chunk):
        if episode.index > until:
            raise Enough

    loop = ClosedLoop(load(CONTRACT, overrides),
                      maker=lambda engine, *rest: ChunkMaker(engine, *rest, black_box=BlackBox(folder, engine), corrupt=plant))
    with pytest.raises(Enough):
        loop.run("place", 10_003, watch=watch)
    loop.maker.black_box.close()
    loop.close()
    assert loop.maker.black_box.problem == ""
    return {load_file(path)[1].observation.decision: path for path in folder.iterdir()}


@pytest.fixture(scope="module", params=SETTINGS)
def trips(request, tmp_path_factory):
    return files(tmp_path_factory.mktemp("black_box"), SETTINGS[request.param], RAISE)


@pytest.fixture(scope="module")
def trip(tmp_path_factory):
    """(capsule, evidence) of one trip, for a test to change."""
    return load_file(files(tmp_path_factory.mktemp("one"), {}, FAR)[FAR])


def test_every_trip_is_reproduced_bit_for_bit(trips, capsys):
    """A chunk of NaN, one beyond its limits and a stage that raised: from the file alone, in a new engine that has never seen the
    episode."""
    assert sorted(trips) == [NAN, FAR, RAISE]
    for decision, path in trips.items():
        guard = {NAN: "nonfinite", FAR: "position", RAISE: "stage_error"}[decision]
        assert main(["replay", "--capsule", str(path)]) == 0
        said = capsys.readouterr().out
        assert said.startswith(f"decision {decision}, attempt 0, of session 1, epoch 1, stopped by the guard '{guard}': ")
        assert said.count("\n") == 1 and "reproduced bit for bit on the same engine" in said


def _as_elsewhere(stored: Stored) -> Stored:
    return replace(stored, record=replace(stored.record, digests=replace(stored.record.digests, engine="f" * 64)))


@pytest.mark.parametrize(("elsewhere", "changed", "code", "words"), [
    (True, False, 0, "reproduced bit for bit on another engine"),
    (True, True, 2, "differs on another engine"),
    (False, True, 1, "differs on the same engine"),
])
def test_the_exit_code_tells_a_difference_from_a_fault(trip, tmp_path, capsys, elsewhere, changed, code, words):
    """Other hardware may give other bits, and a script must be able to tell; the same engine may not."""
    stored, evidence = trip
    if changed:
        prefix = {name: tensor.clone() for name, tensor in evidence.outputs.items()}
        prefix["prefix_kv"].view(-1)[5] += 0.125
        evidence = evidence.with_outputs(prefix)
    path = tmp_path / f"a{SUFFIX}"
    save(path, _as_elsewhere(stored) if elsewhere else stored, evidence)
    assert main(["replay", "--capsule", str(path)]) == code
    said = capsys.readouterr().out
    assert words in said
    assert ("stage 'prefix' is the first: its output 'prefix_kv' by up to 0.125; the chunk by up to 0\n" in said) == changed


@pytest.mark.parametrize(("digests", "words"), [
    ({"weights": "0" * 64}, "was made with the weights 000000000000"),
    ({"contract": "0" * 64}, "belongs to the contract 000000000000"),
])
def test_a_capsule_of_others_is_refused(trip, tmp_path, capsys, digests, words):
    """A checkpoint that was trained further is another policy: its decision would differ and say nothing about this one."""
    stored, evidence = trip
    path = tmp_path / f"a{SUFFIX}"
    save(path, replace(stored, record=replace(stored.record, digests=replace(stored.record.digests, **digests))), evidence)
    assert main(["replay", "--capsule", str(path)]) == 1
    assert words in capsys.readouterr().err


def test_the_contract_of_another_file_can_be_tried(trip, tmp_path, capsys):
    """The text in the file is enough; one given instead must mean the same, whatever its comments say."""
    stored, evidence = trip
    path, contract = tmp_path / f"a{SUFFIX}", tmp_path / "mine.yaml"
    save(path, stored, evidence)
    contract.write_text("# mine\n" + CONTRACT.read_text())
    assert main(["replay", "--capsule", str(path), "--contract", str(contract)]) == 0
    contract.write_text(CONTRACT.read_text().replace("rate_hz: 10", "rate_hz: 5"))
    assert main(["replay", "--capsule", str(path), "--contract", str(contract)]) == 1
    assert "load the contract that it was made under" in capsys.readouterr().err


def test_a_capsule_without_a_decision_says_so(trip, tmp_path, capsys):
    """A snapshot can be restored; there is nothing in it to make again."""
    path = tmp_path / f"a{SUFFIX}"
    save(path, seal(trip[0].record, trip[0].tensors))
    assert main(["replay", "--capsule", str(path)]) == 1
    assert "no decision to make again" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "words"), [(["--capsule", "nowhere"], "nowhere: No such file"), ([], "--capsule")])
def test_what_is_asked_wrongly_is_answered_in_a_sentence(arguments, words, capsys):
    """As everywhere on the command line."""
    try:
        code = main(["replay", *arguments])
    except SystemExit as exit:
        code = exit.code
    assert code != 0 and words in capsys.readouterr().err
