"""The player's windows against the emulated joint_trajectory_controller with Jazzy's defaults: every one is accepted,
the arm moves as the player commands, and it comes to rest when the player dies."""

import numpy as np
import pytest
from player_scenes import HOME, JERK_LIMITS, LIMITS, MS, NAMES, START_NS, active_player, slide

from flashrt_ros.player.command import thinned
from flashrt_ros.sim.jtc import Accepted, JointTrajectoryController, JtcParameters, Trajectory, TrajectoryPoint

PERIOD_NS = 4 * MS  # the controller's 250 Hz


def message(window) -> Trajectory:
    start_ns = window[0].time_ns
    points = tuple(TrajectoryPoint(p.position, p.velocity, () if p.acceleration is None else p.acceleration, p.time_ns - start_ns)
                   for p in thinned(window))
    return Trajectory(NAMES, points, start_ns)


def execute(player, controller, policy, until_ms, dies_ms=None, latency_ms=lambda k: 1):
    """Positions [K, N] that a perfect arm was sent at 250 Hz, and the times in ms."""
    controller.hold(HOME)
    measured = HOME
    sent, arriving = [], []
    for ms in range(0, until_ms, 4):
        now_ns = START_NS + ms * MS
        if ms % 20 == 0 and ms > 0 and (dies_ms is None or ms < dies_ms):
            policy(player, ms)
            player.tick(now_ns, measured)
            arriving.append((now_ns + latency_ms(ms // 20) * MS, message(player.window(now_ns))))
        for due in [a for a in arriving if a[0] <= now_ns]:
            verdict = controller.receive(due[1], now_ns)
            assert isinstance(verdict, Accepted), verdict
            arriving.remove(due)
        measured = controller.update(now_ns, measured, (measured - sent[-1]) / 4e-3 if sent else np.zeros(3)).positions
        sent.append(measured)
    return np.array(sent), np.arange(0, until_ms, 4)


def assert_commands_within_limits(sent, jerk=None):
    """Of the commands at 250 Hz: what the motors are asked to do, whatever was planned."""
    speed = np.diff(sent, axis=0) / 4e-3
    assert (sent >= LIMITS.lower - 1e-9).all() and (sent <= LIMITS.upper + 1e-9).all()
    assert (np.abs(speed) <= LIMITS.velocity + 1e-6).all()
    assert (np.abs(np.diff(speed, axis=0)) / 4e-3 <= LIMITS.acceleration + 1e-6).all()
    if jerk is not None:
        assert (np.abs(np.diff(speed, n=2, axis=0)) / 4e-3**2 <= jerk * (1 + 1e-6) + 1e-3).all()


def lissajous(player, ms):
    """Every 100 ms a chunk, 60 ms old, along smooth curves."""
    if ms % 100 == 0:
        then_ms = ms - 60
        t = then_ms * 1e-3 + np.arange(40)[:, None] * 0.02
        base = slide(START_NS + then_ms * MS, session=1, seq=ms, steps=40)
        base.positions[:] = HOME + np.sin(t * [1.5, 1.1, 0.9]) * [0.6, 0.4, 0.015]
        player.offer(base, START_NS + ms * MS)


@pytest.mark.parametrize("limits", [LIMITS, JERK_LIMITS], ids=["cubic", "quintic"])
@pytest.mark.parametrize("from_desired", [False, True])
def test_every_window_is_accepted_and_the_motion_is_the_players(from_desired, limits):
    """A rejected window is an arm that stops for no reason that anybody sees; a distorted one is a jerk per message."""
    controller = JointTrajectoryController(NAMES, JtcParameters(interpolate_from_desired_state=from_desired))
    sent, at_ms = execute(active_player(limits=limits), controller, lissajous, 4000, latency_ms=lambda k: (k * 7) % 15)
    assert controller.accepted > 190 and controller.rejected == 0
    moving = at_ms > 1500
    # The command is for one controller period ahead.
    wanted = HOME + np.sin((at_ms[moving, None] + 4) * 1e-3 * [1.5, 1.1, 0.9]) * [0.6, 0.4, 0.015]
    assert np.abs(sent[moving] - wanted).max() < 2e-3
    assert_commands_within_limits(sent, limits.jerk)


@pytest.mark.parametrize("limits", [LIMITS, JERK_LIMITS], ids=["cubic", "quintic"])
def test_a_dead_player_means_an_arm_at_rest_within_limits(limits):
    """kill -9 in full motion: the last window brings the arm to rest, braking within its limits."""
    controller = JointTrajectoryController(NAMES)

    def fast(player, ms):
        if ms % 100 == 0:
            where = HOME + np.array([1.2, 0, 0]) * ms * 1e-3
            player.offer(slide(START_NS + ms * MS, where, (1.2, 0, 0), seq=ms), START_NS + ms * MS)

    sent, at_ms = execute(active_player(limits=limits, start_distance=1.0), controller, fast, 2000, dies_ms=901)
    speed = np.diff(sent, axis=0) / 4e-3
    assert np.abs(speed[at_ms[1:] < 900]).max() > 1.1  # it was in full motion
    assert (speed[at_ms[1:] > 1500] == 0).all()
    assert_commands_within_limits(sent, limits.jerk)


@pytest.mark.parametrize("lead_ms, smooth", [(20, True), (0, False)])
def test_a_change_of_plan_is_smooth_only_if_windows_lead(lead_ms, smooth):
    """A window arrives after the time that it begins at. Were its beginning already another motion than the window
    before had, the controller would jump between the two; that is what lead_ms is for, and what happens without it."""
    controller = JointTrajectoryController(NAMES)

    def startle(player, ms):
        if ms == 500:
            player.offer(slide(START_NS + ms * MS, HOME + [0.5, 0, 0], (0, 0, 0)), START_NS + ms * MS)
        if ms == 660:
            player.stop("operator")

    sent, _ = execute(active_player(lead_ms=lead_ms), controller, startle, 1200, latency_ms=lambda k: 10)
    if smooth:
        assert_commands_within_limits(sent)
    else:
        with pytest.raises(AssertionError):
            assert_commands_within_limits(sent)


def test_at_rest_windows_are_accepted_for_ever():
    """`Stay` must be a valid trajectory too, else the log fills with rejections whenever no policy runs."""
    controller = JointTrajectoryController(NAMES)
    sent, _ = execute(active_player(), controller, lambda player, ms: None, 2000)
    assert controller.rejected == 0 and np.abs(sent - HOME).max() < 1e-12


@pytest.mark.parametrize("pressed_ms", range(640, 681, 8))
def test_an_e_stop_is_smooth_though_its_window_comes_out_of_turn(pressed_ms):
    """Windows at every second tick, leading by as much, as the node sends them: the e-stop's goes with the next tick, and
    keeps only what the controller executes until then. Whenever the button is pressed, the motors feel a limited stop."""
    player, controller = active_player(lead_ms=40, start_distance=1.0), JointTrajectoryController(NAMES)
    controller.hold(HOME)
    sent, arriving, urgent = [], [], False
    for ms in range(0, 1200, 4):
        now_ns = START_NS + ms * MS
        if ms % 100 == 0 and ms < pressed_ms:
            player.offer(slide(now_ns, HOME + np.array([1.2, 0, 0]) * ms * 1e-3, (1.2, 0, 0), seq=ms), now_ns)
        if ms == pressed_ms:
            player.estop("button", now_ns)
            urgent = True
        if ms % 20 == 0 and ms > 0:
            player.tick(now_ns)
            if ms % 40 == 0 or urgent:
                arriving.append((now_ns + 10 * MS, message(player.window(now_ns))))
                urgent = False
        for due in [a for a in arriving if a[0] <= now_ns]:
            assert isinstance(controller.receive(due[1], now_ns), Accepted)
            arriving.remove(due)
        at = sent[-1] if sent else HOME
        sent.append(controller.update(now_ns, at, (at - sent[-2]) / 4e-3 if len(sent) > 1 else np.zeros(3)).positions)
    sent = np.array(sent)
    assert_commands_within_limits(sent)
    speed = np.diff(sent, axis=0)[:, 0] / 4e-3
    assert speed[pressed_ms // 4 - 2] > 1.1
    # Two ticks, one on the way to the next tick, and the braking: 1.2 rad/s at 10 rad/s^2.
    assert (speed[(pressed_ms + 60 + 120) // 4:] == 0).all()


@pytest.mark.parametrize("late_ms, smooth", [(10, True), (36, True), (60, False)])
def test_a_change_may_be_under_way_for_as_long_as_windows_agree(late_ms, smooth):
    """Windows at every second tick, and one with the tick of each change, as the node sends them: all of the two ticks for which
    it repeats the one before are left for its way. A loaded machine needs them; beyond them nothing helps."""
    player, controller = active_player(lead_ms=40, start_distance=1.0, expiry_ms=3000), JointTrajectoryController(NAMES)
    controller.hold(HOME)
    sent, arriving, revision = [], [], 0
    for ms in range(0, 1600, 4):
        now_ns = START_NS + ms * MS
        if ms % 100 == 0:  # by turns a chunk onwards and one that stays
            where = HOME if not sent else sent[-1]
            speed = (1.2, 0, 0) if ms // 300 % 2 == 0 else (0, 0, 0)
            player.offer(slide(now_ns, where, speed, seq=ms), now_ns)
        if ms % 20 == 0 and ms > 0:
            player.tick(now_ns)
            if ms % 40 == 0 or player.revision != revision:
                revision = player.revision
                arriving.append((now_ns + late_ms * MS, message(player.window(now_ns))))
        for due in [a for a in arriving if a[0] <= now_ns]:
            assert isinstance(controller.receive(due[1], now_ns), Accepted)
            arriving.remove(due)
        at = sent[-1] if sent else HOME
        sent.append(controller.update(now_ns, at, (at - sent[-2]) / 4e-3 if len(sent) > 1 else np.zeros(3)).positions)
    if smooth:
        assert_commands_within_limits(np.array(sent))
    else:
        with pytest.raises(AssertionError):
            assert_commands_within_limits(np.array(sent))


@pytest.mark.parametrize("limits", [LIMITS, JERK_LIMITS], ids=["cubic", "quintic"])
def test_what_a_controller_would_reckon_anyway_is_not_sent(limits):
    """Packing a point costs more than reckoning it. What is left out lies on the polynomial through what stays: a controller
    that gets the thinned window samples the same motion."""
    player = active_player(limits=limits, tick_ns=5 * MS, start_distance=1.0)
    player.offer(slide(START_NS, speed=(1.2, -0.2, 0.0)), START_NS)
    for k in range(1, 61):
        player.tick(START_NS + k * 5 * MS)
    window = player.window(START_NS + 300 * MS)
    few = thinned(window)
    assert len(few) < 0.8 * len(window) and (few[0], few[-1]) == (window[0], window[-1])
    assert len(thinned([point.of([2]) for point in window])) == 2  # the gripper rests
    controllers = [JointTrajectoryController(NAMES, JtcParameters()) for _ in range(2)]
    start_ns = window[0].time_ns
    for controller, points in zip(controllers, (window, few)):
        controller.hold(window[0].position)
        told = tuple(TrajectoryPoint(p.position, p.velocity, () if p.acceleration is None else p.acceleration, p.time_ns - start_ns)
                     for p in points)
        assert isinstance(controller.receive(Trajectory(NAMES, told, start_ns), start_ns), Accepted)
    for at_ns in range(start_ns, window[-1].time_ns, 2 * MS):
        whole, thin = (c.update(at_ns, window[0].position, np.zeros(3)).positions for c in controllers)
        np.testing.assert_allclose(thin, whole, atol=1e-9)


def test_short_windows_are_sent_as_they_are():
    window = active_player().window(START_NS)
    assert thinned(window) == window and thinned(window[:1]) == window[:1]
