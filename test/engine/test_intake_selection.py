"""The intake: which message of every input a decision takes, across resets and clock jumps, and what it counts."""

from __future__ import annotations

import threading
import zlib

import numpy as np
import pytest
from dag_policy import SIZE
from hypothesis import given
from hypothesis import strategies as st
from intake_samples import MS, NOW, DecodeError, counts, decode, good, make, offer, refused, take, taken

from flashrt_ros.contract.schema import Align
from flashrt_ros.engine.intake import Refusal
from flashrt_ros.engine.observation import Observation
from flashrt_ros.engine.slot import RING


def test_the_newest_message_of_every_input_is_taken():
    """A queue would feed the policy pictures that are older each time."""
    intake = make()
    for at in (-20, -10, -3):
        good(intake, at)
    seen = taken(intake)
    assert seen.inputs["joints"].value[0] == -3 and seen.inputs["joints"].stamp_ns == NOW - 3 * MS
    assert (counts(intake, "joints").received, counts(intake, "joints").replaced) == (3, 2)
    assert counts(intake, "joints").used == 1


def test_an_ident_changes_exactly_when_a_new_message_is_taken():
    """It is what makes a stage due: a repeated one would hide a picture, a needless change would run vision again."""
    intake = make()
    good(intake, 0)
    first = taken(intake)
    offer(intake, "joints", 7, 10)
    second = taken(intake, 10)
    assert second.inputs["scene"].ident == first.inputs["scene"].ident
    assert second.inputs["joints"].ident != first.inputs["joints"].ident
    intake.reset()
    good(intake, 20)
    third = taken(intake, 20)
    idents = {seen.inputs["joints"].ident for seen in (first, second, third)}
    assert len(idents) == 3


def test_a_message_is_decoded_once_and_only_if_it_is_taken():
    """Decoding is the dear part: a 30 Hz camera at 10 decisions a second is decoded ten times, not thirty."""
    intake, decoded = make(), []

    def counting(name, raw):
        decoded.append((name, raw))
        return decode(name, raw)

    for at in (-2, -1, 0):
        good(intake, at)
    for k in range(3):
        assert isinstance(intake.take(k, NOW + k * MS, counting), Observation)
    assert decoded == [("scene", 1e6), ("joints", 0), ("task", "wait")]


def test_a_text_input_is_its_default_until_the_first_message_and_has_no_stamp():
    intake = make()
    good(intake)
    before = taken(intake).inputs["task"]
    offer(intake, "task", "pick up", -5000)  # latched long ago: instructions do not age
    after = taken(intake, 1).inputs["task"]
    assert (before.value[0], after.value[0]) == (4, 7) and before.stamp_ns is after.stamp_ns is None
    assert before.ident != after.ident and counts(intake, "task").received == 1


def test_asof_takes_the_newest_not_after_now_and_hold_the_newest():
    """A bag is read ahead of the decision: a state from after `now` would be a look into the future."""
    for strategy, expected in (("asof", -1), ("hold", 9)):
        intake = make(joints=Align(strategy))
        good(intake, -8)
        for at in (-1, 4, 9):
            offer(intake, "joints", at, at)
        assert taken(intake).inputs["joints"].value[0] == expected
    intake = make(joints=Align("asof"))
    for at in (-1, 4, -3, 9):  # out of order among themselves: sorted
        good(intake, at)
    assert [taken(intake, at).inputs["joints"].value[0] for at in (0, 5, 9)] == [-1, 4, 9]
    assert counts(intake, "joints").replaced == 1


def test_the_ring_of_asof_is_short_and_keeps_the_newest():
    """When decisions stop, memory must not grow with the messages."""
    intake = make(joints=Align("asof"))
    good(intake, 0)
    for i in range(RING + 5):
        offer(intake, "joints", i, i / 10)
    assert taken(intake, 7).inputs["joints"].value[0] == RING + 4
    assert counts(intake, "joints").replaced == RING + 5


def test_age_is_judged_on_the_chosen_timeline():
    """A camera driver with a drifting clock is usable by receive time; its header would refuse it."""
    for timeline, reason in (("header", "stale"), ("receive", None)):
        intake = make(scene=Align(timeline=timeline))
        offer(intake, "joints", 0, 0)
        intake.offer("scene", 1.0, NOW - 400 * MS, NOW)
        found = take(intake)
        assert (found.reason if isinstance(found, Refusal) else None) == reason
    assert found.inputs["scene"].stamp_ns == NOW


def test_a_message_without_a_header_counts_by_its_receive_time():
    """Float arrays have none, and their age still counts."""
    intake = make()
    offer(intake, "scene", 1.0, 0)
    intake.offer("joints", 0, None, NOW - 7 * MS)
    assert taken(intake).inputs["joints"].stamp_ns == NOW - 7 * MS


@pytest.mark.parametrize("strategy", ["hold", "asof"])
def test_a_message_older_than_the_one_in_use_is_dropped_and_counted(strategy):
    """Time in the buffers never runs backwards, or an age that was checked once would grow unseen."""
    intake = make(joints=Align(strategy))
    good(intake, 0)
    taken(intake)
    offer(intake, "joints", -9, -9)
    seen = taken(intake, 1)
    assert seen.inputs["joints"].value[0] == 0 and counts(intake, "joints").out_of_order == 1


def test_in_a_burst_of_mixed_order_hold_keeps_the_newest():
    """Best-effort transports may deliver a backlog in any order."""
    intake = make()
    good(intake, -20)
    for at in (-5, -15, -1, -10):
        offer(intake, "joints", at, at)
    assert taken(intake).inputs["joints"].value[0] == -1
    assert (counts(intake, "joints").out_of_order, counts(intake, "joints").replaced) == (2, 2)


def test_reset_forgets_every_message_and_keeps_the_counts():
    """After a deactivation the world may have changed; the operator's counters tell of the whole session."""
    intake = make()
    good(intake)
    offer(intake, "task", "pick up", 0)
    taken(intake)
    intake.reset()
    refused(intake, 1, "scene", "missing")
    good(intake, -9)  # older than what was used before: there is no before
    assert taken(intake).inputs["task"].value[0] == 4
    assert counts(intake, "scene").received == 2


def test_after_a_clock_jump_back_what_is_stamped_later_is_forgotten_but_the_instruction_is_not():
    """A simulation that restarts its clock sends nothing but `old` stamps, and its latched task just once."""
    intake = make()
    good(intake, 0)
    offer(intake, "task", "pick up", 0)
    taken(intake)
    intake.clear_after(NOW - 5000 * MS)
    refused(intake, -4990, "scene", "missing")
    good(intake, -4980)
    seen = taken(intake, -4980)
    assert seen.inputs["joints"].value[0] == -4980 and seen.inputs["task"].value[0] == 7
    assert counts(intake, "joints").out_of_order == 0


def test_a_clock_jump_back_keeps_what_is_stamped_before_it():
    """A small correction of the clock need not cost a decision."""
    intake = make(joints=Align("asof"))
    for at in (-20, -10, 0):
        good(intake, at)
    intake.clear_after(NOW - 10 * MS)
    offer(intake, "scene", 1.0, -10)
    assert taken(intake, -10).inputs["joints"].value[0] == -10


def test_status_tells_rate_age_and_payload():
    """The chunk and the diagnostics publish these figures."""
    intake = make()
    assert intake.status(NOW)[0].rate_hz is None and intake.status(NOW)[0].age_ns is None
    for at in range(-300, 1, 20):
        good(intake, at)
    taken(intake)
    scene = intake.status(NOW + 30 * MS)[0]
    assert scene.rate_hz == pytest.approx(50) and scene.age_ns == 30 * MS
    assert scene.stamp_ns == scene.last_receive_ns == NOW
    assert scene.crc == zlib.crc32(np.full(SIZE, 1e6, np.float32))


@given(st.data())
def test_every_message_is_accounted_for_and_time_never_runs_backwards(data):
    """A count that leaks would hide lost pictures."""
    intake = make(check_frozen=False, joints=Align(data.draw(st.sampled_from(["hold", "asof"]))))
    now, last = 0, None
    for _ in range(data.draw(st.integers(1, 12))):
        for _ in range(data.draw(st.integers(0, 5))):
            raw = data.draw(st.sampled_from([0.0, 1.0, np.nan, DecodeError("bad")]))
            offer(intake, "joints", raw, now + data.draw(st.sampled_from([-30, -10, -1, 0, 1, 20, 1500])))
        offer(intake, "scene", 1.0, now)
        found = take(intake, now)
        if isinstance(found, Observation):
            stamp = found.inputs["joints"].stamp_ns
            assert last is None or stamp >= last
            assert now * MS + NOW - stamp <= 50 * MS
            last = stamp
        now += data.draw(st.integers(1, 40))
    intake.reset()
    c = counts(intake, "joints")
    assert c.received == c.used + c.replaced + c.out_of_order + c.future + c.decode_errors + c.nonfinite


def test_messages_may_come_on_another_thread_while_observations_are_taken():
    """Callbacks and the worker share nothing but the intake; no message may be lost or counted twice between them."""
    intake, total = make(), 2000
    good(intake, 0)
    taken(intake)

    def publish() -> None:
        for i in range(total):
            offer(intake, "joints", i, i / 1000)

    publisher = threading.Thread(target=publish)
    publisher.start()
    values = [taken(intake, 1).inputs["joints"].value[0] for _ in range(200)]
    publisher.join()
    assert values == sorted(values)
    assert taken(intake, 2).inputs["joints"].value[0] == total - 1
    c = counts(intake, "joints")
    assert c.received == total + 1 == c.used + c.replaced
