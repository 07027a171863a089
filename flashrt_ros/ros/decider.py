"""The decision loop: one worker thread that walks the time grid and asks for a chunk at each of its moments.

Owns the grid, the order of requests from outside (task, reset, restore) and the counters. What a decision is lives in
capsule/maker.py. Time, messages and publishing come as functions, so nothing here imports ROS. Other threads call `wake`,
`set_task`, `reset`, `restore` and `at_boundary`.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from flashrt_ros.capsule.maker import Asked, ChunkMaker, Made, NotMade, Tripped
from flashrt_ros.capsule.ring import Capsule
from flashrt_ros.capsule.rollback import State
from flashrt_ros.capsule.stored import Stored
from flashrt_ros.chunk.chunk import Cursor
from flashrt_ros.engine.continuation import Commanded
from flashrt_ros.engine.decision import Decision
from flashrt_ros.errors import FlashRTError
from flashrt_ros.ros.latency import Latencies
from flashrt_ros.ros.session import Session

UNTIL_RESET = "nothing is decided until reset"
NO_TASK = "no task is given"


class FaultError(FlashRTError):
    """Asked for in FAULT is what takes effect after a reset only."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that an operator will want to know later. kind: trip, hold, fault, reset, restore or snapshot; cause: the guard's
    name, or empty. decision, attempt: of a trip. path: of the file that was written, or empty."""

    kind: str
    epoch: int
    detail: str
    cause: str = ""
    capsule_id: str = ""
    decision: int = -1
    attempt: int = 0
    path: str = ""


class Decider:
    """now_ns(): the node's clock. decode(name, raw): see Intake. player(now_ns): where the player was
    then, and what it commanded, None if that is unknown.
    publish(made): takes each chunk, on the worker's thread. changed(): `state` or `reason` changed. tell(event): on any thread."""

    def __init__(self, maker: ChunkMaker, session: Session, now_ns: Callable[[], int],
                 decode: Callable[[str, Any], np.ndarray], player: Callable[[int], tuple[Cursor, Commanded | None]],
                 publish: Callable[[Made], None], changed: Callable[[], None], tell: Callable[[Event], None]) -> None:
        self.maker, self.session = maker, session
        self.pipeline, self.intake = maker.pipeline, maker.intake
        self._now_ns, self._decode, self._player = now_ns, decode, player
        self._publish, self._changed, self.tell = publish, changed, tell
        self.state, self.reason, self.task = "idle", "", ""
        self.decisions = self.chunks = self.skipped = self.refused = self.deadline_misses = 0
        self.refusals: dict[str, Counter[str]] = {i.name: Counter() for i in self.pipeline.contract.inputs}
        self.last_refusal: dict[str, str] = {}
        self.runs, self.background_runs, self.stage_errors = Counter(), Counter(), Counter()
        self.latency = Latencies()
        self.stage_latency = {stage.name: Latencies() for stage in self.pipeline.stages}
        self.last: Decision | None = None
        self.bug = ""  # traceback of the last exception that is none of ours
        self._texts = [i.name for i in self.pipeline.texts]
        self._turn = threading.Condition()
        self._stopping = self._reset_asked = False
        self._jobs: list[Callable[[], None]] = []
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
            self._say("idle", NO_TASK)

    def reset(self) -> int:
        """Forget what was seen and believed, at the next boundary; the instruction stays. Returns the new epoch."""
        with self._turn:
            self._reset_asked = True
            self._jobs.append(self._reset)
            epoch = self.session.raise_epoch("reset")
        self.tell(Event("reset", epoch, "what was seen and believed is forgotten"))
        return epoch

    def restore(self, capsule: Capsule | Stored) -> int:
        """Go back to the belief of a capsule at the next boundary; what has come from outside since stands. Returns the new epoch.
        Raises CapsuleRefused for one of another contract, other weights, other buffers or another task, and FaultError."""
        self.maker.check(capsule, self.task)  # not under the lock, for which a decision would wait; checked again at the boundary
        with self._turn:
            if self.maker.rollback.state is State.FAULT and not self._reset_asked:
                raise FaultError(f"{self.reason}: reset first, which forgets what is believed, then restore")
            self._jobs.append(lambda: self._restore(capsule))
            return self.session.raise_epoch("restore")

    def at_boundary(self, job: Callable[[], None]) -> None:
        """Call job on the worker's thread between two decisions, in the order of asking; before stop() returns at the latest."""
        with self._turn:
            self._jobs.append(job)

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
                self._handle_jump()
                index, stopping = self._elapsed(), self._stopping
                if index == self._index and not stopping:
                    continue
                jobs, self._jobs = self._jobs, []
                skipped, self._index = index - self._index - 1, index
                epoch, task = self.session.epoch, self.task
            for job in jobs:
                try:
                    job()
                except Exception:  # nor must a bug in what was asked for
                    self.bug = traceback.format_exc()
            if stopping:
                return
            if (not task and self._texts) or self.maker.rollback.state is State.FAULT:
                continue
            self.skipped += skipped if self.state == "running" else 0
            self.decisions += 1
            try:
                self._decide(index, epoch, task)
            except FlashRTError as error:
                self.refused += 1
                self._conclude(epoch, "waiting", str(error))
            except Exception as error:  # a bug must not end the thread silently: the chunks cease and the node says why
                self.refused += 1
                self.bug = traceback.format_exc()
                self._conclude(epoch, "fault", f"{type(error).__name__}: {error}")

    def _elapsed(self) -> int:
        return (self._now_ns() - self._start_ns) // self.pipeline.period_ns

    def _handle_jump(self) -> None:
        now_ns = self._now_ns()
        if self._elapsed() < self._index:
            self._start_ns, self._index = now_ns, -1
            self.intake.clear_after(now_ns)
            self.maker.reset()
            self.session.raise_epoch("clock jump")

    def _reset(self) -> None:
        with self._turn:
            self._reset_asked = False
            self.intake.reset()
            self.maker.reset()
            for name in self._texts:
                self.intake.offer(name, self.task, None, self._now_ns())
            if not self.task and self._texts:
                self._say("idle", NO_TASK)

    def _decide(self, index: int, epoch: int, task: str) -> None:
        now_ns = self._start_ns + index * self.pipeline.period_ns
        began = time.monotonic_ns()
        session = self.session
        asked = Asked(index, now_ns, session.id, epoch, task, session.id, *self._player(now_ns), began)
        before = self.maker.rollback.state
        made = self.maker.make(asked, self._decode, lambda: None if self._stopping else session.stamp(epoch))
        self._account(made)
        for tripped in made.trips:
            self._say_trip(asked, tripped)
        state = self.maker.rollback.state
        if state is not before and state in (State.HOLD, State.FAULT):
            self.tell(Event(state.value, epoch, made.detail, made.trips[-1].trip.guard))
        if isinstance(made, Made):
            self.chunks += 1
            self._publish(made)
            return self._conclude(epoch, "running", "")
        self.refused += 1
        if made.refusal is not None:
            self.refusals[made.refusal.input][made.refusal.reason] += 1
            self.last_refusal[made.refusal.input] = made.refusal.detail
        if made.detail:
            said = {State.HOLD: "hold", State.FAULT: "fault"}.get(state, "waiting")
            self._conclude(epoch, said, made.detail + (f"; {UNTIL_RESET}" if state is State.FAULT else ""))
        return None

    def _account(self, made: Made | NotMade) -> None:
        """Enter what ran into the counters."""
        decisions = [t.decision for t in made.trips if t.decision is not None]
        decisions += [made.decision] if isinstance(made, Made) else []
        if decisions:
            self.last, deadline_ns = decisions[-1], self.pipeline.contract.deadline_ns
            self.last_refusal.clear()
            self.latency.add(made.took_ns)
            self.deadline_misses += made.took_ns > deadline_ns
        for decision in decisions:
            for run in decision.runs:
                self.runs[run.stage] += 1
                self.background_runs[run.stage] += run.background
                if run.duration_ns is not None:
                    self.stage_latency[run.stage].add(run.duration_ns)
            for commit in decision.commits:
                if commit.duration_ns is not None and not any(r.stage == commit.stage and r.duration_ns for r in decision.runs):
                    self.stage_latency[commit.stage].add(commit.duration_ns)

    def _say_trip(self, asked: Asked, tripped: Tripped) -> None:
        if tripped.stage is not None:
            self.stage_errors[tripped.stage] += 1
        detail = f"decision {asked.index}, attempt {tripped.attempt}: {tripped.trip.detail}"
        self.tell(Event("trip", asked.epoch, detail, tripped.trip.guard, decision=asked.index, attempt=tripped.attempt))

    def _restore(self, capsule: Capsule | Stored) -> None:
        boundary = capsule.record.boundary
        # In an earlier session, or before a jump of the clock, an index meant another time.
        same_grid = (boundary.decision is not None
                     and boundary.now_ns == self._start_ns + boundary.decision * self.pipeline.period_ns)
        try:
            self.maker.restore(capsule, self.task, same_grid)
        except FlashRTError as error:
            detail = f"refused: {error}"
        else:
            detail = f"back at decision {boundary.decision} of session {capsule.record.place.session}"
        self.tell(Event("restore", self.session.epoch, detail, capsule_id=capsule.record.id))

    def _conclude(self, epoch: int, state: str, reason: str) -> None:
        """What the worker has to say of a decision, unless the epoch has risen since: then it is no longer asked. A fault is
        always told."""
        with self._turn:
            if epoch == self.session.epoch or state == "fault":
                self._say(state, reason)

    def _say(self, state: str, reason: str) -> None:
        if self.maker.rollback.state is State.FAULT and state != "fault":
            return  # no task, and no other one, leads out of it
        if (state, reason.split(":")[0]) != (self.state, self.reason.split(":")[0]):
            self.state, self.reason = state, reason
            self._changed()
        self.reason = reason
