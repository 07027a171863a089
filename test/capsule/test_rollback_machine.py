"""What follows a trip, against a model that keeps the whole history and reads the state off it: an arm that is held for too
little is a nuisance, and one that goes on for too long with a policy that has lost its mind is a danger."""

from collections import Counter
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flashrt_ros.capsule.rollback import (
    AGE, CONTENT, DEADLINE, JUMP, NONFINITE, POSITION, STAGE_ERROR, TIME, VELOCITY, Rollback, RollbackError, State,
)


class History:
    """The model: a list of what happened, and for each question a look through it. It shares no rule with what it judges: that
    steps from state to state, this has none."""

    def __init__(self, limit):
        self.limit, self.events = limit, []

    def since(self, *ends):
        """The events after the last of these kinds."""
        at = max((i for i, event in enumerate(self.events) if event[0] in ends), default=-1)
        return self.events[at + 1 :]

    def row(self):
        """(cause, fits) of the trips since a chunk passed."""
        return [event[1:] for event in self.since("passed", "reset") if event[0] == "tripped"]

    def state(self):
        row = self.row()
        in_hold = [cause for cause, _ in row[self.limit :] if cause in CONTENT]
        if len(in_hold) >= self.limit:
            return State.FAULT
        if len(row) >= self.limit:
            return State.HOLD
        kind, *trip = self.events[-1] if self.events else ("nothing",)
        return State.RETRY if kind == "tripped" and trip[0] in CONTENT and trip[1] else State.NORMAL

    def attempt(self):
        """Retries of the decision under way: each was asked for by a trip after which the state was RETRY."""
        begun = len(self.events) - len(self.since("begin", "reset"))
        return sum(History.of(self.limit, self.events[: i + 1]).state() is State.RETRY for i in range(begun, len(self.events)))

    @staticmethod
    def of(limit, events):
        history = History(limit)
        history.events = events
        return history


class Machine(RuleBasedStateMachine):
    @initialize(limit=st.integers(1, 4))
    def start(self, limit):
        self.rollback, self.history, self.kept = Rollback(limit), History(limit), []

    def become(self, after, *event):
        before = self.rollback
        self.kept.append((before, (before.state, before.consecutive, before.in_hold, before.attempt, dict(before.trips))))
        self.rollback = after
        self.history.events.append(event)
        return before

    def out_of_fault(self):
        return self.rollback.state is not State.FAULT

    @rule()
    @precondition(out_of_fault)
    def begin(self):
        self.become(self.rollback.begin(), "begin")
        assert self.rollback.attempt == 0 and self.rollback.state is not State.RETRY

    @rule()
    @precondition(out_of_fault)
    def passed(self):
        before = self.become(self.rollback.passed(), "passed")
        assert self.rollback.state is State.NORMAL and self.rollback.attempt == before.attempt

    @rule(causes=st.lists(st.sampled_from(CONTENT + TIME), min_size=1, max_size=5), fits=st.booleans())
    def tripped(self, causes, fits):
        """Several in a row, for only rows lead on."""
        for cause in causes:
            if self.rollback.state is State.FAULT:
                return
            before = self.become(self.rollback.tripped(cause, fits), "tripped", cause, fits)
            after = self.rollback
            assert after.attempt == before.attempt + (after.state is State.RETRY)
            assert {c: after.trips[c] - before.trips[c] for c in after.trips} == {**dict.fromkeys(CONTENT + TIME, 0), cause: 1}
            if cause in TIME or not fits:
                assert after.state is not State.RETRY
            if after.state is State.FAULT:
                assert before.state is State.HOLD and cause in CONTENT
            if after.state is State.HOLD and before.state is not State.HOLD:
                assert after.consecutive == after.max_consecutive and after.in_hold == 0

    @rule()
    def reset(self):
        before = self.become(self.rollback.reset(), "reset")
        assert self.rollback == Rollback(before.max_consecutive, trips=before.trips)
        assert self.rollback.state is State.NORMAL

    @rule(cause=st.sampled_from(CONTENT + TIME))
    @precondition(lambda self: not self.out_of_fault())
    def nothing_happens_in_fault(self, cause):
        for transition in (self.rollback.begin, self.rollback.passed, lambda: self.rollback.tripped(cause, True)):
            with pytest.raises(RollbackError, match="FAULT.*reset"):
                transition()

    @invariant()
    def it_is_where_its_history_leads(self):
        history, rollback = self.history, self.rollback
        assert rollback.state is history.state()
        assert rollback.attempt == history.attempt()
        assert rollback.consecutive == len(history.row())
        counted = Counter(event[1] for event in history.events if event[0] == "tripped")
        assert +Counter(rollback.trips) == counted and set(rollback.trips) == set(CONTENT + TIME)

    def teardown(self):
        for value, was in getattr(self, "kept", ()):  # a value that is kept, as in a published status, never changes
            assert (value.state, value.consecutive, value.in_hold, value.attempt, dict(value.trips)) == was


Machine.TestCase.settings = settings(max_examples=200, stateful_step_count=30)
TestMachine = Machine.TestCase


def walk(rollback, *trips, fits=True):
    """The states after each of these trips, one decision per trip unless it is a retry; and where that ends."""
    states = []
    for cause in trips:
        rollback = (rollback if rollback.state is State.RETRY else rollback.begin()).tripped(cause, fits)
        states.append(rollback.state.value)
    return states, rollback


def test_the_whole_way_down_and_back():
    """Two retries, hold, fault, and an operator who resets: as the documentation tells it."""
    states, rollback = walk(Rollback(3), POSITION, VELOCITY, JUMP, NONFINITE, STAGE_ERROR, POSITION)
    assert states == ["retry", "retry", "hold", "hold", "hold", "fault"]
    assert rollback.attempt == 0  # of its last decision, which in HOLD has one attempt
    assert (rollback.reset().state, rollback.reset().trips[POSITION]) == (State.NORMAL, 2)


def test_late_and_blind_decisions_hold_the_arm_but_never_call_the_operator():
    """A camera cable that is plugged in again is all that it takes."""
    states, rollback = walk(Rollback(3), *(AGE, DEADLINE) * 50)
    assert states == ["normal", "normal"] + ["hold"] * 98
    assert rollback.begin().passed().state is State.NORMAL


def test_in_hold_time_trips_neither_count_towards_fault_nor_clear_what_counted():
    """A policy that is wrong whenever it can be heard is as wrong as one that is wrong without a break."""
    states, _ = walk(Rollback(2), AGE, AGE, POSITION, AGE, AGE, AGE, POSITION)
    assert states == ["normal", *["hold"] * 5, "fault"]


def test_a_passed_chunk_forgives_everything():
    """HOLD that begins later begins from nothing."""
    rollback = Rollback(2)
    for _ in range(10):
        states, rollback = walk(rollback, POSITION, POSITION, POSITION, fits=False)
        assert states == ["normal", "hold", "hold"]
        rollback = rollback.begin().passed()


def test_a_trip_that_leaves_no_time_costs_its_chunk_only():
    """The arm plays on what it has; a retry would come after the deadline and be dropped."""
    states, rollback = walk(Rollback(3), POSITION, fits=False)
    assert states == ["normal"] and rollback.attempt == 0


def test_with_one_trip_allowed_nothing_is_retried():
    """The strictest setting: the first wrong chunk holds the arm, the second is a fault."""
    assert walk(Rollback(1), JUMP, JUMP)[0] == ["hold", "fault"]


@pytest.mark.parametrize("cause", ["", "Position", "frozen", "late"])
def test_an_unknown_cause_is_refused(cause):
    """A trip that is counted under no name is one that nobody sees."""
    with pytest.raises(RollbackError, match=f"{cause!r}.*nonfinite.*deadline"):
        Rollback(3).tripped(cause, True)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_without_meaning_is_refused(limit):
    """Zero would hold the arm before anything has gone wrong."""
    with pytest.raises(RollbackError, match=f"max_consecutive is {limit}"):
        Rollback(limit)


def test_a_state_that_was_published_cannot_be_written_to():
    """Status and capsules keep it."""
    for rollback in (Rollback(3), Rollback(3).tripped(POSITION, True)):
        with pytest.raises(FrozenInstanceError):
            rollback.state = State.FAULT
        with pytest.raises(TypeError):
            rollback.trips[POSITION] = 1
