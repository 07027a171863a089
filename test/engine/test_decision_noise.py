"""Noise is an input that can be made again: a replay needs no saved generator."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.engine.noise import decision_noise

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
