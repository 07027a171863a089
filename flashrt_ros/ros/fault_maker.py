"""A chunk maker that plants faults in its own decisions, as a drill's plan says. Knows no ROS.

What it plants is real: noise that makes the policy say nonsense, words that a stage cannot look up, a stage that sleeps, a
camera whose frames are replaced by an old one. Nothing tells the guards of it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Callable, Mapping

import numpy as np
import torch

from flashrt_ros.capsule.maker import Asked, ChunkMaker, Made, NotMade
from flashrt_ros.engine.engine import Engine
from flashrt_ros.engine.intake import Decode
from flashrt_ros.engine.observation import InputValue, Observation
from flashrt_ros.ros.fault_plan import FROZEN, LATE, LIMIT, NAN, STAGE, Planted, fault_at

FAR = 1000.0  # times the noise: the policy's positions then lie far outside any limit
NO_WORD = 9999  # added to each word: beyond the vocabulary
FORGED = 1 << 62  # ident of a value that no message brought, so that what reads it runs
LATE_BY = 1.1  # of the deadline: how long the action stage sleeps


class FaultyMaker(ChunkMaker):
    """given: see ChunkMaker, but corrupt. seed: of the plan. tell(planted): called on the worker's thread before the decision.

    episode: of the plan, from the next decision on, which is its first; below 0: nothing is planted. Any thread may set it.
    A fault that is due at a decision after one without a chunk is left out: it would not be alone.
    """

    def __init__(self, engine: Engine, *given: Any, seed: int, tell: Callable[[Planted], None]) -> None:
        super().__init__(engine, *given, corrupt=self._corrupt)
        self.episode = -1
        self._seed, self._tell = seed, tell
        self._began = (-1, 0)  # the episode under way, and the index of its first decision
        self._asked: Asked | None = None
        self._passed = False  # the decision before led to a chunk
        self._due: str | None = None
        self._late = self._frozen = False
        self._camera = next(i for i in self.pipeline.contract.inputs if i.image is not None)
        self._seen: InputValue | None = None  # the first that had the camera's present picture
        self._words = self.pipeline.texts[0].name
        self._run, engine.policy.run = engine.policy.run, self._stage

    def make(self, asked: Asked, decode: Decode, stamp: Callable[[], int | None]) -> Made | NotMade:
        episode = self.episode
        if episode != self._began[0]:
            self._began, self._frozen = (episode, asked.index), False
        cause = fault_at(self._seed, episode, asked.index - self._began[1]) if episode >= 0 and self._passed else None
        self._asked, self._due = asked, None if cause == FROZEN else cause
        self._frozen |= cause == FROZEN
        found = self._frozen and asked.now_ns - self._seen.stamp_ns > self._camera.max_age_ns
        if found:
            self._plant(FROZEN)
        made = super().make(asked, self._old_picture(decode) if self._frozen else decode, stamp)
        self._frozen &= not found
        self._passed = isinstance(made, Made)
        return made

    def _old_picture(self, decode: Decode) -> Decode:
        return lambda name, raw: self._seen.value if name == self._camera.name else decode(name, raw)

    def _corrupt(self, observation: Observation, attempt: int) -> Observation:
        given = observation.inputs[self._camera.name]
        if self._seen is None or given.crc != self._seen.crc:
            self._seen = given
        cause, self._due = self._due, None
        if cause is None:
            return observation
        self._plant(cause)
        noise, words = self.pipeline.spec.noise, self._words
        if cause == NAN:
            return _changed(observation, noise, lambda value: np.full_like(value, np.nan))
        if cause == LIMIT:
            return _changed(observation, noise, lambda value: value * np.float32(FAR))
        if cause == STAGE:
            return _changed(observation, words, lambda value: value + NO_WORD, ident=FORGED)
        self._late = cause == LATE
        return observation

    def _stage(self, stage: str, reads: Mapping[str, torch.Tensor], writes: Mapping[str, torch.Tensor]) -> None:
        if self._late and stage == self.pipeline.spec.action:
            self._late = False
            time.sleep(LATE_BY * self.pipeline.contract.deadline_ns * 1e-9)
        self._run(stage, reads, writes)

    def _plant(self, cause: str) -> None:
        self._tell(Planted(cause, self._asked.session, self._asked.epoch, self._asked.index))


def _changed(observation: Observation, name: str, change: Callable[[np.ndarray], np.ndarray], **fields: Any) -> Observation:
    given = observation.inputs[name]
    return replace(observation, inputs={**observation.inputs, name: replace(given, value=change(given.value), **fields)})
