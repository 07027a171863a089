"""Episodes in processes: the same as in one, and an end that leaves nothing behind."""

import multiprocessing
import os

import pytest

from flashrt_ros.bench.jobs import BLACK, EXPERT, POLICY, EvaluationError, Job, Setting, plan
from flashrt_ros.bench.runner import Runner
from flashrt_ros.bench.workers import episodes
from flashrt_ros.resources import find

CONTRACT = find("config/color_servo.contract.yaml")
EVERY_4 = (("stages.vision.every", "4"),)


def settings(*conditions: str, overrides=()) -> list:
    return [(Setting("color_servo", overrides, condition), CONTRACT) for condition in conditions]


def test_processes_make_the_same_episodes_as_one():
    """Whoever ran which episode after which: else two machines, or one and two workers, would not agree."""
    jobs = plan([*settings(POLICY), *settings(POLICY, overrides=EVERY_4)], ["pick"], range(10_000, 10_002))
    environment = dict(os.environ)
    apart = {job: (result, digest) for job, result, digest in episodes(jobs, 2)}
    assert os.environ == environment and not multiprocessing.active_children()
    runner = Runner()
    together = {job: runner.run(job) for job in reversed(jobs)}
    runner.close()
    assert apart == together
    assert len({digest for _, digest in apart.values()}) == 2  # the override is part of the pipeline's identity


def test_a_runner_goes_back_to_an_earlier_setting():
    runner = Runner()
    blind, expert = (Job(setting, path, "pick", 10_001) for setting, path in settings(BLACK, EXPERT))
    first = runner.run(expert)
    assert first[0].success and not runner.run(blind)[0].success
    assert runner.run(expert) == first
    runner.close()


def test_a_setting_that_cannot_be_built_does_not_spoil_the_next():
    runner = Runner()
    (good, path), (bad, _) = settings(EXPERT)[0], settings(EXPERT, overrides=(("stages.vision.every", "0"),))[0]
    first = runner.run(Job(good, path, "pick", 10_001))
    with pytest.raises(Exception, match="stages.vision.every"):
        runner.run(Job(bad, path, "pick", 10_001))
    assert runner.run(Job(good, path, "pick", 10_001)) == first
    runner.close()


def test_failed_episodes_leave_a_strip_and_done_ones_take_theirs_away(tmp_path):
    """A folder that is used again must not show failures that are no more."""
    runner = Runner(tmp_path)
    blind, expert = (Job(setting, path, "pick", 10_001) for setting, path in settings(BLACK, EXPERT))
    done = tmp_path / "color_servo, expert" / "pick_10001.png"
    done.parent.mkdir()
    done.touch()
    result, _ = runner.run(blind)
    runner.run(expert)
    runner.close()
    assert result.cause == "never reached the cube"
    strip, = tmp_path.rglob("*.png")
    assert strip == tmp_path / "color_servo, black images" / "pick_10001.png" and strip.stat().st_size > 10_000


def test_leaving_early_ends_the_processes():
    """What Ctrl-C does: the exception goes through the loop over the results."""
    jobs = plan(settings(EXPERT), ["pick"], range(10_000, 10_020))
    with pytest.raises(KeyboardInterrupt):
        for _ in episodes(jobs, 2):
            assert len(multiprocessing.active_children()) == 2
            raise KeyboardInterrupt
    assert not multiprocessing.active_children()


def test_an_error_in_a_process_is_told_here():
    jobs = plan([(Setting("color_servo", device="abacus"), CONTRACT)], ["pick"], [10_000])
    with pytest.raises(EvaluationError, match="abacus"):
        list(episodes(jobs, 1))


def test_a_process_that_dies_is_told_and_not_waited_for():
    """Running out of memory is how such a run ends on a small machine; a pool that waits for ever would hide it."""
    jobs = plan(settings(EXPERT), ["pick"], range(10_000, 10_020))
    with pytest.raises(EvaluationError, match="status -9.*fewer --workers"):
        for _ in episodes(jobs, 1):
            for child in multiprocessing.active_children():
                child.kill()
    assert not multiprocessing.active_children()
