"""tabletop_vla as a policy: what it declares, what it computes from given inputs, and that both repeat."""

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
import torch
from color_servo_scenes import decide, seen

from flashrt_ros import policies
from flashrt_ros.contract.errors import ContractError
from flashrt_ros.contract.load import load
from flashrt_ros.contract.schema import PolicyChoice
from flashrt_ros.contract.verify import verify
from flashrt_ros.engine.engine import Engine
from flashrt_ros.engine.noise import decision_noise, with_noise
from flashrt_ros.engine.observation import InputValue, Observation
from flashrt_ros.policies.base import TaskError
from flashrt_ros.policies.instruction import KINDS, Instruction
from flashrt_ros.policies.tabletop_cell import COLOURS
from flashrt_ros.policies.tabletop_vla import load_net
from flashrt_ros.policies.tabletop_vla_spec import HORIZON, weights_file
from flashrt_ros.policies.tabletop_vla_words import TEXT, WORDS
from flashrt_ros.resources import find
from flashrt_ros.sim.world import World

CHOICE = PolicyChoice("tabletop_vla")
CONTRACT = find("config/tabletop_vla.contract.yaml")


def noise(number: int = 0) -> np.ndarray:
    return decision_noise((HORIZON, 7), seed=1, epoch=1, decision=number)


@pytest.fixture(scope="module")
def policy():
    torch.set_num_threads(1)
    return policies.load(CHOICE)


@pytest.fixture(scope="module")
def scenes(policy):
    """The policy's inputs at the start of one episode of each kind."""
    world, given = World((96, 96)), []
    for kind in KINDS:
        text = world.reset(kind, 10_000).text
        given.append(seen(policy, world, text) | {"noise": noise(), "vision_age": np.array([0.02], np.float32)})
    world.close()
    return given


def test_the_declaration_needs_no_torch():
    """`flashrt plan` verifies a contract on a machine that has none, from the weights' own facts."""
    code = ("import sys; from flashrt_ros import policies; from flashrt_ros.contract.schema import PolicyChoice\n"
            "print(policies.spec(PolicyChoice('tabletop_vla')).trained_stale, 'torch' in sys.modules)")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "False"]


def test_weights_trained_on_fresh_vision_are_held_to_it():
    """They would run at 5 Hz vision without a complaint, and miss the moving belt."""
    assert policies.spec(CHOICE).trained_stale
    fresh = {"policy.checkpoint": "builtin-fresh"}
    contract = load(CONTRACT, fresh)
    spec = policies.spec(contract.policy)
    assert not spec.trained_stale
    with pytest.raises(ContractError, match="stages.vision.every.* not trained to act on stages older.*allow_stale"):
        verify(contract, spec)
    allowed = verify(load(CONTRACT, fresh | {"policy.allow_stale": "true"}), spec)
    assert any("allow_stale" in warning for warning in allowed.warnings)
    assert not verify(load(CONTRACT), policies.spec(CHOICE)).warnings
    every_one = fresh | {"stages.vision.every": "1", "stages.vision.overlap": "null"}
    assert not verify(load(CONTRACT, every_one), spec).warnings


def test_every_instruction_has_an_encoding_of_its_own(policy):
    """Two that share one could not be told apart; a word that is cut off could not either."""
    texts = [Instruction(kind, colour, bin_).text for kind in KINDS for colour in COLOURS
             for bin_ in (COLOURS if kind == "place" else [None])]
    codes = {text: policy.encode_text(text) for text in texts}
    assert len({code.tobytes() for code in codes.values()}) == len(texts) == 24
    for text, code in codes.items():
        assert code.dtype == np.int32 and code.shape == (TEXT,)
        assert " ".join(WORDS[i] for i in code).rstrip() == text


def test_no_text_is_no_instruction_and_other_text_is_refused(policy):
    """The buffer is zero until the first message; what is not understood must not become the nearest thing."""
    for blank in ("", "  \n"):
        assert not policy.encode_text(blank).any()
    assert np.array_equal(policy.encode_text(" Pick up  the RED cube "), policy.encode_text("pick up the red cube"))
    for text in ("pick up the pink cube", "put the red cube in the bin", "wave"):
        with pytest.raises(TaskError, match=text):
            policy.encode_text(text)


def test_a_traced_stage_gives_the_bits_of_the_network(policy, scenes):
    """From the second call on the tracer's executor may run an optimised form. Training and evaluation on a GPU run the
    network itself."""
    net = load_net(weights_file(CHOICE))
    for given, _ in product(scenes, range(3)):
        tensors = {name: torch.from_numpy(value)[None] for name, value in given.items()}
        images = net.features(torch.cat([tensors["scene"], tensors["wrist"]]))
        tokens = net.tokens(images[:1], images[1:], tensors["joints"])
        prefix_kv, _ = net.prefix(tokens, tensors["task"])
        chunk = net.chunk(prefix_kv, tensors["joints"], tensors["vision_age"], tensors["noise"])
        buffers = decide(policy, given)
        for name, wanted in (("vision_tokens", tokens), ("prefix_kv", prefix_kv), ("chunk", chunk)):
            assert np.array_equal(buffers[name], wanted[0].numpy()), name


def test_rows_of_a_batch_do_not_mix(scenes):
    """In training a batch is so many worlds, at inference it is one: they must be the same function."""
    net = load_net(weights_file(CHOICE))

    def chunks(rows: list[dict]) -> torch.Tensor:
        batch = {name: torch.from_numpy(np.stack([row[name] for row in rows])) for name in rows[0]}
        features = net.features(torch.cat([batch["scene"], batch["wrist"]]))
        tokens = net.tokens(*features.split(len(rows)), batch["joints"])
        return net.chunk(net.prefix(tokens, batch["task"])[0], batch["joints"], batch["vision_age"], batch["noise"])

    rows = [given | {"noise": noise(i), "vision_age": np.array([0.3 * i], np.float32)} for i, given in enumerate(scenes)]
    together = chunks(rows)
    for i, row in enumerate(rows):
        torch.testing.assert_close(chunks([row]), together[i : i + 1], rtol=0, atol=1e-5)


def test_noise_decides_little(policy, scenes):
    """The expert's chunk is a function of what is seen, so the flow has one way to go; a policy that guesses would spread
    by as much as it moves (0.5 rad and more in these scenes)."""
    for given in scenes:
        chunks = np.stack([decide(policy, given | {"noise": noise(i)})["chunk"].astype(float) for i in range(8)])
        spread = chunks.std(axis=0)
        assert 0 < spread.max() < 0.15 and spread[:10].max() < 0.05
        assert np.abs(chunks - given["joints"]).max() > 0.15


def test_the_words_and_the_images_steer(policy, scenes):
    """Each alone changes the chunk by more than noise does."""
    given = scenes[0]
    chunk = decide(policy, given)["chunk"]
    for changed in ({"task": policy.encode_text("put the green cube in the red bin")}, {"scene": np.zeros_like(given["scene"])}):
        assert np.abs(decide(policy, given | changed)["chunk"] - chunk).max() > 0.1


def test_the_shipped_contract_runs_and_repeats_to_the_bit(policy, scenes):
    """Through overlap and five decisions; and noise is the only thing that differs for another seed."""
    pipeline = verify(load(CONTRACT), policy.spec)

    def run(seed: int) -> list[bytes]:
        engine, chunks = Engine(pipeline, policy), []
        engine.warm_up()
        for k in range(5):
            now_ns = k * pipeline.period_ns
            values = {name: InputValue(scenes[2][name], 1 if name == "task" else k + 1, None if name == "task" else now_ns)
                      for name in pipeline.input}
            decision = engine.decide(with_noise(Observation(k, now_ns, values), pipeline, seed, epoch=1))
            assert decision.refused is None and decision.chunk.shape == (HORIZON, 7) and np.isfinite(decision.chunk).all()
            chunks.append(decision.chunk.tobytes())
        engine.close()
        return chunks

    first = run(1)
    assert run(1) == first and len(set(first)) == 5
    assert not set(run(2)) & set(first)


@pytest.mark.parametrize("continues", ["", "future_state", "guided"])
def test_candidates_are_what_their_noises_alone_would_have_given(continues):
    """In one batch over shared keys and values; rounding apart, none of them knows of the others. And the batch repeats to the bit."""
    policy = policies.load(PolicyChoice("tabletop_vla", continues=continues))
    draw = np.random.default_rng(3)
    specs = policy.spec.by_name
    reads = {name: torch.from_numpy(draw.normal(0, 0.3, specs[name].shape).astype(np.float32)) for name in policy.spec.stages[2].reads}
    noises = torch.from_numpy(np.stack([noise(i) for i in range(4)]))
    chunks, again, alone = torch.zeros(4, HORIZON, 7), torch.zeros(4, HORIZON, 7), torch.zeros(HORIZON, 7)
    with torch.inference_mode():
        policy.run("action", {**reads, "noise": noises}, {"chunk": chunks})
        policy.run("action", {**reads, "noise": noises}, {"chunk": again})
        assert torch.equal(chunks, again)
        for given, chunk in zip(noises, chunks):
            policy.run("action", {**reads, "noise": given}, {"chunk": alone})
            torch.testing.assert_close(chunk, alone, rtol=1e-4, atol=1e-5)
