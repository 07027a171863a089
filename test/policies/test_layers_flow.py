"""The way from noise to an action: Euler steps along a velocity, and the features of its time."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.policies.layers.flow import integrate, time_features


@given(st.integers(1, 20), st.integers(0, 99))
def test_a_straight_way_ends_at_the_action_in_any_number_of_steps(steps, seed):
    """The learned path from noise to action is a straight line, x = t noise + (1 - t) action, with velocity noise -
    action: the smaller its curvature, the fewer steps a decision costs."""
    generator = torch.Generator().manual_seed(seed)
    noise, action = (torch.randn(2, 4, 3, generator=generator) for _ in range(2))
    torch.testing.assert_close(integrate(lambda x, i: noise - action, noise, steps), action, rtol=0, atol=1e-5)


def test_a_linear_field_is_followed_better_by_more_steps():
    """dx/dt = x from t = 1 to 0 divides by e; Euler's error falls with the step."""
    noise = torch.full((1, 2, 3), 2.0, dtype=torch.float64)
    errors = [(integrate(lambda x, i: x, noise, n) - 2 / math.e).abs().max().item() for n in (5, 10, 20, 40, 80)]
    assert all(later < 0.6 * earlier for earlier, later in zip(errors, errors[1:])) and errors[-1] < 0.01


def test_steps_are_counted_from_the_noise():
    """Step i stands at t = 1 - i / steps: the network's time runs from noise to action. A velocity that depends on time
    shows the order: its sum is the left Riemann sum of 2 t from 1 down."""
    seen = []

    def velocity(x: torch.Tensor, i: int) -> torch.Tensor:
        seen.append(i)
        return torch.full_like(x, 2 * (1 - i / 4))

    end = integrate(velocity, torch.zeros(1, 1, 1), 4)
    assert seen == [0, 1, 2, 3] and end.item() == pytest.approx(-2 * (1 + 0.75 + 0.5 + 0.25) / 4)


@given(st.integers(1, 64), st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_time_features_are_bounded_and_of_the_asked_width(half, times):
    features = time_features(torch.tensor(times), 2 * half)
    assert features.shape == (len(times), 2 * half) and features.dtype == torch.float32
    assert features.abs().max() <= 1 and torch.allclose(features[:, :half] ** 2 + features[:, half:] ** 2, torch.ones(()))


def test_time_features_tell_times_apart():
    """The longest period is beyond the interval, so no two times look alike; the five of a decision lie far apart."""
    times = torch.arange(101) / 100
    features = time_features(times, 192)
    apart = torch.cdist(features, features) + 9 * torch.eye(101)
    assert apart.min() > 1.0
