"""Noise is an input that can be made again: a replay needs no saved generator."""

from itertools import product

import numpy as np
from dag_policy import SIZE, make_pipeline
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.contract.pipeline import Stage
from flashrt_ros.engine.noise import decision_noise, with_noise
from flashrt_ros.engine.observation import Observation

SMALL = st.integers(0, 2**32)


@given(SMALL, SMALL, SMALL, st.integers(0, 9), st.integers(0, 9))
def test_equal_arguments_give_equal_bits_and_each_argument_matters(seed, epoch, decision, attempt, fork):
    arguments = [seed, epoch, decision, attempt, fork]
    noise = decision_noise((4, 3), *arguments)
    assert noise.dtype == np.float32 and noise.shape == (4, 3)
    assert np.array_equal(noise, decision_noise((4, 3), *arguments))
    for i in range(len(arguments)):
        changed = list(arguments)
        changed[i] += 1
        assert not np.array_equal(noise, decision_noise((4, 3), *changed))


def given_noise(forks: int = 1, epoch: int = 3, decision: int = 5, attempt: int = 0):
    pipeline = make_pipeline({"scene": False, "noise": True}, [Stage("action", ("scene", "noise"), ("chunk",), every=1)])
    return with_noise(Observation(decision, 0, {}), pipeline, 9, epoch, attempt, forks).inputs["noise"]


@given(SMALL, st.integers(0, 2**31), st.integers(0, 9), st.integers(2, 16))
def test_the_first_candidate_has_the_decisions_own_noise_and_each_other_one_of_its_own(epoch, decision, attempt, forks):
    """So that candidates change no chunk but by being chosen, and that candidate i can be made again without the others."""
    alone, noise = (given_noise(n, epoch, decision, attempt).value for n in (1, forks))
    assert alone.shape == (SIZE,) and noise.shape == (forks, SIZE) and noise.dtype == np.float32
    assert np.array_equal(noise[0], alone) and len({row.tobytes() for row in noise}) == forks
    for fork, row in enumerate(noise):
        assert np.array_equal(row, decision_noise((SIZE,), 9, epoch, decision, attempt, fork))


def test_no_two_attempts_share_an_ident():
    """The engine takes an equal ident for equal content: a second attempt would be made with the noise of the first."""
    edges = (0, 1, 2, 255, 256, 2**32 - 1)
    who = list(product(edges, edges, (0, 1, 2, 255)))
    assert len({given_noise(1, *each).ident for each in who}) == len(who)
