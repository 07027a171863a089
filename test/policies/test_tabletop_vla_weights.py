"""The weights of tabletop_vla: those that are shipped, and those that it refuses."""

from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from flashrt_ros import policies
from flashrt_ros.contract.schema import PolicyChoice
from flashrt_ros.policies import PolicyChoiceError
from flashrt_ros.policies.tabletop_vla_spec import BUILTIN, weights_file

FACTS = {"policy": "tabletop_vla", "trained_stale": "true"}


def shipped(name: str) -> Path:
    return weights_file(PolicyChoice("tabletop_vla", name))


def choice(path: Path) -> PolicyChoice:
    return PolicyChoice("tabletop_vla", str(path))


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    return load_file(shipped("builtin"))


@pytest.mark.parametrize("name", BUILTIN)
def test_shipped_weights_are_small_and_in_half_precision(name):
    """They travel with every clone and every wheel."""
    path = shipped(name)
    assert path.stat().st_size < 15 * 2**20
    assert {tensor.dtype for tensor in load_file(path).values()} == {torch.float16}
    assert all(tensor.isfinite().all() for tensor in load_file(path).values())


@pytest.mark.parametrize("name", BUILTIN)
def test_the_model_card_is_of_these_weights(name):
    """Its figures were measured with one file; another file under that name would wear them unearned."""
    path = shipped(name)
    card = (path.parent / "README.md").read_text()
    assert path.name in card and sha256(path.read_bytes()).hexdigest() in card
    assert policies.load(PolicyChoice("tabletop_vla", name)).weights_digest() in card


def test_weights_say_how_they_were_made():
    """From the file alone: seed, recipe, how far the training went."""
    for name in BUILTIN:
        with safe_open(shipped(name), framework="numpy") as file:
            assert file.metadata().keys() >= {"policy", "trained_stale", "seed", "steps", "rounds", "recipe"}


def test_whether_vision_may_be_stale_is_the_files_to_say(tensors, tmp_path):
    """A path in a contract can hold either kind; what says nothing was not trained for it."""
    for facts, stale in (({"trained_stale": "true"}, True), ({"trained_stale": "false"}, False), ({}, False)):
        path = tmp_path / "weights.safetensors"
        save_file(tensors, path, {"policy": "tabletop_vla", **facts})
        assert policies.spec(choice(path)).trained_stale is stale


def test_weights_of_ones_own_run_as_the_built_in_ones_do(tensors, tmp_path):
    """The way of all trained weights: a path instead of `builtin`, in single precision if they are."""
    path = tmp_path / "mine.safetensors"
    save_file({name: tensor.float() for name, tensor in tensors.items()}, path, FACTS)
    mine, builtin = policies.load(choice(path)), policies.load(PolicyChoice("tabletop_vla"))
    assert mine.spec == builtin.spec and mine.weights_digest() != builtin.weights_digest()
    spec, out = mine.spec.by_name, []
    reads = {name: torch.ones(spec[name].shape, dtype=getattr(torch, spec[name].dtype)) for name in ("scene", "wrist", "joints")}
    for policy in (mine, builtin):
        out.append(torch.empty(spec["vision_tokens"].shape))
        policy.run("vision", reads, {"vision_tokens": out[-1]})
    assert torch.equal(*out)


def test_a_path_that_is_none_is_refused(tmp_path):
    for path in (tmp_path / "absent.safetensors", tmp_path):
        with pytest.raises(PolicyChoiceError, match=f"{path}'.*no such file.*flashrt train tabletop_vla.*'builtin'"):
            policies.spec(choice(path))


@pytest.mark.parametrize("content", [b"", b"not one", (2**40).to_bytes(8, "little") + b"{}"])
def test_what_is_no_safetensors_file_is_refused(tmp_path, content):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(content)
    with pytest.raises(PolicyChoiceError, match=f"{path}: not a readable safetensors file"):
        policies.spec(choice(path))


def test_weights_cut_short_are_refused(tmp_path):
    """A copy that was interrupted."""
    path = tmp_path / "weights.safetensors"
    path.write_bytes(shipped("builtin").read_bytes()[:-1000])
    with pytest.raises(PolicyChoiceError, match=f"{path}: not a readable safetensors file"):
        policies.spec(choice(path))


@pytest.mark.parametrize("facts", [None, {"policy": "pi0"}])
def test_weights_of_another_policy_are_refused(tensors, tmp_path, facts):
    path = tmp_path / "weights.safetensors"
    save_file(tensors, path, facts)
    with pytest.raises(PolicyChoiceError, match=f"{path}.*policy {facts and facts['policy']!r}.*give weights that"):
        policies.spec(choice(path))


@pytest.mark.parametrize("name, change, said", [
    ("action_in.weight", None, r"action_in.weight is absent, and should be \(192, 7\)"),
    ("action_in.weight", torch.zeros(192, 6), r"action_in.weight is \(192, 6\), and should be \(192, 7\)"),
    ("lora.weight", torch.zeros(3), r"lora.weight is \(3,\), and should be absent"),
])
def test_weights_of_another_shape_are_refused(tensors, tmp_path, name, change, said):
    """One tensor is named, not all of them."""
    path = tmp_path / "weights.safetensors"
    tensors.pop(name, None)
    save_file(tensors | ({} if change is None else {name: change}), path, FACTS)
    with pytest.raises(PolicyChoiceError, match=f"{path} does not fit tabletop_vla: tensor {said}; give weights") as caught:
        policies.load(choice(path))
    assert len(str(caught.value)) < 400 + len(str(path))


def test_another_precision_is_refused():
    """It is not what success was measured in."""
    with pytest.raises(PolicyChoiceError, match="policy.precision is 'bf16'.*'fp32' only: leave it out"):
        policies.spec(PolicyChoice("tabletop_vla", precision="bf16"))
