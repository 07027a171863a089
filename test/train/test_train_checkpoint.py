"""A leg's files: they come back as they went, and what is no whole leg is none."""

import json

import pytest
import torch
from safetensors import safe_open

from flashrt_ros.train.checkpoint import PARAMETERS, PART_BYTES, PROGRESS, SECOND, WEIGHTS, CheckpointError, Progress, load_leg, save_leg

PROGRESSED = Progress(seed=3, staleness=8, step=12, rounds=40, leg=2, seconds=1.5)
FACTS = {"policy": "tabletop_vla", "trained_stale": "true", "seed": "3", "steps": "12", "rounds": "40"}


def tensors(seed: int = 0, **sizes: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(size, generator=generator) for name, size in sizes.items()}


@pytest.fixture
def leg():
    """progress, parameters, average, second."""
    sizes = {"a": 5, "b": 70, "c": 3, "heads.d": 9}
    return PROGRESSED, tensors(0, **sizes), tensors(1, a=5, b=70), tensors(2, **sizes)


def test_a_leg_comes_back(leg, tmp_path):
    """Parameters to the bit, what is kept shorter as short as it is kept; the folder is made."""
    save_leg(tmp_path / "new" / "leg", *leg, FACTS)
    progress, parameters, average, second = load_leg(tmp_path / "new" / "leg")
    assert progress == PROGRESSED
    for got, sent, kept in ((parameters, leg[1], torch.float32), (average, leg[2], torch.float16), (second, leg[3], torch.bfloat16)):
        assert got.keys() == sent.keys() and all(torch.equal(got[name], sent[name].to(kept)) for name in sent)


def test_the_weights_say_whose_they_are(leg, tmp_path):
    """They leave the folder alone."""
    save_leg(tmp_path, *leg, FACTS)
    with safe_open(tmp_path / WEIGHTS, framework="numpy") as file:
        assert file.metadata() == FACTS


def test_the_same_leg_is_the_same_bytes(leg, tmp_path):
    """The weights' digest is part of a pipeline's identity, so training again must not change it; and others may read the
    files than who wrote them."""
    for i in range(4):
        save_leg(tmp_path / str(i), *leg, FACTS)
        for name in (*PARAMETERS, SECOND, WEIGHTS, PROGRESS):
            assert (tmp_path / str(i) / name).read_bytes() == (tmp_path / "0" / name).read_bytes(), name
            assert (tmp_path / str(i) / name).stat().st_mode == (tmp_path / "0" / PROGRESS).stat().st_mode, name


def test_views_and_other_memory_formats_come_back_in_order(tmp_path):
    """Convolutions are trained channels last."""
    weight = torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last)
    save_leg(tmp_path, PROGRESSED, {"w": weight}, {"w": weight}, {"w": weight[:2]}, FACTS)
    _, parameters, _, second = load_leg(tmp_path)
    assert torch.equal(parameters["w"], weight) and torch.equal(second["w"], weight[:2].bfloat16())


def test_without_its_progress_there_is_no_leg(leg, tmp_path):
    save_leg(tmp_path, *leg, FACTS)
    (tmp_path / PROGRESS).unlink()
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(CheckpointError, match=f"--resume {folder}: no finished leg is there .*{PROGRESS}"):
            load_leg(folder)


@pytest.mark.parametrize("content, said", [
    (json.dumps({"version": 2, "seed": 1, "staleness": 8}), "not of version 1; train anew"),
    ("[1]", "not of version 1"),
    ('{"version": 1, "se', "damaged"),
    (json.dumps({"version": 1, "seed": 1}), "not whole.*staleness.*copy its folder again"),
])
def test_foreign_or_damaged_progress_is_refused(leg, tmp_path, content, said):
    save_leg(tmp_path, *leg, FACTS)
    (tmp_path / PROGRESS).write_text(content)
    with pytest.raises(CheckpointError, match=f"--resume {tmp_path}: .*{said}"):
        load_leg(tmp_path)


@pytest.mark.parametrize("name", [*PARAMETERS, SECOND, WEIGHTS])
@pytest.mark.parametrize("damage", ["missing", "cut short"])
def test_a_leg_of_which_a_part_is_missing_or_cut_is_refused(leg, tmp_path, name, damage):
    """Legs are copied between machines, and copies are interrupted."""
    save_leg(tmp_path, *leg, FACTS)
    path = tmp_path / name
    path.unlink() if damage == "missing" else path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(CheckpointError, match=f"--resume {tmp_path}: the leg is not whole.*copy its folder again"):
        load_leg(tmp_path)


def test_a_leg_too_large_leaves_the_one_before(leg, tmp_path):
    """Nothing is written before all is known to be good."""
    save_leg(tmp_path, *leg, FACTS)
    with pytest.raises(CheckpointError, match=f"{tmp_path / WEIGHTS} would have .* at most {PART_BYTES}"):
        save_leg(tmp_path, Progress(4, 8), leg[1], {"a": torch.zeros(PART_BYTES // 2)}, leg[3], FACTS)
    assert load_leg(tmp_path)[0] == PROGRESSED


def test_a_leg_that_fails_while_it_is_written_leaves_the_one_before(leg, tmp_path):
    """A full disk, or Ctrl-C: the last part cannot be written, the first ones have been."""
    save_leg(tmp_path, *leg, FACTS)
    (tmp_path / f"{WEIGHTS}.new").mkdir()
    with pytest.raises(CheckpointError, match=f"{tmp_path}: the leg cannot be written"):
        save_leg(tmp_path, Progress(4, 8), tensors(7, a=5, b=70), *leg[2:], FACTS)
    progress, parameters, *_ = load_leg(tmp_path)
    assert progress == PROGRESSED and torch.equal(parameters["b"], leg[1]["b"])


def test_there_is_no_leg_while_its_parts_are_exchanged(leg, tmp_path):
    """Stopped between two parts, the folder holds some of either leg. A folder in the last part's place stops it there."""
    save_leg(tmp_path, *leg, FACTS)
    (tmp_path / WEIGHTS).unlink()
    (tmp_path / WEIGHTS).mkdir()
    with pytest.raises(CheckpointError, match="cannot be written"):
        save_leg(tmp_path, Progress(4, 8), tensors(7, a=5, b=70), *leg[2:], FACTS)
    with pytest.raises(CheckpointError, match="no finished leg is there"):
        load_leg(tmp_path)
