"""What a drill concludes from a record: whoever reads its exit status relies on each of these."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from flashrt_ros.bench.windows import Window
from flashrt_ros.player.limits import Limits
from flashrt_ros.policies.tabletop_arm import HOME, JOINTS, LOWER, MAX_ACCELERATION, MAX_VELOCITY, UPPER
from flashrt_ros.ros.drill import drill
from flashrt_ros.ros.drill_trial import DrillError, Trial, table

MS = 1_000_000
LIMITS = Limits(JOINTS, LOWER, UPPER, MAX_VELOCITY, MAX_ACCELERATION)
KILL_MS, RESTART_MS = 1000, 2000


def swing(start_ms, start=HOME, speed=0.4):
    """A window that begins at `start`, moves the first joint and brakes within the limits."""
    velocity = np.array([speed, 0, 0, 0, 0, 0, 0])
    positions, velocities = LIMITS.stop_profile(start, velocity, 0.02)
    times = (start_ms + 20 * np.arange(len(positions) + 1)) * MS
    return Window((start_ms + 10) * MS, times, np.vstack([start, positions]), np.vstack([velocity, velocities]))


def trial(victim="player", rest_ms=1200, motion_ms=2500, windows=None, missed=0):
    """Killed while the first joint moves; the measured arm follows the first window and then stands."""
    windows = windows or [swing(KILL_MS - 20), swing(2400, start=swing(KILL_MS).positions[-1])]
    measured = [(ms * MS, windows[0].at(np.array([ms * MS]))[0][0], np.zeros(7)) for ms in range(900, 2600, 10)]
    return Trial(victim, "pick up the red cube", KILL_MS * MS, rest_ms and rest_ms * MS, RESTART_MS * MS,
                 motion_ms and motion_ms * MS, motion_ms and 0.5, True, LIMITS, {"all": np.arange(7)}, {"all": windows}, measured, missed)


def shown(trials):
    console = Console(width=120, file=io.StringIO())
    console.print(table(trials))
    return console.file.getvalue()


def test_rest_and_motion_without_a_violation_pass():
    good = trial()
    row = good.figures()
    assert good.passed and row["violations"] == [] and row["windows"] == 2 and row["windows_after_kill"] == 1
    assert row["joint_at_kill"] == "shoulder_pan" and 0 < row["speed_at_kill"] < 0.2
    assert row["rest_s"] == pytest.approx(0.2)
    assert row["joint_rad"] == pytest.approx(0.004)  # what is left of the first window: 0.24 rad/s, 0.08, 0, in ticks of 20 ms
    reach = np.linalg.norm([0.24, 0.0])  # of the tool, from the axis of the first joint
    assert row["tool_m"] == pytest.approx(row["joint_rad"] * reach, rel=1e-3)
    json.dumps(row)
    assert "1 of 1 times" in shown([good])


@pytest.mark.parametrize("fault", [{"rest_ms": None}, {"motion_ms": None}])
def test_an_arm_that_does_not_rest_or_does_not_go_on_fails(fault):
    bad = trial(**fault)
    assert not bad.passed and "never" in shown([bad]) and "0 of 1 times" in shown([bad])


def test_a_command_outside_the_limits_fails_and_is_named():
    bad = trial("policy", windows=[swing(KILL_MS - 20), swing(2400, start=swing(KILL_MS).positions[-1], speed=2.5)])
    assert not bad.passed
    assert "policy, after the restart: shoulder_pan velocity 2.5, allowed 2" in shown([trial(), bad])


def test_a_new_player_must_begin_where_the_arm_is():
    """From the last command of the dead one would do only while the arm has not been moved. Windows that nobody saw may have
    moved it: then the first one seen proves nothing."""
    elsewhere = [swing(KILL_MS - 20), swing(2400, start=HOME)]
    assert {violation["rule"] for violation in trial(windows=elsewhere).figures()["violations"]} == {"start"}
    assert trial(windows=elsewhere, missed=3).passed and "(+3 unseen)" in shown([trial(windows=elsewhere, missed=3)])
    # The policy's successor, in contrast, is played by the same player: its windows continue the ones before.
    assert "position_step" in {violation["rule"] for violation in trial("policy", windows=elsewhere).figures()["violations"]}


def test_only_known_victims_are_killed(tmp_path):
    with pytest.raises(DrillError, match="victim 'robot'; allowed: policy, camera, player"):
        drill(["robot"], 1, 0, None, tmp_path, None)
    with pytest.raises(DrillError, match="rounds is 0; it must be at least 1"):  # no turn at all would pass
        drill(["policy"], 0, 0, None, tmp_path, None)
