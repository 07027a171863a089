"""The player: chunks in, one safe command per control tick out. The state machine and the cursor.

Owns when a chunk is entered and left, and what forbids it. Must not import ROS, torch or the contract; time is an
argument. numpy only.

Time. Commands lie on a grid of tick_ns that begins at activation, and a call of `tick` is one step of it, however late
its timer fired. If the timer falls two or more steps behind, those steps are caught up with and count as consumed,
because the controller has executed them from the last window. If it runs more than a step ahead, the last command is
repeated. So a command's time stays within one tick of now_ns, and the cursor counts what the arm did.

Runs. The player id names a run: it begins at activation, and anew from where the arm is when the last hold (e-stop,
take-over, foreign publisher, tracking error) ends. From the first hold on a chunk plays only if its base says that it was
decided in the present run; that needs no clock, and no word from the policy.
"""

from __future__ import annotations

import secrets
from collections import Counter

import numpy as np

from flashrt_ros.chunk.blend import Blend
from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.chunk.sample import sample
from flashrt_ros.chunk.splice import strategy
from flashrt_ros.player.command import Command, Point, State
from flashrt_ros.player.conform import conform
from flashrt_ros.player.entry import find_entry
from flashrt_ros.player.holds import CAUSES, LATCHED, Holds
from flashrt_ros.player.limits import FAR, Limits
from flashrt_ros.player.memory import Memory
from flashrt_ros.player.motion import Motion
from flashrt_ros.player.parameters import PlayerError, PlayerParameters
from flashrt_ros.player.sessions import Sessions
from flashrt_ros.player.tracking import Tracking
from flashrt_ros.player.verdict import Accepted, Reason, Refused

LAST_ID = 2**32 - 1


class Player:
    """Joints `names` (rad or m), one tick per tick_ns. Not thread-safe. Every now_ns must come from the same clock.

    `counters` counts by cause: each Reason's value; `clamped` targets; `frozen_ignored`: chunks with a frozen prefix that
    did not continue the plan, or under another strategy than rtc; `late_ticks` that were caught up with;
    `session_changes`; and why motion was ended: `ran_out` (of steps), `chunk_expired`, `epoch`, `conflict` (two
    sessions), `clock_back`, `stalled` (no tick for longer than a window), and the holds: `emergency_stop`, `take_over`,
    `contended` (a foreign publisher), `tracking_error`; and `gave_way`: after one, commands went to where the arm was.
    Methods raise PlayerError when called while idle, but those that begin or end a hold. holds: those to begin with; kept
    by a caller, an e-stop outlives the player.
    """

    def __init__(self, names: tuple[str, ...], limits: Limits, tick_ns: int,
                 parameters: PlayerParameters = PlayerParameters(), holds: Holds | None = None) -> None:
        if tuple(names) != limits.names:
            raise PlayerError(f"the player's joints are {tuple(names)}, the limits' {limits.names}; they must be the "
                              f"same, in the same order")
        if tick_ns <= 0:
            raise PlayerError(f"tick_ns is {tick_ns}; it must be positive")
        self.names, self.limits, self.tick_ns, self.parameters = limits.names, limits, int(tick_ns), parameters
        self.counters: Counter[str] = Counter()
        self.holds = Holds() if holds is None else holds
        self._slow = limits.slower(parameters.approach_speed)
        self._tracking = Tracking(limits, round(parameters.tracking_ms * 1e6))
        self._dt = self.tick_ns * 1e-9
        self._motion = Motion(limits, self._slow, self.tick_ns)
        self._expiry_ns, self._window_ns = round(parameters.expiry_ms * 1e6), round(parameters.window_ms * 1e6)
        # In rows from the present: what comes between two ticks concerns windows from the next tick on, hence the 1.
        self._lead = 1 + -(-round(parameters.lead_ms * 1e6) // self.tick_ns) if parameters.lead_ms else 0
        # An e-stop's window need not wait for its turn: of the one before, only what is executed meanwhile is kept.
        self._urgent_lead = min(self._lead, 2)
        self._window_ticks = max(1, self._lead, self._window_ns // self.tick_ns)
        decay = {"decay": parameters.ensemble_decay} if parameters.strategy == "ensemble" else {}
        self._memory = Memory(strategy(parameters.strategy, **decay))

    def activate(self, now_ns: int, measured_position: np.ndarray, player_id: int | None = None) -> None:
        """Hold the measured pose [N]. Takes a new player id (random unless given, never 0); nothing earlier counts, but
        an e-stop or a take-over."""
        if player_id == 0:
            raise PlayerError("player id 0 means that no player was heard; give another, or none")
        self._hold(measured_position)
        self._measured: np.ndarray | None = measured_position
        self.holds.remove(*(reason for reason in CAUSES if reason not in LATCHED))
        self.player_id = secrets.randbelow(LAST_ID) + 1 if player_id is None else player_id
        self._sessions = Sessions(self._expiry_ns)
        self._faulted = False
        self._motion.consumed = 0
        self._now_ns = now_ns  # of the latest call
        self._time_ns = now_ns  # of the plan's row that is the present command

    def deactivate(self) -> None:
        """Go idle. A controller of windows comes to rest by the last one; a forward controller must be ticked to rest
        after stop() and before this."""
        self._motion.end()

    def stop(self, cause: str) -> None:
        """Drop the chunk, begin a limited stop lead_ms from now and count `cause`. The next good chunk resumes."""
        self._require_active()
        self._stop(cause, self._lead)

    def estop(self, cause: str, now_ns: int) -> None:
        """Stop at once, within the acceleration limits, and refuse every chunk until estop_reset. Also while idle: then an
        activation finds it latched."""
        self._begin_hold(Reason.ESTOP, f"e-stop: {cause}", now_ns)

    def estop_reset(self) -> None:
        """End the e-stop, if there is one. PlayerError while the arm is still moving."""
        self._end_hold(Reason.ESTOP)

    def take_over(self, now_ns: int, said: str = "a person has taken over") -> None:
        """A person has the arm: stop within the limits, and refuse every chunk until give_back. Also while idle."""
        self._begin_hold(Reason.TAKEN_OVER, said, now_ns)

    def give_back(self) -> None:
        """End the take-over, if there is one. PlayerError while the arm is still moving."""
        self._end_hold(Reason.TAKEN_OVER)

    def contended(self, by: str, now_ns: int) -> None:
        """by: who else commands the controller; the arm stops and holds. Empty: nobody (any more)."""
        if by:
            self._begin_hold(Reason.FOREIGN_PUBLISHER, by, now_ns)
        elif not self._motion.idle and self.at_rest:
            self._end_hold(Reason.FOREIGN_PUBLISHER)

    def hold_at(self, measured_position: np.ndarray) -> None:
        """Hold this pose [N] instead of the present command: the arm was moved while at rest. PlayerError if it is not
        at rest, or not a pose."""
        if self.state is not State.HOLDING:
            raise PlayerError(f"hold_at is for a player at rest; it is {self.state.value}")
        self._hold(measured_position)

    def epoch(self, session: int, epoch: int, now_ns: int) -> None:
        """`session` announced `epoch`: older chunks of it are left by a limited stop, and refused from now on."""
        self._require_active()
        self._follow_clock(now_ns)
        self._sessions.announce(session, epoch)
        if self._motion.chunk is not None and self._sessions.outdated(self._motion.chunk.order):
            self.stop("epoch")

    def offer(self, chunk: Chunk, now_ns: int) -> Accepted | Refused:
        """Play this chunk from the next tick on, if it may and can be played.

        It is entered at the steps consumed since its base if this player was playing there; else (first chunk, resumed
        after a stop, player restarted) by its stamp, not before step 0.
        """
        verdict = self._judge(chunk, now_ns)
        if isinstance(verdict, Refused):
            self.counters[verdict.reason.value] += 1
        return verdict

    def tick(self, now_ns: int, measured_position: np.ndarray | None = None) -> Command:
        """Advance by one control tick. measured_position [N] is compared with the command that the arm has had until now,
        and a new run begins from it; None: unknown."""
        self._require_active()
        self._follow_clock(now_ns)
        self._measured = measured_position
        error = None
        if measured_position is not None:
            missed = np.abs(measured_position - self._motion.ahead().position)
            error = float(np.max(missed))
            self._watch(now_ns, missed)
        if now_ns >= self._time_ns:
            self._advance(1)
        self._faulted = self._sessions.in_conflict(now_ns)
        row = self._motion.ahead()
        return Command(self._time_ns, row.position, row.velocity, self.state, self.cursor, error)

    def window(self, now_ns: int) -> list[Point]:
        """What the next ticks will command if nothing happens, up to window_ms ahead, and then a limited stop.

        Begins with the last tick not after now_ns where there is one, so that a controller need not bridge from the
        measured state. Ends at rest and later than now_ns: an executor of windows stops when the player dies.
        """
        self._require_active()
        start = (now_ns - self._time_ns) // self.tick_ns
        first_ns = self._time_ns + self._motion.begins(start, self._window_ticks) * self.tick_ns
        points = [Point(first_ns + i * self.tick_ns, *row) for i, row in enumerate(self._motion.window(start, self._window_ticks))]
        rest_ns = max(now_ns, self._time_ns) + self._window_ns
        if points[-1].time_ns < rest_ns:
            points.append(points[-1]._replace(time_ns=rest_ns))
        return points

    @property
    def revision(self) -> int:
        """Rises when what was to come changes: windows that were sent before tell something else than the next."""
        return self._motion.revision

    @property
    def state(self) -> State:
        if self._motion.idle:
            return State.IDLE
        if Reason.ESTOP in self.holds:
            return State.ESTOP
        if Reason.TAKEN_OVER in self.holds and self.at_rest:
            return State.TAKEN_OVER
        if self._faulted or Reason.FOREIGN_PUBLISHER in self.holds:
            return State.FAULT
        if self._motion.chunk is not None:
            return State.APPROACHING if self._approaching else State.PLAYING
        return State.HOLDING if self.at_rest else State.STOPPING

    @property
    def at_rest(self) -> bool:
        """Whether nothing will move until another chunk is taken."""
        self._require_active()
        return self._motion.at_rest

    @property
    def cursor(self) -> Cursor:
        """Where the player is. `tick` counts the ticks for which a chunk was played; session 0: nothing is played."""
        self._require_active()
        motion = self._motion
        if motion.chunk is None:
            return Cursor(player=self.player_id, tick=motion.consumed)
        session, epoch, seq, _ = motion.chunk.order
        return Cursor(self.player_id, motion.consumed, session, epoch, seq, motion.step)

    def _judge(self, chunk: Chunk, now_ns: int) -> Accepted | Refused:
        if self._motion.idle:
            return Refused(Reason.IDLE, "the player is not active")
        self._follow_clock(now_ns)
        refused = self._order(chunk, now_ns)  # also while held: who speaks is alive
        if (held := self.holds.first) is not None:
            return Refused(held, f"chunk {chunk.order}: {self.holds.said(held)}")
        if refused is not None:
            return refused
        if self.holds.fenced and chunk.base.player != self.player_id:
            return Refused(Reason.OLD_RUN, f"chunk {chunk.order}: its base is of the run {chunk.base.player} of the player; "
                                           f"this is run {self.player_id}, and what was decided before it never plays")
        fit = conform(chunk, self.limits, self.parameters.clamp_tolerance)
        return fit if isinstance(fit, Refused) else self._enter(*fit)

    def _order(self, chunk: Chunk, now_ns: int) -> Refused | None:
        age_ns = now_ns - chunk.start_ns
        if abs(age_ns) > self._expiry_ns:  # before the sessions hear of it: a packet that late proves nobody alive
            return Refused(Reason.EXPIRED if age_ns > 0 else Reason.FUTURE,
                           f"chunk {chunk.order}: step 0 is {age_ns * 1e-6:.0f} ms old; allowed are "
                           f"{self.parameters.expiry_ms:.0f} ms either way (expiry_ms)")
        if (reason := self._sessions.refusal(chunk.order, now_ns)) is not None:
            if reason is Reason.TWO_SESSIONS and not self._faulted:
                self._faulted = True
                self.stop("conflict")
            return Refused(reason, f"chunk {chunk.order}: {reason.value}; {self._sessions.describe()}")
        return None

    def _enter(self, chunk: Chunk, clamped: int) -> Accepted | Refused:
        motion = self._motion
        entry = find_entry(chunk, self.player_id, motion.consumed, self._time_ns, self.tick_ns, self._expiry_ns, self._lead)
        if isinstance(entry, Refused):
            return entry
        into_ns, ticks = entry.into_ns, entry.ticks
        if motion.chunk is None:
            self._memory.clear()
        sent, chunk = chunk, self._memory.splice(chunk, entry.start_ns, motion.consumed * self.tick_ns)
        # A frozen prefix that is left continues the plan: until its end the motion stays as it was planned.
        frozen = ((chunk.frozen_prefix - 1) * chunk.step_ns - into_ns) // self.tick_ns
        lead = max(self._lead, min(frozen, ticks - 1, motion.left))
        jump = self._jump(chunk, into_ns, lead)
        position, velocity, _ = motion.ahead(lead)
        elapsed_ns = np.arange(ticks - lead + 1, dtype=np.int64) * self.tick_ns  # since the last fixed row
        said = sample(chunk, chunk.start_ns + into_ns + lead * self.tick_ns + elapsed_ns)
        blend = Blend.within(self.limits, position - said.position[0], velocity - said.velocity[0],
                             self.parameters.blend_ms * 1e-3)
        offset, rate = blend.at(elapsed_ns[1:] * 1e-9)
        reference = said.position[1:] + offset, said.velocity[1:] + rate
        motion.follow(reference, lead, self._is_far(chunk, into_ns, position), chunk, into_ns, entry.end)
        self._faulted = False
        self.counters["session_changes"] += self._sessions.accept(chunk.order)
        self.counters["clamped"] += clamped
        self.counters["frozen_ignored"] += chunk.frozen_prefix < sent.frozen_prefix
        self._memory.keep(sent, entry.start_ns, (into_ns + ticks * self.tick_ns) // chunk.step_ns + 1)
        return Accepted(into_ns / chunk.step_ns, clamped, jump)

    def _jump(self, chunk: Chunk, into_ns: int, lead: int) -> np.ndarray:
        """How far a chunk is from the present plan [N] where it is free of it: `lead` ticks ahead; or a step past its frozen
        prefix, for within that the two agree by definition."""
        free = -(-(chunk.frozen_prefix * chunk.step_ns - into_ns) // self.tick_ns) if chunk.frozen_prefix else 0
        free = max(lead, min(free, self._motion.left))
        said = sample(chunk, chunk.start_ns + into_ns + free * self.tick_ns).position
        return said - self._motion.ahead(free).position

    def _is_far(self, chunk: Chunk, into_ns: int, position: np.ndarray) -> bool:
        """Whether a chunk must be approached from this position [N]. Once one need not, none must, until the next run."""
        if self._approaching:
            behind = chunk.positions[:into_ns // chunk.step_ns + 2]
            self._approaching = np.abs(behind - position).max(axis=1).min() > self.parameters.start_distance
        return self._approaching

    def _watch(self, now_ns: int, missed: np.ndarray) -> None:
        """Hold when a joint is off its command [N] for too long. Then go to where the arm is, and when it is there begin a
        new run; holding it elsewhere would push against whatever is in its way."""
        near = self._tracking.look(now_ns, missed)
        if Reason.ESTOP in self.holds or Reason.TAKEN_OVER in self.holds:
            self._tracking.forget()
        elif Reason.TRACKING not in self.holds:
            if self._tracking.lost:
                self._begin_hold(Reason.TRACKING, self._tracking.describe(missed), now_ns)
        elif not self.at_rest:
            self._tracking.forget()
        elif near:
            self._end_hold(Reason.TRACKING)
        elif self._tracking.lost and np.isfinite(self._measured).all():
            self._go_to(self._measured)

    def _begin_hold(self, reason: Reason, said: str, now_ns: int) -> None:
        if not self.holds.add(reason, said):
            return
        if reason in LATCHED:
            self.holds.remove(Reason.TRACKING)  # what ends them begins a run from the measured pose as well
        if self._motion.idle:
            self.counters[CAUSES[reason]] += 1
            return
        self._follow_clock(now_ns)
        self._stop(CAUSES[reason], self._urgent_lead if reason is Reason.ESTOP else self._lead)

    def _end_hold(self, reason: Reason) -> None:
        if reason not in self.holds:
            return
        if not self._motion.idle:
            if not self.at_rest:
                raise PlayerError(f"{self.holds.said(reason)}; the arm is still coming to rest: try again when it is")
            if len(self.holds) == 1:
                # An arm that is near its command again may still be on its way there; the command must not step back to it.
                here = self._measured is None or reason is Reason.TRACKING
                self._hold(self._motion.ahead().position if here else self._measured)
                self.player_id = self.player_id % LAST_ID + 1
        self.holds.remove(reason)

    def _go_to(self, position: np.ndarray) -> None:
        """Move the resting arm there [N], at the speed of an approach."""
        start, target = self._motion.ahead(self._lead).position, np.clip(position, self.limits.lower, self.limits.upper)
        blend = Blend.within(self._slow, start - target, np.zeros(len(self.names)), self.parameters.blend_ms * 1e-3)
        offset, rate = blend.at(np.arange(1, int(blend.duration_s / self._dt) + 2) * self._dt)
        self._motion.follow((target + offset, rate), self._lead, slow=True)
        self.counters["gave_way"] += 1

    def _hold(self, position: np.ndarray) -> None:
        position = np.array(position, dtype=np.float64)
        if position.shape != (len(self.names),) or not (np.abs(position) < FAR).all():
            raise PlayerError(f"measured position is {position}; expected {len(self.names)} finite values for "
                              f"{', '.join(self.names)}")
        self._motion.rest_at(position)
        self._approaching = True
        self._tracking.forget()

    def _stop(self, cause: str, lead: int) -> None:
        self.counters[cause] += 1
        self._motion.stop(lead)

    def _follow_clock(self, now_ns: int) -> None:
        """Notice a clock that jumped back; catch up with all overdue ticks but the last, which is tick's own."""
        jumped = self._now_ns - now_ns > self.parameters.clock_back_ms * 1e6
        self._now_ns = now_ns
        if jumped:
            self._time_ns = now_ns
            self._sessions.rebase(now_ns)
            self._tracking.forget()
            self.stop("clock_back")
            return
        late = (now_ns - self._time_ns) // self.tick_ns - 1
        if late > 0:
            self.counters["late_ticks"] += late
            # The last window followed the plan for so many ticks and then stopped; so did the arm.
            followed = min(late, self._window_ticks)
            self._advance(followed)
            if late > followed and self._motion.left > 0:
                self._stop("stalled", lead=0)
            self._advance(late - followed)

    def _advance(self, ticks: int) -> None:
        self._time_ns += ticks * self.tick_ns
        if ended := self._motion.advance(ticks):
            self.counters[ended] += 1

    def _require_active(self) -> None:
        if self._motion.idle:
            raise PlayerError("the player is idle; activate it with the measured position first")
