"""What a drill of faults plants, and how it finds out whether each was found: its verdict is worth no more than these laws."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.capsule.rollback import CONTENT, TIME
from flashrt_ros.ros.fault_plan import FIRST, GUARD, PAUSE, PERIOD, Found, Planted, fault_at, match

SEEDS, EPISODES = st.integers(0, 2**31), st.integers(0, 10_000)
STEPS = FIRST + PERIOD * len(GUARD) * 3


@given(SEEDS, EPISODES)
def test_faults_are_alone_and_each_cause_comes_as_often(seed, episode):
    """Two faults in a row would make one of two trips, or lead to HOLD, and then the drill would judge something else."""
    plan = [fault_at(seed, episode, step) for step in range(STEPS)]
    when = [step for step, cause in enumerate(plan) if cause]
    assert when[0] >= FIRST and min(b - a for a, b in zip(when, when[1:])) >= PAUSE
    causes = [plan[step] for step in when]
    for begin in range(0, len(causes), len(GUARD)):
        assert sorted(causes[begin:begin + len(GUARD)]) == sorted(GUARD)
    assert plan == [fault_at(seed, episode, step) for step in range(STEPS)]


def test_episodes_do_not_repeat_one_another():
    """An episode may end after its first faults: with one order for all, the last causes would never come."""
    first = {next(cause for step in range(STEPS) if (cause := fault_at(0, episode, step))) for episode in range(60)}
    assert first == set(GUARD)


PLANTED = st.lists(st.builds(Planted, st.sampled_from(sorted(GUARD)), st.just(7), st.integers(1, 3), st.integers(0, 99)),
                   unique_by=lambda fault: (fault.epoch, fault.decision), min_size=1, max_size=12)


def trip_of(fault):
    return Found(GUARD[fault.cause], fault.session, fault.epoch, fault.decision, 0, "")


@given(PLANTED, st.randoms())
def test_what_belongs_together_is_matched_in_any_order(planted, random):
    found = [trip_of(fault) for fault in planted]
    random.shuffle(found)
    matching = match(planted, found)
    assert matching.complete and sum(map(matching.matched, GUARD)) == len(planted)
    assert sum(matching.trips().values()) == len(found)


@given(PLANTED, st.data())
def test_a_trip_too_few_is_found(planted, data):
    lost = data.draw(st.sampled_from(planted))
    matching = match(planted, [trip_of(fault) for fault in planted if fault != lost])
    assert matching.missed == (lost,) and not matching.spare and not matching.complete


@given(PLANTED, st.data())
def test_a_trip_too_many_is_found(planted, data):
    """Twice the same, or a retry that trips as well: one fault must not excuse two trips."""
    again = replace(trip_of(data.draw(st.sampled_from(planted))), attempt=data.draw(st.integers(0, 1)))
    matching = match(planted, [*map(trip_of, planted), again])
    assert matching.spare == (again,) and not matching.missed and not matching.complete


@given(PLANTED, st.data())
def test_another_guard_decision_epoch_or_session_is_no_match(planted, data):
    fault = data.draw(st.sampled_from(planted))
    right = trip_of(fault)
    wrong = data.draw(st.sampled_from([
        *(replace(right, guard=guard) for guard in CONTENT + TIME if guard != right.guard),
        replace(right, decision=right.decision + 100), replace(right, epoch=9), replace(right, session=8)]))
    matching = match(planted, [wrong if trip_of(other) == right else trip_of(other) for other in planted])
    assert matching.missed == (fault,) and matching.spare == (wrong,)
    assert matching.planted(fault.cause) == sum(other.cause == fault.cause for other in planted)


@pytest.mark.parametrize("cause", sorted(GUARD))
def test_a_fault_survives_its_message(cause):
    fault = Planted(cause, 2**63 + 1, 4, 123456789)
    assert Planted.from_text(fault.to_text()) == fault
