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


def with_noise(observation: Observation, pipeline: Pipeline, seed: int, epoch: int, attempt: int = 0, forks: int = 1) -> Observation:
    """The observation with the noise of its decision added, if the policy takes any. forks: candidates to be made; for more than
    one the noise is [forks, ...], the first of which is the decision's own."""
    name = pipeline.spec.noise
    if name is None:
        return observation
    shape, decision = pipeline.buffers[name].shape, observation.decision
    noises = [decision_noise(shape, seed, epoch, decision, attempt, fork) for fork in range(forks)]
    # The engine compares idents: no two of (epoch, decision, attempt) share one.
    given = InputValue(np.stack(noises) if forks > 1 else noises[0], (epoch << 32 | decision) << 8 | attempt, None)
    return Observation(decision, observation.now_ns, {**observation.inputs, name: given})
