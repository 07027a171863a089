"""The recipe's schedules, and what it refuses before anything runs."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.train.recipe import Recipe, TrainError

recipes = st.builds(
    lambda first, more, steps, warm_up, ramp: Recipe(rounds=first + more, first_rounds=first, expert_rounds=first, steps=steps,
                                                     warm_up=warm_up, ramp=ramp),
    st.integers(1, 50), st.integers(1, 300), st.integers(1, 5), st.integers(1, 100), st.integers(1, 100))


@given(recipes)
def test_the_learning_rate_rises_once_and_falls_to_a_fiftieth(recipe):
    total = (recipe.rounds - recipe.first_rounds) * recipe.steps
    rates = [recipe.rate_at(step) for step in range(total + recipe.warm_up + 1)]
    assert all(0 < rate <= recipe.rate for rate in rates)
    after = rates[recipe.warm_up - 1 :]
    assert all(later <= earlier for earlier, later in zip(after, after[1:]))
    assert rates[-1] == pytest.approx(0.02 * recipe.rate)
    assert rates[0] == pytest.approx(recipe.rate / recipe.warm_up)


@given(recipes)
def test_the_policys_share_rises_over_the_ramp(recipe):
    """Before that every episode is the expert's: the policy could do nothing yet."""
    assert recipe.policy_share_at(recipe.expert_rounds) == 0
    assert recipe.policy_share_at(recipe.expert_rounds + recipe.ramp) == recipe.policy_share_at(10**6) == recipe.policy_share
    shares = [recipe.policy_share_at(rounds) for rounds in range(recipe.expert_rounds + recipe.ramp + 1)]
    assert shares == sorted(shares)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Recipe)])
@pytest.mark.parametrize("value", [-1, float("nan")])
def test_a_value_that_makes_no_sense_is_refused_by_its_option(field, value):
    """Each would otherwise show as an error of torch's or numpy's, minutes later."""
    with pytest.raises(TrainError, match=f"--{field.replace('_', '-')} {value}: give a value from .* to "):
        Recipe(**{field: value})


@pytest.mark.parametrize("values, said", [
    ({"ramp": 0}, "--ramp 0"), ({"batch": 0}, "--batch 0"), ({"policy_share": 1.5}, "--policy-share 1.5: give a value from 0 to 1"),
    ({"rounds": 40}, "--rounds 40.*within the 40 --first-rounds"), ({"expert_rounds": 39}, "--expert-rounds 39.*--first-rounds"),
])
def test_values_at_the_edge_of_sense(values, said):
    with pytest.raises(TrainError, match=said):
        Recipe(**values)
    Recipe(staleness=0, policy_share=0, weight_decay=0, ramp=1, rounds=41, expert_rounds=40)
