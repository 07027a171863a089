"""From the moment of a decision to a chunk that may be handed out, or the reason why there is none.

Owns the order of one decision: observe, decide, choose, judge; then keep the boundary, or go back and try again. Live nodes, evaluation and
tests share it. Knows no ROS and no grid: when a decision is due, who speaks and what becomes of the chunk are the caller's.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Callable

import numpy as np
import torch

from flashrt_ros import __version__
from flashrt_ros.capsule.black_box import BlackBox
from flashrt_ros.capsule.checks import check_owner, check_task
from flashrt_ros.capsule.evidence import Evidence, Setup
from flashrt_ros.capsule.guards import Guards, Trip
from flashrt_ros.capsule.record import Digests, Outside, Place, Record
from flashrt_ros.capsule.ring import Capsule, Ring
from flashrt_ros.capsule.rollback import AGE, DEADLINE, STAGE_ERROR, Rollback, State
from flashrt_ros.capsule.select import Select
from flashrt_ros.capsule.stored import Stored, check, restore
from flashrt_ros.chunk.blend import MotionLimits
from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.engine.boundary import Boundary
from flashrt_ros.engine.continuation import Commanded, Continuation
from flashrt_ros.engine.decision import Decision, EngineError
from flashrt_ros.engine.engine import Engine
from flashrt_ros.engine.intake import FROZEN, STALE, Decode, Intake, Refusal
from flashrt_ros.engine.last_chunk import LastChunk
from flashrt_ros.engine.noise import with_noise
from flashrt_ros.engine.observation import Observation
from flashrt_ros.engine.targets import Targets

# From the deadline on, a chunk is still on its way to the player, whose controller holds a window of so much motion.
WAY_NS = 60_000_000
VERSIONS = {"python": platform.python_version(), "torch": torch.__version__, "flashrt_ros": __version__}


@dataclass(frozen=True, slots=True)
class Asked:
    """One decision that is due. index, now_ns: on the grid. session, epoch, task: in force. seed: of its noise. cursor, commanded:
    of the player at now_ns. began_ns: when it was begun, on the maker's clock."""

    index: int
    now_ns: int
    session: int
    epoch: int
    task: str
    seed: int
    cursor: Cursor = Cursor()
    commanded: Commanded | None = None
    began_ns: int = 0


@dataclass(frozen=True, slots=True)
class Tripped:
    """One attempt that a guard stopped. decision: what the engine said; None: an input was unfit, or `stage` failed."""

    trip: Trip
    attempt: int
    decision: Decision | None
    stage: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A chunk that may be published, the decision that it is of, what that saw, and the capsule of the boundary that it left.
    trips: of the attempts before it."""

    chunk: Chunk
    decision: Decision
    observation: Observation
    record: Record
    trips: tuple[Tripped, ...]
    took_ns: int


@dataclass(frozen=True, slots=True)
class NotMade:
    """Why there is no chunk, in words. refusal: of an input, if that was it. trips: of every attempt; without any, it was an input
    that is missing or broken, or the epoch has risen meanwhile (detail is then empty)."""

    detail: str
    refusal: Refusal | None
    trips: tuple[Tripped, ...]
    took_ns: int


class ChunkMaker:
    """digests: of this pipeline. sure_ns: see LastChunk. limits: the player's. clock: monotonic, ns; None: time does not pass while
    a decision is made (simulated time), so none is late. black_box: where evidence of trips goes; None: nowhere. corrupt(observation,
    attempt) -> observation: a drill's way to plant a fault in what is decided on; None: nothing is planted.

    rollback: the state machine; in FAULT, make() must not be called until reset(). One thread calls all methods.
    """

    def __init__(self, engine: Engine, intake: Intake, digests: Digests, sure_ns: int, limits: MotionLimits,
                 clock: Callable[[], int] | None = None, black_box: BlackBox | None = None,
                 corrupt: Callable[[Observation, int], Observation] | None = None) -> None:
        self.engine, self.intake, self.digests, self.black_box = engine, intake, digests, black_box
        self.pipeline = pipeline = engine.pipeline
        self.last = LastChunk(pipeline, sure_ns)
        self.ring = Ring(engine, pipeline.contract.rollback.depth)
        self.rollback = Rollback(pipeline.contract.rollback.max_consecutive)
        self._continuation = Continuation(pipeline, self.last, limits)
        self._targets = Targets(pipeline, self.last)
        self._guards = Guards(pipeline)
        self._select = Select(pipeline, self.last)
        self._clock, self.corrupt = clock, corrupt
        self._good: Capsule | Stored | None = None  # the newest belief that led to a chunk that was handed out, or was restored
        self._present: Capsule | None = None  # the boundary at which the engine is, where a capsule of it exists
        self._parent = ""
        self._doubtful = False  # what is believed now led to a chunk that was wrong, or is from another time

    def make(self, asked: Asked, decode: Decode, stamp: Callable[[], int | None]) -> Made | NotMade:
        """Decide, again after a rollback if need be. stamp() gives the seq of the chunk at last; None: its epoch is over."""
        self.rollback = self.rollback.begin()
        trips: list[Tripped] = []
        while True:
            outcome = self._attempt(asked, decode, stamp, trips)
            if outcome is not None:
                return outcome
            if self.rollback.state is not State.RETRY:
                return NotMade(f"decision {asked.index}: {trips[-1].trip.detail}", None, tuple(trips), self._took(asked))

    def reset(self) -> None:
        """Believe nothing any more. Capsules stay, counts too."""
        self.engine.reset()
        self.rollback = self.rollback.reset()
        self.last.chunk = self._good = self._present = None
        self._parent, self._doubtful = "", False

    def check(self, capsule: Capsule | Stored, task: str) -> None:
        """Whether restore() would take it. Raises CapsuleRefused."""
        if isinstance(capsule, Capsule):
            check_owner(capsule.record, self.digests)
            check_task(capsule.record, task)
            self.ring.memory(capsule)
        else:
            check(capsule, self.engine, self.digests, live=True, task=task)

    def restore(self, capsule: Capsule | Stored, task: str, same_grid: bool = True) -> None:
        """Give the live pipeline an earlier belief; what has come from outside since stands. same_grid: whether the capsule's decision
        counts and tells time as coming ones will; else the next one runs every stage. Raises CapsuleRefused, and then nothing has changed."""
        self._rewind(capsule, task)
        self._good, self._present, self._doubtful = capsule, None, not same_grid

    def load(self, capsule: Capsule) -> None:
        """Go to a boundary exactly, as a replay does: inputs, time and the last chunk too. Raises CapsuleRefused."""
        self.ring.load(capsule)
        self.last.chunk = capsule.record.chunk
        self._good = self._present = capsule
        self._parent, self._doubtful = capsule.record.id, False

    def _attempt(self, asked: Asked, decode: Decode, stamp: Callable[[], int | None], trips: list[Tripped]) -> Made | NotMade | None:
        """None: a guard has tripped, and the state machine has been told."""
        attempt = self.rollback.attempt
        seen = self.intake.take(asked.index, asked.now_ns, decode)
        if isinstance(seen, Refusal):
            detail = f"input '{seen.input}' is {seen.reason}: {seen.detail}"
            if seen.reason in (STALE, FROZEN):
                self._trip(asked, Trip(AGE, detail), None, trips)
            return NotMade(detail, seen, tuple(trips), self._took(asked))
        fresh = self._doubtful
        if fresh:
            self._go_back(asked)
        self._keep_present(asked, attempt)
        observation = self._continuation.add(seen, asked.cursor, asked.commanded, asked.session, asked.epoch)
        observation = with_noise(observation, self.pipeline, asked.seed, asked.epoch, attempt, forks=self.engine.forks)
        if self.corrupt is not None:
            observation = self.corrupt(observation, attempt)
        try:
            decision = self.engine.decide(observation, fresh=fresh)
        except EngineError as error:
            if error.stage is None:
                raise
            self._trip(asked, Trip(STAGE_ERROR, str(error)), None, trips, observation, fresh, error.stage)
            return None
        trip, fork, positions = self._judge(asked, observation, decision)
        if trip is not None:
            self._trip(asked, trip, decision, trips, observation, fresh)
            return None
        self._doubtful = False
        self._present = None
        seq = stamp()
        if seq is None:
            return NotMade("", None, tuple(trips), self._took(asked))
        self.rollback = self.rollback.passed()
        output = self.pipeline.contract.outputs[0]  # verify has made sure that all outputs share step and offset
        chunk = Chunk(self.pipeline.spec.joints, positions, asked.now_ns + output.offset_ns, output.step_ns, session=asked.session,
                      epoch=asked.epoch, seq=seq, attempt=attempt, offset_ns=output.offset_ns, base=asked.cursor,
                      frozen_prefix=self._continuation.frozen_prefix)
        self.last.chunk = chunk
        place = Place(asked.session, asked.epoch, seq, attempt, asked.seed, self.engine.forks, fork)
        self._good = self._present = self.ring.take(lambda boundary: self._record(asked, place, boundary, observation))
        self._parent = self._present.record.id
        return Made(chunk, decision, observation, self._present.record, tuple(trips), self._took(asked))

    def _judge(self, asked: Asked, observation: Observation, decision: Decision) -> tuple[Trip | None, int, np.ndarray | None]:
        """(what is wrong with it, which candidate, its positions [H, N])."""
        if decision.candidates is None:
            return Trip(AGE, decision.refused), 0, None
        candidates = np.stack([self._targets.of(c, observation, asked.cursor, asked.epoch) for c in decision.candidates])
        fork = self._select.of(candidates, asked.cursor, asked.now_ns, asked.epoch)
        trip = self._guards.judge(candidates[fork], observation, asked.commanded)
        contract = self.pipeline.contract
        if trip is None and DEADLINE in contract.rollback.guards and self._took(asked) > contract.deadline_ns:
            trip = Trip(DEADLINE, f"it took {self._took(asked) / 1e6:.0f} ms of a deadline of {contract.deadline_ms:g} ms: its chunk was dropped")
        return trip, fork, candidates[fork]

    def _trip(self, asked: Asked, trip: Trip, decision: Decision | None, trips: list[Tripped],
              observation: Observation | None = None, fresh: bool = False, stage: str | None = None) -> None:
        trips.append(Tripped(trip, self.rollback.attempt, decision, stage))
        if observation is not None and self.black_box is not None:
            self._testify(trip, decision, observation, fresh)
        again_ns = sum((self.engine.stage_ms or {}).values()) * 1e6  # every stage, in the foreground
        fits = self._clock is None or self._took(asked) + again_ns <= self.pipeline.contract.deadline_ns
        self.rollback = self.rollback.tripped(trip.guard, fits)
        self._doubtful |= trip.content
        self._present = None

    def _testify(self, trip: Trip, decision: Decision | None, observation: Observation, fresh: bool) -> None:
        engine, contract = self.engine, self.pipeline.contract
        setup = Setup(contract.text, contract.overrides, str(engine.device), engine.threads, engine.forks, VERSIONS)
        without = trip.detail if decision is None else decision.refused or ""
        evidence = Evidence(setup, trip.guard, trip.detail, self.rollback.attempt, observation, fresh, engine.late,
                            None if decision is None else decision.candidates, without, {}, datetime.now(timezone.utc).isoformat())
        self.black_box.keep(self._present.record, self.ring.memory(self._present), evidence)

    def _go_back(self, asked: Asked) -> None:
        """To the last good belief, or where there is none of this task, to none."""
        if self._good is not None and self._good.record.outside.task == asked.task:
            self._rewind(self._good, asked.task)
        else:
            self.engine.reset()
        self._present = None

    def _rewind(self, capsule: Capsule | Stored, task: str) -> None:
        """Raises CapsuleRefused, and then nothing has changed."""
        if isinstance(capsule, Capsule):
            self.check(capsule, task)
            self.ring.rewind(capsule)
        else:
            restore(capsule, self.engine, self.digests, live=True, task=task)
        self._parent = capsule.record.id

    def _keep_present(self, asked: Asked, attempt: int) -> None:
        """For the black box, which needs the boundary before the decision that it is to make again."""
        if self._present is None and self.black_box is not None:
            place = Place(asked.session, asked.epoch, 0, attempt, asked.seed, self.engine.forks)
            self._present = self.ring.note(lambda boundary: self._record(asked, place, boundary, None))

    def _record(self, asked: Asked, place: Place, boundary: Boundary, observation: Observation | None) -> Record:
        seen = {} if observation is None else observation.inputs
        inputs = {name: (given.stamp_ns, given.crc) for name, given in seen.items() if given.crc is not None}
        return Record(self._parent, self.digests, place, boundary, Outside(asked.task, asked.cursor, inputs), self.last.chunk,
                      self.engine.stage_ms)

    def _took(self, asked: Asked) -> int:
        return 0 if self._clock is None else self._clock() - asked.began_ns
