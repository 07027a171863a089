"""Sessions and epochs: what chunks are ordered by."""

import threading

from flashrt_ros.ros.session import Session, random_id


def test_every_rise_of_the_epoch_is_announced_once_in_order():
    heard = []
    session = Session(lambda *announcement: heard.append(announcement))
    assert [session.raise_epoch(reason) for reason in ("activate", "task", "reset")] == [1, 2, 3]
    assert heard == [(session.id, 1, "activate"), (session.id, 2, "task"), (session.id, 3, "reset")]


def test_a_chunk_begun_in_an_older_epoch_gets_no_number():
    """It was planned for a task that is no more (lerobot's reset_epoch)."""
    session = Session(lambda *_: None)
    begun = session.raise_epoch("activate")
    assert session.stamp(begun) == 1
    session.raise_epoch("task")
    assert session.stamp(begun) is None and session.seq == 1
    assert session.stamp(session.epoch) == 2


def test_numbers_are_never_given_twice_to_racing_threads():
    session = Session(lambda *_: None)
    epoch = session.raise_epoch("activate")
    given = []
    threads = [threading.Thread(target=lambda: given.extend(session.stamp(epoch) for _ in range(500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(given) == list(range(1, 2001))


def test_ids_are_not_zero_and_differ():
    """0 means that there is no session; equal ids would let a restarted policy pass for the old one."""
    ids = {random_id() for _ in range(1000)}
    assert len(ids) == 1000 and 0 not in ids and max(ids) < 2**53
