"""Splicing: which chunk is followed when a new one arrives. Laws over arbitrary chunks, for every strategy.

Chunks are aligned by the steps that were played. An estimate of the latency in their place has thrown real arms (one slow
warm-up inflates it for good), so stamps are drawn at random here and must not matter.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.chunk.chunk import Chunk, ChunkError
from flashrt_ros.chunk.sample import knot_velocities
from flashrt_ros.chunk.splice import STRATEGIES, Ensemble, Latest, Planned, Rtc, SpliceError, splice, strategy

MS = 1_000_000
NAMES = ("pan", "lift")
ALL = [Latest(), Ensemble(), Ensemble(decay=-0.5), Rtc()]
every_strategy = pytest.mark.parametrize("strategy", ALL, ids=["latest", "ensemble", "newest first", "rtc"])
seeds = st.integers(0, 2**32 - 1)
stamps = st.integers(-(2**40), 2**40)


def chunk(positions, seq=0, start_ns=0, step_ms=20, **fields) -> Chunk:
    return Chunk(NAMES, np.asarray(positions, dtype=float), start_ns, step_ms * MS, session=1, epoch=1, seq=seq, **fields)


def track(seed, steps) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).normal(0, 0.05, (steps, 2)), axis=0)


@every_strategy
@given(seed=seeds, steps=st.integers(1, 30), lag=st.integers(0, 40), consumed=st.floats(-5, 40), stamps=st.tuples(stamps, stamps),
       frozen=st.integers(0, 30), with_velocities=st.booleans())
def test_a_chunk_that_goes_on_as_planned_is_followed_as_it_is(strategy, seed, steps, lag, consumed, stamps, frozen, with_velocities):
    """A policy that agrees with itself must not be disturbed by how its chunks are joined, whatever their stamps say."""
    motion = track(seed, 70)
    velocities = knot_velocities(motion, 20 * MS)
    old = chunk(motion[:steps + 10], 0, stamps[0], velocities=velocities[:steps + 10])
    new = chunk(motion[lag:lag + steps], 1, stamps[1], velocities=velocities[lag:lag + steps] if with_velocities else None,
                frozen_prefix=min(frozen, steps))
    got = splice([Planned(old, lag + consumed)], new, consumed, strategy)
    np.testing.assert_allclose(got.positions, new.positions, atol=1e-7)  # consumed counts in floats: to the nearest ns
    if with_velocities:
        np.testing.assert_allclose(got.velocities, new.velocities, atol=1e-5)
    else:
        assert got.velocities is None
    assert (got.order, got.start_ns, got.step_ns, got.base, got.names) == (new.order, new.start_ns, new.step_ns, new.base, new.names)


@every_strategy
@given(seed=seeds, steps=st.integers(1, 20), old_steps=st.lists(st.integers(1, 20), max_size=4), consumed=st.floats(-5, 25),
       at=st.lists(st.floats(-10, 30), min_size=4, max_size=4))
def test_nothing_is_said_that_no_chunk_said(strategy, seed, steps, old_steps, consumed, at):
    """Every row lies between the predictions for its moment, and is the new chunk's to the bit where no other reaches: an
    extrapolated step is one that no policy ever meant."""
    planned = [Planned(chunk(track(seed + i, h), i), step) for i, (h, step) in enumerate(zip(old_steps, at))]
    new = chunk(track(seed + 9, steps), 9)
    got = splice(planned, new, consumed, strategy)
    for row in range(steps):
        said = [new.positions[row]]
        for old, step in planned:
            where = step + row - consumed
            if -1e-6 <= where <= old.horizon - 1 + 1e-6:  # to the nearest ns
                low = min(int(max(where, 0)), max(old.horizon - 2, 0))
                said += [old.positions[low], old.positions[min(low + 1, old.horizon - 1)]]
        assert (got.positions[row] >= np.min(said, axis=0) - 1e-6).all()
        assert (got.positions[row] <= np.max(said, axis=0) + 1e-6).all()
        if len(said) == 1:
            assert np.array_equal(got.positions[row], new.positions[row])


@every_strategy
def test_without_earlier_chunks_the_new_one_is_followed(strategy):
    """The first chunk; also all that lies outside of the new one in time."""
    new = chunk(track(1, 10), 5)
    gone, ahead = Planned(chunk(track(2, 4), 3), 20.0), Planned(chunk(track(3, 4), 4), -30.0)
    for planned in ([], [gone, ahead]):
        assert np.array_equal(splice(planned, new, 2.5, strategy).positions, new.positions)


@given(seed=seeds, decay=st.floats(-100, 100), count=st.integers(1, 8), consumed=st.floats(0, 5))
def test_the_mean_of_equal_predictions_is_that_prediction(seed, decay, count, consumed):
    """To the bit where rows meet steps: an average of n equal numbers that drifts would move an arm that should rest."""
    new = chunk(np.tile(track(seed, 1), (12, 1)), count)
    planned = [Planned(replace(new, seq=i), consumed + count - i) for i in range(count)]
    assert np.array_equal(splice(planned, new, consumed, Ensemble(decay)).positions, new.positions)


def test_the_mean_weighs_the_oldest_most_as_act_does():
    """exp(-m i), i = 0 for the oldest (arXiv 2304.13705, algorithm 2), on numbers that can be checked by hand."""
    said = [0.0, 1.0, 10.0]
    *planned, new = (chunk(np.full((8, 2), value), seq) for seq, value in enumerate(said))
    for decay in (0.01, 0.5, 0.0, -0.5):
        w = np.exp(-decay * np.arange(3))
        got = splice([Planned(old, 1.0) for old in planned], new, 1.0, Ensemble(decay))
        np.testing.assert_allclose(got.positions[:4], np.dot(w / w.sum(), said), atol=1e-12)


def test_an_earlier_chunk_fades_out_before_it_ends():
    """Where it ends the mean must not jump: the arm would be struck each time that a decision is late."""
    ending, new = chunk(np.zeros((9, 2)), 0, velocities=np.zeros((9, 2))), chunk(np.ones((20, 2)), 1, velocities=np.zeros((20, 2)))
    got = splice([Planned(ending, 0.0)], new, 0.0, Ensemble(decay=0.0))
    share = np.array([1, 1, 1, 1, 1, 27 / 32, 1 / 2, 5 / 32, *np.zeros(12)])  # over the last half of 8 steps
    np.testing.assert_allclose(got.positions[:, 0], 1 / (1 + share))
    np.testing.assert_allclose(got.velocities[:, 0], np.gradient(got.positions[:, 0], 0.02) * (share > 0), atol=1e-9)


@given(seeds, st.integers(1, 9), st.floats(-100, 100))
def test_weights_add_up_to_one_and_fall_from_one_end_to_the_other(seed, predictions, decay):
    """A sum beside 1 would scale the arm's pose."""
    shares = np.random.default_rng(seed).choice([0.0, 0.3, 1.0], (predictions, 6))
    w = Ensemble(decay).weights(shares)
    np.testing.assert_allclose(w.sum(axis=0), (w.max(axis=0) > 0).astype(float), atol=1e-12)
    assert (w[shares == 0] == 0).all() and (w >= 0).all()
    for h in range(6):
        order = np.diff(w[shares[:, h] == 1, h])
        assert (order <= 1e-15).all() if decay >= 0 else (order >= -1e-15).all()


@given(speed=st.floats(-1, 1), steps_ms=st.tuples(st.integers(5, 90), st.integers(5, 90)), consumed_ms=st.floats(0, 200),
       lag_ms=st.floats(0, 200), stamps=st.tuples(stamps, stamps))
def test_chunks_of_different_step_meet_in_time(speed, steps_ms, consumed_ms, lag_ms, stamps):
    """Two samplings of one motion average to that motion, between steps as well: a step of 30 ms is not one of 20 ms."""
    old_ms, new_ms = steps_ms
    old = chunk(np.outer(np.arange(60) * old_ms * 1e-3, [speed, -speed]), 0, stamps[0], old_ms)
    new = chunk(np.outer((lag_ms + np.arange(60) * new_ms) * 1e-3, [speed, -speed]), 1, stamps[1], new_ms)
    got = splice([Planned(old, (lag_ms + consumed_ms) / old_ms)], new, consumed_ms / new_ms, Ensemble())
    np.testing.assert_allclose(got.positions, new.positions, atol=1e-8)


def test_the_new_chunk_is_entered_where_it_is_not_at_its_start():
    """Two rows consumed and the old chunk at its row 5: row 2 of the new is averaged with row 5 of the old."""
    fading = lambda step: (lambda left: left**2 * (3 - 2 * left))(np.clip((7 - step) / 3.5, 0, 1))  # noqa: E731
    old, new = chunk(np.outer(np.arange(8), [1, 1]), 0), chunk(np.zeros((8, 2)), 1)
    got = splice([Planned(old, 5.0)], new, 2.0, Ensemble(decay=0.0)).positions[:, 0]
    np.testing.assert_allclose(got[:5], np.array([3, 4, 5, 6, 7]) * [s / (1 + s) for s in fading(np.arange(3, 8))])
    got = splice([Planned(old, 2.0)], new, -1.0, Ensemble(decay=0.0)).positions[:, 0]  # its start lies a step ahead
    np.testing.assert_allclose(got[0], 3 / 2)
    assert (got[5:] == 0).all()


@pytest.mark.parametrize("strategy", [Ensemble(), Rtc()], ids=["ensemble", "rtc"])
def test_joints_are_matched_by_name(strategy):
    """Two paths of one program that order joints differently have slammed an arm into a table."""
    motion = track(4, 12)
    old = chunk(motion, 0)
    swapped = Chunk(NAMES[::-1], motion[:, ::-1], 0, 20 * MS, session=1, epoch=1)
    new = chunk(track(5, 12) * 0.01 + motion, 1, frozen_prefix=6)
    a, b = (splice([Planned(each, 0.0)], new, 0.0, strategy) for each in (old, swapped))
    assert np.array_equal(a.positions, b.positions) and a.frozen_prefix == b.frozen_prefix


@pytest.mark.parametrize("strategy", [Ensemble(), Rtc()], ids=["ensemble", "rtc"])
def test_other_joints_within_an_epoch_are_an_error(strategy):
    other = Chunk(("pan", "grip"), np.zeros((4, 2)), 0, 20 * MS, session=1, epoch=1)
    with pytest.raises(ChunkError, match=r"\(1, 1, 1, 0\) has the joints pan, lift, chunk \(1, 1, 0, 0\) before it pan, grip"):
        splice([Planned(other, 0.0)], chunk(np.zeros((4, 2)), 1), 0.0, strategy)


@pytest.mark.parametrize("change", [{"session": 2}, {"epoch": 0}, {"epoch": 2}, {"seq": 5}, {"seq": 6}])
def test_what_must_not_be_played_any_longer_takes_no_part(change):
    """Another session's or epoch's plan was left for a reason, and the first attempt of a repeated decision was taken back."""
    old = replace(chunk(np.ones((4, 2)), 4), **change)
    new = chunk(np.zeros((4, 2)), 5, frozen_prefix=2)
    new = replace(new, attempt=1)
    assert (splice([Planned(old, 0.0)], new, 0.0, Ensemble()).positions == 0).all()
    assert splice([Planned(replace(old, positions=np.zeros((4, 2))), 0.0)], new, 0.0, Rtc()).frozen_prefix == 0


def test_of_a_repeated_decision_the_last_attempt_counts_and_of_many_the_newest():
    """In whatever order they are remembered."""
    first, second = chunk(np.ones((4, 2)), 1), chunk(np.full((4, 2), 3.0), 1, attempt=2)
    new = chunk(np.zeros((4, 2)), 2)
    for planned in ([first, second], [second, first]):
        got = splice([Planned(old, 0.0) for old in planned], new, 0.0, Ensemble(decay=0.0))
        np.testing.assert_allclose(got.positions[:2], 1.5)
    oldest = chunk(np.full((4, 2), 99.0), 0)
    assert (splice([Planned(second, 0.0), Planned(oldest, 0.0)], new, 0.0, Ensemble(0.0, memory=1)).positions[:2] == 1.5).all()


def test_latest_is_the_new_chunk_itself():
    new = chunk(np.zeros((4, 2)), 1)
    assert splice([Planned(chunk(np.ones((4, 2))), 0.0)], new, 1.0, Latest()) is new


@pytest.mark.parametrize(("off", "consumed", "frozen", "kept"), [
    ({}, 0, 6, True),
    ({3: 0.019}, 0, 6, True),
    ({3: 0.021}, 0, 6, False),
    ({3: np.nan}, 0, 6, False),
    ({3: 0.5}, 0, 3, True),  # not said to be frozen
    ({2: 0.5}, 3.5, 6, True),  # played already: what was planned then is no longer
    ({3: 0.5}, 3.5, 6, False),  # the row that the present lies behind
    ({5: 0.5}, 6, 6, True),  # nothing of it is left
    ({}, 0, 9, False),  # steps for which there was no plan
])
def test_a_frozen_prefix_is_believed_if_it_is_what_was_planned(off, consumed, frozen, kept):
    """The player does not fade over it, so a policy that continued another chunk than the one played must be found out."""
    motion = track(6, 11)  # the plan: 8 rows of it lie in the new chunk
    positions = motion[3:].copy()
    for row, by in off.items():
        positions[row, 1] += by
    new = chunk([*positions, positions[-1]], 1, frozen_prefix=frozen)
    got = splice([Planned(chunk(motion), 3.0 + consumed)], new, consumed, Rtc())
    assert got.frozen_prefix == (frozen if kept else 0) and np.array_equal(got.positions, new.positions, equal_nan=True)
    if frozen and consumed < frozen:
        assert splice([], new, consumed, Rtc()).frozen_prefix == 0
    assert splice([Planned(chunk(motion), 3.0 + consumed)], new, consumed, Latest()).frozen_prefix == 0
    assert splice([Planned(chunk(motion), 3.0 + consumed)], new, consumed, Ensemble()).frozen_prefix == 0


def test_strategies_have_names():
    assert strategy("ensemble", decay=0.5) == Ensemble(0.5) and [strategy(name) for name in STRATEGIES] == [
        Latest(), Ensemble(0.01), Rtc()]


@pytest.mark.parametrize(("make", "said"), [
    (lambda: strategy("average"), "'average' is unknown; allowed: latest, ensemble, rtc"),
    (lambda: Ensemble(np.nan), "decay is nan; allowed: -100 to 100"),
    (lambda: Ensemble(101.0), "decay is 101.0"),
    (lambda: Ensemble(memory=0), "memory is 0; it must be at least 1"),
    (lambda: Rtc(-0.1), "tolerance is -0.1; it must be 0 or more"),
    (lambda: Rtc(np.inf), "tolerance is inf"),
])
def test_what_makes_no_sense_is_told_when_a_strategy_is_made(make, said):
    """Not when the second chunk comes and the arm moves already."""
    with pytest.raises(SpliceError, match=said):
        make()
