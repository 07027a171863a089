"""Rates, ages and times: a contract that would let the arm act on an old world, or that this machine can't keep up
with, is refused before anything runs."""

from dataclasses import replace

import pytest

from contract_cases import TEXT, Case, assert_says, line_of, refused
from contract_specs import SERVO
from flashrt_ros.contract.load import loads
from flashrt_ros.contract.verify import verify

RULES = {
    "deadline above the period": Case(
        "deadline_ms: 80", "  deadline_ms: 120 #!",
        "decision.deadline_ms: value 120 ms: at most the period, 100 ms at 10 Hz"),
    "commit after the next launch": Case(
        "commit_after: 1", "      commit_after: 3 #!",
        "stages.vision.overlap.commit_after: value 3: at most every = 2"),
    "held stage without an age bound": Case(
        "max_age_ms: 600", "",
        "stages.vision.max_age_ms: value (absent): a path from scene to the action has no age "
        "bound here ... at least 350", at="  vision:"),
    "path held by another's change": Case(
        "  fuse: {}", "  fuse: {on_change: [task]} #!",
        "stages.fuse.max_age_ms: value (absent): a path from scene, wrist to the action ... list the buffer in "
        "on_change"),
    "worst case above the bound": Case(
        "max_age_ms: 600", "    max_age_ms: 349 #!",
        "stages.vision.max_age_ms: value 349 ms: the worst-case age is 350 ms: 'scene' 150 ms + 2 decisions of 100 "
        "ms"),
    "worst case of a chain": Case(
        "  fuse: {}", "  fuse: {every: 3, max_age_ms: 500} #!",
        "stages.fuse.max_age_ms: value 500 ms: the worst-case age is 550 ms: 'vision_tokens' 350 ms + 2 decisions"),
    "bound below what only it refreshes": Case(
        "    every: 2", "    on_change: [scene]\n    max_age_ms: 149 #!",
        "stages.vision.max_age_ms: value 149 ms: the worst-case age is 150 ms: 'scene' 150 ms + 0 "
        "decisions", until="  fuse:"),
    "schedule too long": Case(
        "  vision: ", "  vision: {every: 997, max_age_ms: 200000}\n  fuse: {every: 991, max_age_ms: 400000}",
        "stages: value vision 997, fuse 991 ... repeats after 988027 decisions", at="stages:", until="  action:"),
}
UNTRAINED = replace(SERVO, trained_stale=False)
TIMES = {"vision": 95.0, "fuse": 5.0, "action": 20.0}


@pytest.mark.parametrize("case", RULES.values(), ids=RULES)
def test_rates_that_break_a_rule_are_refused(case):
    """What the refresh rules get wrong together: no bound, a bound below the worst case, launches before landings."""
    case.check()


def test_bound_that_age_alone_can_not_keep_is_refused():
    """on_change: [scene] leaves the wrist to max_age_ms, but a wrist image may be older than that from the start."""
    text = TEXT.replace("    max_age_ms: 150\n", "    max_age_ms: 250\n")
    begin, end = text.index("    every: 2"), text.index("  fuse: {}")
    error = refused(text[:begin] + "    on_change: [scene]\n    max_age_ms: 249\n" + text[end:])
    assert_says(error, "vision.max_age_ms: value 249 ms: the worst-case age is 250 ms: 'wrist' 250 ms + 0 decisions")


def test_age_bound_of_what_never_ages_is_refused():
    """It could never take effect, so it was meant for another stage."""
    vision, fuse, action = SERVO.stages
    fuse, action = replace(fuse, reads=("task",)), replace(action, reads=("belief", "joints", "vision_tokens"))
    spec = replace(SERVO, stages=(vision, fuse, action))
    text = TEXT.replace("  fuse: {}", "  fuse: {max_age_ms: 500}")
    assert_says(refused(text, spec), "stages.fuse.max_age_ms: value 500 ms: nothing that the stage reads ages")


def test_slower_stage_is_refused_unless_the_policy_was_trained_for_it():
    """Acting on old vision cost pi0.5 half of its successes; so below 1:1 is opted into, and then published."""
    error = refused(TEXT, UNTRAINED)
    assert error.line == line_of(TEXT, "    every: 2")
    assert_says(error, "stages.vision.every: value 2 ... was not trained to act on stages older ... allow_stale: true")
    allowed = verify(loads(TEXT.replace("precision: fp32", "allow_stale: true")), UNTRAINED)
    assert len(allowed.warnings) == 1 and "runs vision below 1:1" in allowed.warnings[0]
    assert verify(loads(TEXT), SERVO).warnings == ()


def test_overlap_alone_counts_as_below_one_to_one():
    """An overlapped stage at every decision shows the last decision's world: also older than the action."""
    text = TEXT.replace("    every: 2 ", "    every: 1 ")
    assert_says(refused(text, UNTRAINED), "stages.vision.overlap.commit_after: value 1 ... not trained")


def test_one_to_one_needs_no_training():
    """Stages that only follow their reads are as fresh as the action."""
    case = Case("  vision: ", "  vision: {}", "", until="  fuse:")
    assert verify(loads(case.text), UNTRAINED).warnings == ()


def test_action_that_sees_nothing_fresh_is_refused_below_one_to_one():
    """Its every chunk between two visions would be the same belief sampled anew, whatever it was trained for."""
    vision, fuse, action = SERVO.stages
    vision = replace(vision, reads=("scene", "wrist", "joints"))
    blind = replace(SERVO, stages=(vision, fuse, replace(action, reads=("belief",))))
    for text in (TEXT, TEXT.replace("precision: fp32", "allow_stale: true")):
        error = refused(text, blind)
        assert error.line == line_of(text, "    every: 2")
        assert_says(error, "stages.vision.every: value 2 ... action-only resamples the same belief")


def test_measured_times_above_the_deadline_are_refused():
    """The plan that doesn't fit is named with its parts: that is what there is to change."""
    error = refused(TEXT, stage_ms={"vision": 60.0, "fuse": 30.0, "action": 55.0})
    assert error.line == line_of(TEXT, "deadline_ms")
    assert_says(error, "decision.deadline_ms: value 80 ms: a plan takes 85 ms in the foreground (fuse 30 + action 55)")


def test_background_run_longer_than_its_commit_is_refused():
    """It would miss every commit."""
    error = refused(TEXT, stage_ms={**TIMES, "vision": 101.0})
    assert error.line == line_of(TEXT, "commit_after")
    assert_says(error, "overlap.commit_after: value 1: the stage takes 101 ms, 1 decisions last 100 ms")


def test_times_that_fit_pass_though_the_first_decision_overruns():
    """Vision, fuse and action together exceed 80 ms, but only the first decision runs all three."""
    verify(loads(TEXT), SERVO, TIMES)
    foreground = TEXT.replace("    overlap:\n      commit_after: 1  ", "    #")
    error = refused(foreground, stage_ms=TIMES)
    assert_says(error, "a plan takes 120 ms in the foreground (vision 95 + fuse 5 + action 20) ... overlap or split")


def test_stage_that_only_its_age_refreshes_must_fit_the_deadline():
    """It expires by plan, not by accident, and then runs in the foreground although it is overlapped."""
    text = Case("    every: 2", "    on_change: [scene]", "").text
    verify(loads(text), SERVO, {**TIMES, "vision": 20.0})
    assert_says(refused(text, stage_ms=TIMES), "vision 95 + fuse 5 + action 20")


@pytest.mark.parametrize(("stage_ms", "words"), [
    ({"vision": 1.0, "fuse": 1.0}, "stages.action: value (absent): no time was measured"),
    ({**TIMES, "fuze": 1.0}, "stages.fuze: value 1 ms ... did you mean 'fuse'?"),
])
def test_measured_times_that_do_not_match_the_stages_are_refused(stage_ms, words):
    """A forgotten stage would pass as one that takes no time."""
    assert_says(refused(TEXT, stage_ms=stage_ms), words)


def test_chunk_that_ends_before_the_next_can_come_is_warned_of():
    """The arm would stop between chunks: legal, hardly meant."""
    warnings = verify(loads(TEXT.replace("step_ms: 20", "step_ms: 5")), SERVO).warnings
    assert len(warnings) == 1 and "a chunk of 32 steps lasts 155 ms" in warnings[0]
