"""One gradient step after another: the losses fall, the average follows, and a learner goes on where another stopped."""

import numpy as np
import pytest
import torch

from flashrt_ros.policies.instruction import KINDS
from flashrt_ros.policies.tabletop_vla_words import encode
from flashrt_ros.sim import expert
from flashrt_ros.sim.episode import Episode
from flashrt_ros.sim.robot import Robot
from flashrt_ros.train.learner import Learner
from flashrt_ros.train.recipe import Recipe
from flashrt_ros.train.record import RECORD, fill
from flashrt_ros.train.ring import Ring

CPU = torch.device("cpu")
RECIPE = Recipe(rate=1e-3, warm_up=5, draws=1)


@pytest.fixture(scope="module")
def ring():
    """Eight records of as many scenes, at different moments of the expert's way."""
    torch.set_num_threads(1)
    robot, ring = Robot(), Ring(1, 8, CPU)
    for seed in range(8):
        episode = Episode(robot, KINDS[seed % 3], seed)
        for _ in range(seed):
            episode.act(expert.decide(robot.world))
        records = np.zeros(1, RECORD)
        fill(records[0], episode, encode(episode.instruction.text))
        records["first"] = 1
        ring.add(records)
    robot.close()
    return ring


def learner_of(ring: Ring, device: torch.device = CPU) -> Learner:
    learner = Learner(RECIPE, 1, device)
    learner.set_scale(ring.labels().to(device))
    return learner


def learn(learner: Learner, ring: Ring, steps: int, batch: int = 8) -> list[dict[str, float]]:
    device = next(learner.average.parameters()).device
    on_ring, generator = torch.Generator().manual_seed(1), torch.Generator(device).manual_seed(1)
    parts = []
    for _ in range(steps):
        drawn = {name: tensor.to(device) for name, tensor in ring.draw(batch, 0, 1.0, on_ring).items()}
        parts.append(learner.learn(drawn, generator))
    return [{name: value.item() for name, value in each.items()} for each in parts]


def distance(learner: Learner, drawn: dict[str, torch.Tensor]) -> float:
    """From the policy's chunks to the labels, in units of their spread."""
    net, size = learner.average, len(drawn["joints"])
    noise = torch.randn(drawn["label"].shape, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        features = net.features(drawn["seen_frames"].flatten(0, 1)).unflatten(0, (size, 2))
        prefix_kv, _ = net.prefix(net.tokens(features[:, 0], features[:, 1], drawn["seen_joints"]), drawn["words"])
        chunk = net.chunk(prefix_kv, drawn["joints"], drawn["age"], noise)
    return ((chunk - drawn["label"]) / net.action_scale).abs().mean().item()


def test_a_few_records_are_learned(ring):
    """All three losses fall on eight records, always with the same noise and light, within a few steps; and the flow that
    is learned leads, when the policy follows it, towards what the expert would do."""
    learner, drawn = learner_of(ring), ring.draw(8, 0, 1.0, torch.Generator().manual_seed(1))
    before = distance(learner, drawn)
    parts = [learner.learn(drawn, torch.Generator().manual_seed(1)) for _ in range(12)]
    for name, share in (("flow", 0.5), ("points", 0.7), ("geometry", 0.6)):
        values = [each[name].item() for each in parts]
        assert np.isfinite(values).all() and 0 < values[-1] < share * values[0], f"{name}: {values}"
    assert distance(learner, drawn) < 0.8 * before


def test_a_picture_without_anything_in_it_is_no_division_by_zero(ring):
    """No point of any object is within either picture, and no bin is named."""
    drawn = ring.draw(2, 0, 1.0, torch.Generator().manual_seed(1))
    drawn["seen_points"] = torch.zeros_like(drawn["seen_points"])
    drawn["seen_geometry_known"][:, 3:] = 0
    parts = learner_of(ring).learn(drawn, torch.Generator().manual_seed(1))
    assert all(part.isfinite() for part in parts.values()) and parts["points"] == 0


def test_steps_repeat(ring):
    """Same seed, same draws: the same bits, on one machine."""
    first, again = (learner_of(ring) for _ in range(2))
    assert learn(first, ring, 2, batch=2) == learn(again, ring, 2, batch=2)
    for one, other in zip(first.state(), again.state()):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_average_follows_quickly_at_first(ring):
    """It is what drives the worlds and what becomes the policy; with its final slowness it would be the random start for
    hundreds of steps."""
    learner = learner_of(ring)
    before = {name: tensor.clone() for name, tensor in learner.average.state_dict().items()}
    learn(learner, ring, 1, batch=2)
    parameters, average, _ = learner.state()
    assert average.keys() == before.keys() and parameters.keys() - average.keys()  # the read-outs stay behind
    for name in average:
        torch.testing.assert_close(average[name], torch.lerp(before[name], parameters[name], 0.9), rtol=0, atol=1e-6)
    torch.testing.assert_close(average["action_scale"], ring.labels().square().mean(0).sqrt().clamp_min(2e-3))


def test_another_learner_goes_on_from_the_state(ring):
    """With the shortened copies that a leg's files hold. Its moments lie in memory as its parameters do: a fused optimiser
    walks through both together, and channels are last."""
    learner, other = learner_of(ring), Learner(RECIPE, 2, CPU)
    learn(learner, ring, 1, batch=2)
    parameters, average, second = learner.state()
    kept = ({n: t.half() for n, t in average.items()}, {n: t.contiguous().bfloat16() for n, t in second.items()})
    other.restore(1, parameters, *kept)
    got = other.state()
    assert other.steps == 1
    for state, sent in zip(got, (parameters, *({n: t.float() for n, t in part.items()} for part in kept))):
        assert state.keys() == sent.keys() and all(torch.equal(state[n], sent[n]) for n in sent)
    assert all(got[2][name].stride() == got[0][name].stride() for name in second)
    assert got[2]["stem.layers.0.weight"].is_contiguous(memory_format=torch.channels_last)
    assert np.isfinite(list(learn(other, ring, 1, batch=2)[0].values())).all() and other.steps == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_cuda_a_resumed_learner_takes_the_step_that_the_first_would(ring):
    """Nearly: the first moments form anew, so one step is compared in what it does to the second moments."""
    cuda = torch.device("cuda")
    learner = learner_of(ring, cuda)
    learn(learner, ring, 3)
    other = Learner(RECIPE, 2, cuda)
    other.restore(3, *({n: t.clone(memory_format=torch.contiguous_format) for n, t in part.items()} for part in learner.state()))
    learn(learner, ring, 1), learn(other, ring, 1)
    for name, second in learner.state()[2].items():
        torch.testing.assert_close(other.state()[2][name], second, rtol=0.05, atol=float(1e-3 * second.max() + 1e-12))
