"""The intake: which message a decision takes, and every reason against an observation, with recovery from each."""

from __future__ import annotations

import threading
import zlib

import numpy as np
import pytest
from dag_policy import SIZE, make_pipeline
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.contract.pipeline import Stage
from flashrt_ros.contract.schema import Align, Channel, Image, Input
from flashrt_ros.engine.intake import REASONS, Intake, IntakeError, Refusal
from flashrt_ros.engine.observation import Observation
from flashrt_ros.engine.slot import RING
from flashrt_ros.errors import FlashRTError

MS = 1_000_000
NOW = 10_000 * MS


class DecodeError(FlashRTError):
    pass


def decode(name: str, raw: object) -> np.ndarray:
    """raw: an array, a text (its length is its encoding), or an error to raise."""
    if isinstance(raw, Exception):
        raise raw
    if isinstance(raw, str):
        return np.full(SIZE, len(raw), np.float32)
    return np.broadcast_to(np.asarray(raw, np.float32), SIZE).copy()


def make(check_frozen: bool = True, scene: Align = Align(), joints: Align = Align()) -> Intake:
    camera = Channel("scene_camera/image_raw", "sensor_msgs/msg/Image")
    declared = (
        Input("scene", camera, image=Image((2, 2)), align=scene, max_age_ms=150),
        Input("joints", Channel("joint_states", "sensor_msgs/msg/JointState"), align=joints, max_age_ms=50),
        Input("task", Channel("task", "std_msgs/msg/String", "latched"), default="wait"),
    )
    action = Stage("action", ("scene", "joints", "task"), ("chunk",), every=1)
    pipeline = make_pipeline({"scene": False, "joints": False, "task": True}, [action], declared=declared)
    return Intake(pipeline, check_frozen)


def offer(intake: Intake, name: str, raw: object, at_ms: float) -> None:
    """A message stamped and received `at_ms` after NOW."""
    stamp = NOW + round(at_ms * MS)
    intake.offer(name, raw, stamp, stamp)


def good(intake: Intake, at_ms: float = 0.0) -> None:
    """A fresh picture, different each time, and fresh joints."""
    offer(intake, "scene", at_ms + 1e6, at_ms)
    offer(intake, "joints", at_ms, at_ms)


def take(intake: Intake, at_ms: float = 0.0, **kwargs) -> Observation | Refusal:
    return intake.take(round(at_ms), NOW + round(at_ms * MS), decode, **kwargs)


def counts(intake: Intake, name: str):
    return {s.name: s.counts for s in intake.status(NOW)}[name]


def refused(intake: Intake, at_ms: float, name: str, reason: str, *words: str) -> None:
    found = take(intake, at_ms)
    assert isinstance(found, Refusal) and (found.input, found.reason) == (name, reason)
    assert reason in REASONS and all(word in found.detail for word in words), found.detail
    assert {s.name: s.refusal for s in intake.status(NOW)}[name] == reason


def taken(intake: Intake, at_ms: float = 0.0) -> Observation:
    found = take(intake, at_ms)
    assert isinstance(found, Observation), found
    return found


# --- what is taken


def test_the_newest_message_of_every_input_is_taken():
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
    intake = make()
    good(intake, -20)
    for at in (-5, -15, -1, -10):
        offer(intake, "joints", at, at)
    assert taken(intake).inputs["joints"].value[0] == -1
    assert (counts(intake, "joints").out_of_order, counts(intake, "joints").replaced) == (2, 2)


# --- why an observation is refused, and recovery


def test_missing():
    intake = make()
    offer(intake, "joints", 0, 0)
    refused(intake, 0, "scene", "missing", "no message has come on scene_camera/image_raw")
    good(intake, 1)
    taken(intake, 1)


def test_missing_when_every_sample_of_asof_lies_ahead():
    intake = make(joints=Align("asof"))
    good(intake, 10)
    refused(intake, 0, "joints", "missing", "none of its 1 samples is stamped at or before now")
    taken(intake, 10)


def test_stale():
    """The bound itself is allowed; past it a stopped camera refuses every decision until it is back."""
    intake = make()
    good(intake, 0)
    taken(intake)
    offer(intake, "joints", 1, 150)
    taken(intake, 150)
    for at in (151, 152):
        refused(intake, at, "scene", "stale", f"{at}.0 ms", "max_age_ms is 150")
    assert counts(intake, "scene").stale == 2
    good(intake, 160)
    taken(intake, 160)


def test_stale_for_want_of_a_stamp_says_so():
    """A publisher that leaves header.stamp at zero is a common mistake."""
    intake = make()
    offer(intake, "scene", 1.0, 0)
    intake.offer("joints", 0, 0, NOW)
    refused(intake, 0, "joints", "stale", "its header has no stamp: set align.timeline to receive")


def test_future():
    """An unsynchronised clock would make every age negative, and so every picture fresh."""
    intake = make()
    good(intake, 0)
    offer(intake, "scene", 2.0, 1001)
    refused(intake, 0, "scene", "future", "more than 1 s ahead of now; check the clocks")
    assert counts(intake, "scene").future == 1
    good(intake, 1)
    taken(intake, 1)


def test_one_message_from_the_future_does_not_stop_an_input_that_is_fresh():
    intake = make()
    good(intake, 0)
    taken(intake)
    offer(intake, "scene", 2.0, 5000)
    offer(intake, "joints", 3, 10)
    assert taken(intake, 10).inputs["scene"].value[0] == 1e6
    assert counts(intake, "scene").future == 1
    good(intake, 20)
    assert taken(intake, 20).inputs["scene"].stamp_ns == NOW + 20 * MS


def test_a_second_ahead_is_still_allowed():
    intake = make()
    good(intake, 0)
    offer(intake, "scene", 2.0, 1000)
    taken(intake)


def run_frozen(intake: Intake) -> dict[int, str | None]:
    """The same picture at 20 Hz under advancing stamps: decision time in ms -> reason."""
    reasons = {}
    for at in range(0, 300, 50):
        offer(intake, "scene", 5.0, at)
        offer(intake, "joints", 5.0, at)
        found = take(intake, at)
        reasons[at] = found.reason if isinstance(found, Refusal) else None
    return reasons


def test_frozen():
    """A driver may repeat its last picture for ever under new stamps; joints at rest repeat too, rightly."""
    intake = make()
    reasons = run_frozen(intake)
    assert reasons == {0: None, 50: None, 100: None, 150: None, 200: "frozen", 250: "frozen"}
    assert counts(intake, "scene").frozen == 2
    good(intake, 300)
    taken(intake, 300)


def test_frozen_pictures_are_allowed_where_the_check_is_off():
    """A noiseless simulated camera repeats itself exactly while nothing moves."""
    assert set(run_frozen(make(check_frozen=False)).values()) == {None}


def test_frozen_is_judged_on_the_payload_where_one_is_given():
    """The raw message may differ where the small decoded picture does not."""
    intake = make()
    for at in range(0, 300, 50):
        offer(intake, "scene", 5.0, at)
        offer(intake, "joints", 0, at)
        seen = take(intake, at, payload=lambda name, raw, at=at: f"{name} {at}".encode())
        assert isinstance(seen, Observation)
    assert {s.name: s.crc for s in intake.status(NOW)}["scene"] == zlib.crc32(b"scene 250")


def test_tolerance():
    """Two cameras a frame apart show the policy a scene that never was."""
    intake = make(scene=Align(tolerance_ms=60))
    good(intake, 0)
    offer(intake, "joints", 1, 60)
    taken(intake, 60)
    offer(intake, "joints", 2, 61)
    refused(intake, 61, "scene", "tolerance", "61.0 ms behind the newest input's; tolerance_ms is 60")
    assert counts(intake, "scene").misaligned == 1
    offer(intake, "scene", 3.0, 62)
    taken(intake, 62)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nonfinite(bad):
    """One NaN in the state becomes a NaN in every joint command."""
    intake = make()
    good(intake, 0)
    offer(intake, "joints", [0, 1, bad, 3], 1)
    for at in (1, 2):
        refused(intake, at, "joints", "nonfinite", f"element 2 is {bad}")
    assert counts(intake, "joints").nonfinite == 1
    good(intake, 3)
    taken(intake, 3)


def test_decode():
    """The decoder's own sentence reaches the operator: an unknown task, a wrong encoding."""
    intake = make()
    good(intake, 0)
    offer(intake, "task", DecodeError("the task 'fly' is not one that this policy can follow"), 0)
    for at in (0, 1):
        refused(intake, at, "task", "decode", "the task 'fly' is not one")
    assert counts(intake, "task").decode_errors == 1
    offer(intake, "task", "pick", 2)
    assert taken(intake, 2).inputs["task"].value[0] == 4


def test_an_error_that_is_no_refusal_is_not_swallowed():
    """A bug in a decoder must not look like a bad message."""
    intake = make()
    offer(intake, "scene", KeyError("bug"), 0)
    with pytest.raises(KeyError):
        take(intake)


def test_an_unknown_input_is_named():
    with pytest.raises(IntakeError, match="'wrist' is not an input of this contract; its inputs are scene, joints, task"):
        make().offer("wrist", 1, 0, 0)


def test_every_input_is_judged_although_the_first_reason_is_returned():
    """The status must name all that is wrong, not one thing at a time."""
    intake = make()
    offer(intake, "joints", np.nan, 0)
    assert take(intake).input == "scene"
    assert [s.refusal for s in intake.status(NOW)] == ["missing", "nonfinite", None]


# --- reset and clock jumps


def test_reset_forgets_every_message_and_keeps_the_counts():
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
    intake = make(joints=Align("asof"))
    for at in (-20, -10, 0):
        good(intake, at)
    intake.clear_after(NOW - 10 * MS)
    offer(intake, "scene", 1.0, -10)
    assert taken(intake, -10).inputs["joints"].value[0] == -10


# --- status


def test_status_tells_rate_age_and_payload():
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
