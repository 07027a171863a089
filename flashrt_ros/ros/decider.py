"""The decision loop: one worker thread that walks the time grid and turns observations into chunks.

Owns the grid, the order of one decision (observe, decide, check, hand out) and its counters. Time, messages and
publishing come as functions, so nothing here imports ROS. Other threads call `wake`, `set_task` and `reset`.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.engine.continuation import Commanded, Continuation
from flashrt_ros.engine.decision import Decision
from flashrt_ros.engine.engine import Engine
from flashrt_ros.engine.intake import Intake, Refusal
from flashrt_ros.engine.last_chunk import LastChunk
from flashrt_ros.engine.noise import with_noise
from flashrt_ros.engine.observation import Observation
from flashrt_ros.engine.targets import Targets
from flashrt_ros.errors import FlashRTError
from flashrt_ros.player.limits import Limits
from flashrt_ros.ros.latency import Latencies
from flashrt_ros.ros.session import Session

# From the deadline on, a chunk is still on its way to the player, whose controller holds a window of so much motion.
WAY_NS = 60_000_000


@dataclass(frozen=True, slots=True)
class Made:
    """A chunk that may be published, the decision that it is of, and what that saw."""

    chunk: Chunk
    decision: Decision
    observation: Observation


class Decider:
    """now_ns(): the node's clock. decode(name, raw): see Intake. player(now_ns): where the player was
    then, and what it commanded, None if that is unknown.
    publish(made): takes each chunk, on the worker's thread. changed(): `state` or `reason` changed."""

    def __init__(self, pipeline: Pipeline, engine: Engine, intake: Intake, session: Session, now_ns: Callable[[], int],
                 decode: Callable[[str, Any], np.ndarray], player: Callable[[int], tuple[Cursor, Commanded | None]],
                 publish: Callable[[Made], None], changed: Callable[[], None]) -> None:
        self.pipeline, self.engine, self.intake, self.session = pipeline, engine, intake, session
        self._now_ns, self._decode, self._player, self._publish, self._changed = now_ns, decode, player, publish, changed
        self.state, self.reason, self.task = "idle", "", ""
        self.decisions = self.chunks = self.skipped = self.refused = self.deadline_misses = 0
        self.trips: Counter[str] = Counter()
        self.refusals: dict[str, Counter[str]] = {i.name: Counter() for i in pipeline.contract.inputs}
        self.last_refusal: dict[str, str] = {}
        self.runs, self.background_runs, self.stage_errors = Counter(), Counter(), Counter()
        self.latency = Latencies()
        self.stage_latency = {stage.name: Latencies() for stage in pipeline.stages}
        self.last: Decision | None = None
        self.bug = ""  # traceback of the last exception that is none of ours
        self._texts = [i.name for i in pipeline.contract.inputs if pipeline.buffers[i.name].timeless]
        self._last_chunk = LastChunk(pipeline, pipeline.contract.deadline_ns + WAY_NS)
        self._continuation = Continuation(pipeline, self._last_chunk, Limits.of(pipeline.spec.joints, pipeline.contract.limits))
        self._targets = Targets(pipeline, self._last_chunk)
        self._turn = threading.Condition()
        self._stopping = self._reset_asked = False
        self._index = -1
        self._start_ns = now_ns()
        self._thread = threading.Thread(target=self._loop, name="decider", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the decision under way is over; it is not published."""
        with self._turn:
            self._stopping = True
            self._turn.notify()
        self._thread.join()

    def wake(self) -> None:
        """A moment of the grid may have come."""
        with self._turn:
            self._turn.notify()

    def set_task(self, text: str) -> None:
        """Take a valid instruction (or none: "") and raise the epoch; a repeated one changes nothing."""
        with self._turn:
            if text == self.task:
                return
            self.task = text
            for name in self._texts:
                self.intake.offer(name, text, None, self._now_ns())
            self.session.raise_epoch("task")
        if not text:
            self._say("idle", "no task is given")

    def reset(self) -> int:
        """Forget what was seen and believed; the instruction stays. Returns the new epoch."""
        with self._turn:
            self._reset_asked = True
            return self.session.raise_epoch("reset")

    def refuse_task(self, reason: str) -> None:
        """An instruction that can't be followed came on the topic: the old one is not what the sender wants any more."""
        self.set_task("")
        self._say("idle", reason)

    def _loop(self) -> None:
        while True:
            with self._turn:
                # Another index: a later decision, or an earlier one because the clock has jumped back. The timeout covers a
                # jump by which the timer that wakes us was set back, too.
                self._turn.wait_for(lambda: self._stopping or self._elapsed() != self._index, timeout=0.5)
                if self._stopping:
                    return
                self._handle_jump_and_reset()
                index = self._elapsed()
                if index == self._index:
                    continue
                skipped, self._index = index - self._index - 1, index
                epoch, task = self.session.epoch, self.task
            if not task and self._texts:
                continue
            self.skipped += skipped if self.state == "running" else 0
            self.decisions += 1
            try:
                self._decide(index, epoch)
            except FlashRTError as error:
                self.refused += 1
                stage = getattr(error, "stage", None)
                if stage is not None:
                    self.stage_errors[stage] += 1
                self.trips["stage_error"] += stage is not None
                self._conclude(epoch, "waiting", str(error))
            except Exception as error:  # a bug must not end the thread silently: the chunks cease and the node says why
                self.refused += 1
                self.bug = traceback.format_exc()
                self._conclude(epoch, "fault", f"{type(error).__name__}: {error}")

    def _elapsed(self) -> int:
        return (self._now_ns() - self._start_ns) // self.pipeline.period_ns

    def _handle_jump_and_reset(self) -> None:
        now_ns = self._now_ns()
        if self._elapsed() < self._index:
            self._start_ns, self._index = now_ns, -1
            self.intake.clear_after(now_ns)
            self.engine.reset()
            self.session.raise_epoch("clock jump")
        if self._reset_asked:
            self._reset_asked = False
            self.intake.reset()
            self.engine.reset()
            for name in self._texts:
                self.intake.offer(name, self.task, None, now_ns)

    def _decide(self, index: int, epoch: int) -> None:
        now_ns = self._start_ns + index * self.pipeline.period_ns
        began = time.monotonic_ns()
        base, commanded = self._player(now_ns)
        observation = self.intake.take(index, now_ns, self._decode)
        if isinstance(observation, Refusal):
            self.refused += 1
            self.refusals[observation.input][observation.reason] += 1
            self.last_refusal[observation.input] = observation.detail
            self.trips["age"] += observation.reason in ("stale", "frozen")
            return self._conclude(epoch, "waiting", f"input '{observation.input}' is {observation.reason}: {observation.detail}")
        self.last_refusal.clear()
        observation = self._continuation.add(observation, base, commanded, self.session.id, epoch)
        decision = self.engine.decide(with_noise(observation, self.pipeline, self.session.id, epoch))
        self.last = decision
        for run in decision.runs:
            self.runs[run.stage] += 1
            self.background_runs[run.stage] += run.background
            if run.duration_ns is not None:
                self.stage_latency[run.stage].add(run.duration_ns)
        for commit in decision.commits:
            if commit.duration_ns is not None and not any(r.stage == commit.stage and r.duration_ns for r in decision.runs):
                self.stage_latency[commit.stage].add(commit.duration_ns)
        if decision.chunk is None:
            self.refused += 1
            self.trips["age"] += 1
            return self._conclude(epoch, "waiting", decision.refused)
        if not np.isfinite(decision.chunk).all():
            self.refused += 1
            self.trips["nonfinite"] += 1
            return self._conclude(epoch, "waiting", f"decision {index}: the chunk holds values that are not finite; it was not published")
        took = time.monotonic_ns() - began
        self.latency.add(took)
        if took > self.pipeline.contract.deadline_ns:
            self.deadline_misses += 1
            if "deadline" in self.pipeline.contract.rollback.guards:
                self.refused += 1
                self.trips["deadline"] += 1
                return self._conclude(epoch, "waiting", f"the decision took {took / 1e6:.0f} ms of a deadline of "
                                                        f"{self.pipeline.contract.deadline_ms:g} ms: its chunk was dropped")
        seq = None if self._stopping else self.session.stamp(epoch)
        if seq is None:  # the epoch has risen while we were thinking: the player would have to refuse it
            self.refused += 1
            return None
        self.chunks += 1
        output = self.pipeline.contract.outputs[0]  # verify has made sure that all outputs share step and offset
        positions = self._targets.of(decision.chunk, observation, base, epoch)
        chunk = Chunk(self.pipeline.spec.joints, positions, now_ns + output.offset_ns, output.step_ns,
                      session=self.session.id, epoch=epoch, seq=seq, offset_ns=output.offset_ns, base=base,
                      frozen_prefix=self._continuation.frozen_prefix)
        self._last_chunk.chunk = chunk
        self._publish(Made(chunk, decision, observation))
        return self._conclude(epoch, "running", "")

    def _conclude(self, epoch: int, state: str, reason: str) -> None:
        """What the worker has to say of a decision, unless the epoch has risen since: then it is no longer asked."""
        with self._turn:
            if epoch == self.session.epoch:
                self._say(state, reason)

    def _say(self, state: str, reason: str) -> None:
        if (state, reason.split(":")[0]) != (self.state, self.reason.split(":")[0]):
            self.state, self.reason = state, reason
            self._changed()
        self.reason = reason
