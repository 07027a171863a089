"""A chunk decided for where the settled part of the plan ends: what real-time chunking asks of a policy that needs no guidance."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros import policies
from flashrt_ros.chunk.splice import soft_mask
from flashrt_ros.contract.schema import PolicyChoice
from flashrt_ros.policies.layers.future_state import decide_ahead

H, N, STEP_S = 12, 3, 0.02
HOLDING = torch.tensor([False, False, True])
SPEED = torch.tensor([0.5, -0.3, 0.2])


def servo(state, age):
    """From the state at constant speed; remembers what it was asked."""
    servo.asked = (state, age)
    return state[:, None] + torch.arange(H)[None, :, None] * STEP_S * SPEED


def firm(*settled):
    return torch.stack([(torch.arange(H) < s).float() for s in settled])


def planned(seed, batch=1):
    return torch.randn(batch, H, N, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, H - 2), st.integers(0, 9))
def test_beyond_the_settled_rows_the_plan_is_left_gradually(settled, seed):
    """Row by row between the plan and the decision; but a gripper's: half open is no compromise between open and closed."""
    plan, state, age = planned(seed), torch.zeros(1, N), torch.zeros(1, 1)
    soft = torch.tensor(soft_mask(H, settled, H - 1), dtype=torch.float32)[None]
    hard = decide_ahead(servo, state, age, plan, firm(settled), STEP_S, HOLDING)
    chunk = decide_ahead(servo, state, age, plan, soft, STEP_S, HOLDING)
    torch.testing.assert_close(chunk[..., :2], (hard + soft[..., None] * (plan - hard))[..., :2])
    torch.testing.assert_close(chunk[..., 2], hard[..., 2])


@given(st.integers(0, H - 1), st.integers(0, 9))
def test_the_settled_rows_are_the_plan_and_then_the_policy_goes_on(settled, seed):
    """To the bit: the player checks the prefix, and over it the motion is not changed. What follows is decided where the plan
    ends, for a vision that is older by so much."""
    plan, state, age = planned(seed), torch.zeros(1, N), torch.full((1, 1), 0.3)
    chunk = decide_ahead(servo, state, age, plan, firm(settled), STEP_S, torch.zeros(N, dtype=torch.bool))
    assert torch.equal(chunk[:, :settled], plan[:, :settled])
    begun = plan[:, settled] if settled else state
    torch.testing.assert_close(chunk[:, settled:], servo(begun, age)[:, :H - settled])
    decide_ahead(servo, state, age, plan, firm(settled), STEP_S, HOLDING)
    torch.testing.assert_close(servo.asked[1], age + settled * STEP_S)


def test_without_a_plan_it_is_the_policy_to_the_bit():
    """All zeros is what a caller gives while the player rests; joint position zero must not come into it."""
    state, age = torch.tensor([[0.1, 0.2, 0.3]]), torch.full((1, 1), 0.1)
    chunk = decide_ahead(servo, state, age, torch.zeros(1, H, N), torch.zeros(1, H), STEP_S, HOLDING)
    assert torch.equal(chunk, servo(state, age))


def test_a_plan_that_the_policy_agrees_with_is_continued_without_a_seam():
    """The plan is the policy's own motion: the whole chunk is that motion."""
    plan = servo(torch.zeros(1, N), None)
    chunk = decide_ahead(servo, torch.zeros(1, N), torch.zeros(1, 1), plan, firm(5), STEP_S, HOLDING)
    torch.testing.assert_close(chunk, plan)


def test_a_gripper_is_taken_as_measured_and_its_command_does_not_step_back():
    """Closing on something: the plan ends closed, the fingers will have stopped at 0.5 and nobody knows yet. Decided for the
    plan's end, a policy would see an empty hand; decided for the measured opening, its command would begin there again."""
    closing = torch.tensor([0.0, 0.0, -1.0])
    asked = []

    def policy(state, age):
        asked.append(state)
        return state[:, None] + torch.arange(H)[None, :, None] * 0.05 * closing

    plan = policy(torch.tensor([[0.0, 0.0, 0.7]]), None)
    chunk = decide_ahead(policy, torch.tensor([[0.0, 0.0, 0.6]]), torch.zeros(1, 1), plan, firm(6), STEP_S, HOLDING)
    assert asked[-1][0, 2] == 0.6
    assert (chunk[0].diff(dim=0)[:, 2] <= 1e-6).all()
    torch.testing.assert_close(chunk[0, 6, 2], plan[0, 6, 2], atol=0.03, rtol=0)


@given(st.lists(st.integers(0, H), min_size=2, max_size=4), st.integers(0, 9))
def test_each_of_a_batch_has_a_prefix_of_its_own(settled, seed):
    """The length is data: one shape, one graph, whatever the delay."""
    plan, batch = planned(seed, len(settled)), len(settled)
    state, age = torch.randn(batch, N, generator=torch.Generator().manual_seed(seed)), torch.rand(batch, 1)
    together = decide_ahead(servo, state, age, plan, firm(*settled), STEP_S, HOLDING)
    for i in range(batch):
        alone = decide_ahead(servo, state[i:i + 1], age[i:i + 1], plan[i:i + 1], firm(settled[i]), STEP_S, HOLDING)
        torch.testing.assert_close(together[i:i + 1], alone)


def test_the_shipped_policy_continues_a_plan_with_one_shape():
    """Traced once; every prefix length after that is data. Its chunk continues the plan where the plain policy's would not."""
    policy = policies.load(PolicyChoice("tabletop_vla", continues="future_state"))
    generator = torch.Generator().manual_seed(0)
    reads = {"prefix_kv": torch.randn(4, 2, 81, 64, generator=generator), "joints": torch.zeros(7), "vision_age": torch.tensor([0.1]),
             "noise": torch.randn(32, 7, generator=generator), "planned": 0.3 * torch.randn(32, 7, generator=generator).cumsum(0) / 8}
    for settled in (0, 1, 7, 31, 32):
        out = {"chunk": torch.zeros(32, 7)}
        with torch.inference_mode():
            policy.run("action", reads | {"firmness": (torch.arange(32) < settled).float()}, out)
        assert torch.equal(out["chunk"][:settled], reads["planned"][:settled]) and torch.isfinite(out["chunk"]).all()
        if 0 < settled < 32:
            seam = (out["chunk"][settled] - reads["planned"][settled])[:6].abs().max()
            assert seam < 0.05  # rad; the plan's end is the state that was decided for
