"""Real-time chunking on the policy's side: a chunk that continues a plan where it is firm, and is free where it is not."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros import policies
from flashrt_ros.contract.schema import PolicyChoice
from flashrt_ros.policies.layers.flow import integrate
from flashrt_ros.policies.layers.guidance import GUIDANCE_LIMIT, guidance_gain, integrate_guided
from flashrt_ros.sim.episode import Episode
from flashrt_ros.sim.robot import Robot

STEPS = 5


def towards(target):
    """The exact velocity of a flow whose only action is `target`: from any x at time t straight to it."""
    return lambda x, i: (x - target) / (1 - i / STEPS)


@given(st.floats(0.01, 0.99))
def test_the_gain_is_the_papers(t):
    """arXiv 2506.07339, eq. 2 and 4, with tau = 1 - t: (1 - tau) / (tau r^2), r^2 = (1 - tau)^2 / (tau^2 + (1 - tau)^2)."""
    tau = 1 - t
    r2 = (1 - tau) ** 2 / (tau**2 + (1 - tau) ** 2)
    assert guidance_gain(t) == pytest.approx(min(GUIDANCE_LIMIT, (1 - tau) / (tau * r2)))


def test_at_pure_noise_the_gain_is_its_limit():
    """There the formula divides by zero."""
    assert guidance_gain(1.0) == GUIDANCE_LIMIT


def test_nothing_firm_is_plain_integration():
    """Without a plan the opt-in variant must be the same policy, to the bit."""
    noise, target = torch.randn(2, 8, 3), torch.randn(2, 8, 3)
    free = integrate(towards(target), noise, STEPS)
    assert torch.equal(integrate_guided(towards(target), noise, STEPS, torch.full_like(noise, 9.0), torch.zeros(2, 8)), free)


def test_a_plan_that_the_policy_agrees_with_changes_nothing():
    """Guidance is a correction, not a drive."""
    noise, target = torch.randn(1, 8, 3), torch.randn(1, 8, 3)
    guided = integrate_guided(towards(target), noise, STEPS, target, torch.ones(1, 8))
    torch.testing.assert_close(guided, target, atol=1e-4, rtol=0)


def test_one_row_of_a_batch_does_not_pull_another():
    """Gradients are taken for all rows at once; they must not mix."""
    torch.manual_seed(0)
    mix = torch.randn(3, 3) * 0.3
    noise, plan = torch.randn(2, 8, 3), torch.randn(2, 8, 3)
    firmness = torch.tensor([[1.0] * 4 + [0.0] * 4, [0.0] * 8])
    both = integrate_guided(lambda x, i: torch.tanh(x) @ mix, noise, STEPS, plan, firmness)
    alone = integrate(lambda x, i: torch.tanh(x) @ mix, noise[1:], STEPS)
    torch.testing.assert_close(both[1:], alone)
    assert not torch.allclose(both[:1], integrate(lambda x, i: torch.tanh(x) @ mix, noise[:1], STEPS))


@pytest.fixture(scope="module")
def pair():
    return tuple(policies.load(PolicyChoice("tabletop_vla", continues=continues)) for continues in ("", "guided"))


@pytest.fixture(scope="module")
def scene(pair):
    """What the action reads, of a real scene at rest."""
    episode = Episode(Robot(), "pick", 10_001)
    frames = [torch.from_numpy(episode.frames[camera]) for camera in ("scene", "wrist")]
    joints, tokens, prefix_kv = torch.from_numpy(episode.joints).float(), torch.zeros(73, 256), torch.zeros(4, 2, 81, 64)
    with torch.inference_mode():
        pair[0].run("vision", {"scene": frames[0], "wrist": frames[1], "joints": joints}, {"vision_tokens": tokens})
        task = torch.from_numpy(pair[0].encode_text(episode.instruction.text))
        pair[0].run("prefix", {"vision_tokens": tokens, "task": task}, {"prefix_kv": prefix_kv})
    episode.robot.close()
    return {"prefix_kv": prefix_kv, "joints": joints, "vision_age": torch.tensor([0.02])}


def noise(seed):
    return torch.randn(32, 7, generator=torch.Generator().manual_seed(seed))


def action(policy, scene, seed, plan=None, firmness=None):
    reads = scene | {"noise": noise(seed)} | ({} if plan is None else {"planned": plan, "firmness": firmness})
    out = {"chunk": torch.zeros(32, 7)}
    with torch.inference_mode():
        policy.run("action", reads, out)
    return out["chunk"]


@pytest.mark.parametrize("seed", range(3))
def test_the_shipped_policy_keeps_to_a_firm_prefix(pair, scene, seed):
    """The plan is the policy's own chunk from other noise, bent aside: two decisions that disagree. Over the firm steps the
    guided chunk lies clearly nearer to the plan than a free one (five flow steps do not close the gap)."""
    plain, guided = pair
    plan = action(plain, scene, 100 + seed)
    plan[:, 0] += 0.004 * torch.arange(32)  # rad
    firmness = torch.tensor([1.0] * 8 + [0.0] * 24)
    free, kept = action(plain, scene, seed), action(guided, scene, seed, plan, firmness)
    assert torch.isfinite(kept).all()
    assert (kept - plan)[:8, 0].abs().max() < 0.6 * (free - plan)[:8, 0].abs().max()


def test_the_variant_without_a_plan_is_the_plain_policy(pair, scene):
    """All zeros is what the caller gives when the player holds; the arm must not be pulled to joint position zero."""
    plain, guided = pair
    unguided = action(guided, scene, 3, torch.zeros(32, 7), torch.zeros(32))
    torch.testing.assert_close(unguided, action(plain, scene, 3), atol=1e-5, rtol=0)


def test_only_the_variant_declares_a_plan(pair):
    """One shape whatever is firm: the prefix length is data, not structure."""
    plain, guided = (policy.spec for policy in pair)
    assert plain.plan is None and guided.plan == ("planned", "firmness")
    assert guided.by_name["planned"].shape == (32, 7) and guided.by_name["firmness"].shape == (32,)
    assert np.setdiff1d([b.name for b in guided.buffers], [b.name for b in plain.buffers]).tolist() == ["firmness", "planned"]
