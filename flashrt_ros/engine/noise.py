"""The policy's noise as an input: a pure function of the seed and of who decides what. """

from __future__ import annotations

import numpy as np

from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.engine.observation import InputValue, Observation


def decision_noise(shape: tuple[int, ...], seed: int, epoch: int, decision: int, attempt: int = 0, fork: int = 0) -> np.ndarray:
    """Standard normal float32 of `shape`. Counter-based (Philox, Salmon et al., "Parallel random numbers: as easy as
    1, 2, 3", SC 2011): equal arguments give equal bits, and no state has to be kept to make a decision again."""
    generator = np.random.Generator(np.random.Philox(key=seed, counter=[epoch, decision, attempt, fork]))
    return generator.standard_normal(shape, np.float32)


def with_noise(observation: Observation, pipeline: Pipeline, seed: int, epoch: int, attempt: int = 0, fork: int = 0) -> Observation:
    """The observation with the noise of its decision added, if the policy takes any."""
    name = pipeline.spec.noise
    if name is None:
        return observation
    noise = decision_noise(pipeline.buffers[name].shape, seed, epoch, observation.decision, attempt, fork)
    # New at every decision: the engine compares idents, and no two of (epoch, decision) share one.
    inputs = {**observation.inputs, name: InputValue(noise, epoch << 32 | observation.decision, None)}
    return Observation(observation.decision, observation.now_ns, inputs)
