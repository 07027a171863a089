"""Resets, restarts and second policies: who may move the arm, and that the arm is safe while that is in doubt."""

from player_scenes import HOME, MS, START_NS, Run, accepted, active_player, assert_limits, slide

from flashrt_ros.player.command import State
from flashrt_ros.player.sessions import Sessions
from flashrt_ros.player.verdict import Accepted, Reason

FAST = (1.5, 0.0, 0.0)


def playing(**order):
    run = Run(active_player())
    accepted(run.player.offer(slide(run.now_ns, speed=FAST, **order), run.now_ns))
    run.ticks(20)
    return run


def test_a_new_epoch_leaves_the_old_chunk_by_a_limited_stop_at_once():
    """A reset means that the plan is void; the arm does not play it out, and does not snap still either."""
    run = playing(epoch=1)
    run.player.epoch(1, 2, run.now_ns)
    assert run.player.state is State.STOPPING and run.player.cursor.session == 0
    last = run.ticks(12)  # from full speed
    assert last.state is State.HOLDING and run.player.counters["epoch"] == 1
    assert_limits(run.positions(), run.velocities())


def test_an_announcement_of_the_epoch_being_played_changes_nothing():
    """It is latched, so a player that starts late hears it after chunks of that epoch."""
    run = playing(epoch=1)
    run.player.epoch(1, 1, run.now_ns)
    run.player.epoch(1, 0, run.now_ns)
    assert run.ticks(1).state is State.PLAYING


def test_an_announcement_of_another_session_does_not_touch_this_one():
    """Another policy node's reset is its own affair; its announcement holds once it is followed."""
    run = playing(epoch=1)
    run.player.epoch(2, 9, run.now_ns)
    assert run.ticks(1).state is State.PLAYING
    run.ticks(60)
    old = run.player.offer(slide(run.now_ns, session=2, epoch=8), run.now_ns)
    assert old.reason is Reason.OLD_EPOCH
    accepted(run.player.offer(slide(run.now_ns, session=2, epoch=9), run.now_ns))


def test_a_restarted_policy_is_taken_up_once_the_old_one_has_been_silent():
    """Kill -9 and restart: the arm stops by itself, then goes on with the new session; no fault is made of it."""
    run = playing()
    states = set()
    verdicts = []
    for seq in range(8):  # the new one speaks every 100 ms, from 0.4 s after the old one's last chunk
        verdicts.append(run.player.offer(slide(run.now_ns, run.commands[-1].position, session=2, seq=seq), run.now_ns))
        run.ticks(5)
        states.add(run.commands[-1].state)
    assert [v.reason for v in verdicts[:2]] == [Reason.FOREIGN_SESSION] * 2
    assert all(isinstance(v, Accepted) for v in verdicts[2:])
    assert State.FAULT not in states and run.player.counters["session_changes"] == 1
    assert_limits(run.positions(), run.velocities())


def test_a_session_that_was_left_never_plays_again():
    """A chunk of the killed process that was stuck on the way, or a process that merely hung, is not obeyed later."""
    run = playing()
    run.ticks(40)
    accepted(run.player.offer(slide(run.now_ns, session=2), run.now_ns))
    run.ticks(60)  # now the second one is silent, too
    assert run.player.offer(slide(run.now_ns, session=1, epoch=9), run.now_ns).reason is Reason.OLD_SESSION
    run.ticks(30)
    accepted(run.player.offer(slide(run.now_ns, session=2, seq=1), run.now_ns))


def two_policies(run, count, first_seq=1):
    verdicts = []
    for i in range(count):
        for session in (1, 2):
            verdicts.append(run.player.offer(slide(run.now_ns, session=session, seq=first_seq + i), run.now_ns))
        run.ticks(5)
    return verdicts


def test_two_live_sessions_are_a_fault_that_holds_the_arm():
    """Two policies on one topic would drive the arm in turns; neither is right, so it stops and says so."""
    run = playing()
    verdicts = two_policies(run, 5)
    assert isinstance(verdicts[0], Accepted)  # the second had not spoken yet
    assert verdicts[1].reason is Reason.FOREIGN_SESSION
    assert {v.reason for v in verdicts[2:]} == {Reason.TWO_SESSIONS}
    last = run.commands[-1]
    assert last.state is State.FAULT and (last.velocity == 0).all()
    assert run.player.counters["conflict"] == 1  # once per fault, not once per chunk
    assert_limits(run.positions(), run.velocities())


def test_the_fault_ends_when_the_intruder_has_been_silent():
    """Recovery when the cause is gone, without anybody's reset: the policy that had the arm goes on."""
    run = playing()
    two_policies(run, 3)
    for seq in range(10, 14):  # 100 ms apart; at the end the intruder has been silent for just the expiry
        assert run.player.offer(slide(run.now_ns, seq=seq), run.now_ns).reason is Reason.TWO_SESSIONS
        run.ticks(5)
    accepted(run.player.offer(slide(run.now_ns, seq=20), run.now_ns + 1))
    assert run.player.state is State.PLAYING and run.ticks(1).state is State.PLAYING


def test_the_fault_ends_when_the_first_has_been_silent():
    """If it is the old policy that is stopped, the new one is a successor like any other."""
    run = playing()
    two_policies(run, 3)
    run.ticks(22)
    assert run.player.state is State.HOLDING  # silent both, for the expiry: nobody is in conflict
    accepted(run.player.offer(slide(run.now_ns, session=2, seq=20), run.now_ns))


def test_a_packet_older_than_the_expiry_keeps_nobody_alive():
    """Else a slow network could hold a dead session's claim to the arm."""
    run = playing()
    run.ticks(35)
    assert run.player.offer(slide(START_NS, seq=1), run.now_ns).reason is Reason.EXPIRED
    accepted(run.player.offer(slide(run.now_ns, session=2), run.now_ns))


def test_a_session_that_sends_only_nonsense_is_alive_all_the_same():
    """It is still a publisher on the topic: a second one beside it is a conflict, not a restart."""
    run = playing()
    for i in range(6):
        bad = slide(run.now_ns, position=HOME * float("nan"), seq=1 + i)
        assert run.player.offer(bad, run.now_ns).reason is Reason.NON_FINITE
        run.ticks(5)
    assert run.player.offer(slide(run.now_ns, session=2), run.now_ns).reason is Reason.FOREIGN_SESSION


def test_two_newcomers_beside_a_silent_session_are_a_conflict():
    """Neither may take the dead one's place by speaking first twice."""
    sessions = Sessions(expiry_ns=500 * MS)
    assert sessions.refusal((1, 0, 0, 0), 0) is None
    sessions.accept((1, 0, 0, 0))
    assert sessions.refusal((2, 0, 0, 0), 400 * MS) is Reason.FOREIGN_SESSION
    assert sessions.refusal((3, 0, 0, 0), 600 * MS) is Reason.TWO_SESSIONS
    assert sessions.in_conflict(600 * MS) and not sessions.in_conflict(901 * MS)
    assert sessions.refusal((3, 0, 1, 0), 901 * MS) is None


def test_refusals_say_what_they_were_judged_against():
    """`stale_order` alone does not help whoever looks for the duplicate publisher."""
    run = playing(epoch=3, seq=4)
    detail = run.player.offer(slide(run.now_ns, epoch=3, seq=4), run.now_ns).detail
    assert "(1, 3, 4, 0)" in detail and "session 1 is followed, newest (epoch, seq, attempt) (3, 4, 0)" in detail
