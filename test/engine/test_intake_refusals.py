"""The intake: every reason against an observation, and recovery from each when its cause is gone."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from intake_samples import MS, NOW, DecodeError, counts, good, make, offer, refused, take, taken

from flashrt_ros.contract.schema import Align
from flashrt_ros.engine.intake import Intake, IntakeError, Refusal
from flashrt_ros.engine.observation import Observation


def test_missing():
    """The detail names the topic, for a wrong remapping is the usual cause."""
    intake = make()
    offer(intake, "joints", 0, 0)
    refused(intake, 0, "scene", "missing", "no message has come on scene_camera/image_raw")
    good(intake, 1)
    taken(intake, 1)


def test_missing_when_every_sample_of_asof_lies_ahead():
    """Messages do come: the cause is the clock or the alignment, not the topic."""
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
    """Clocks of two machines and a decision that lags its grid differ by less."""
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


@pytest.mark.parametrize("forget", [Intake.reset, lambda intake: intake.clear_after(NOW - 1000 * MS)])
def test_after_a_reset_or_clock_jump_a_picture_seen_before_is_new(forget):
    """A simulation that restarts shows its first picture again; that is no frozen camera."""
    intake = make()
    run_frozen(intake)
    forget(intake)
    offer(intake, "scene", 5.0, 400)
    offer(intake, "joints", 0, 400)
    taken(intake, 400)


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
    """A subscription that the contract does not know is a programming error of the node."""
    with pytest.raises(IntakeError, match="'wrist' is not an input of this contract; its inputs are scene, joints"):
        make().offer("wrist", 1, 0, 0)


def test_every_input_is_judged_although_the_first_reason_is_returned():
    """The status must name all that is wrong, not one thing at a time."""
    intake = make()
    offer(intake, "joints", np.nan, 0)
    assert take(intake).input == "scene"
    assert [s.refusal for s in intake.status(NOW)] == ["missing", "nonfinite", None]
