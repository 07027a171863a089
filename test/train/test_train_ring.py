"""What is drawn from the ring: each record with the one whose vision it acts on."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.train.record import PERIOD_S, RECORD
from flashrt_ros.train.ring import Ring

CPU = torch.device("cpu")
HISTORY = st.tuples(  # worlds, rounds kept, and per round: in which worlds an episode begins
    st.integers(1, 3), st.integers(1, 9), st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=20))


def filled(worlds: int, rounds: int, begins: list) -> Ring:
    """Every record's joints say where it stands: world, round, the first round of its episode; its frame_age is unique."""
    ring, first = Ring(worlds, rounds, CPU), [0] * worlds
    for moment, now in enumerate(begins):
        records = np.zeros(worlds, RECORD)
        for world in range(worlds):
            begun = moment == 0 or now[world]
            first[world] = moment if begun else first[world]
            records["first"][world], records["joints"][world, :3] = begun, (world, moment, first[world])
            records["frame_age"][world] = 0.01 + 1e-5 * (moment * worlds + world)
        ring.add(records)
    return ring


def draw(ring: Ring, staleness: int, batch: int = 64, seed: int = 0, fresh_share: float = 0.4) -> dict[str, np.ndarray]:
    """A batch; `now` and `then`: (world, round, first round of the episode) of the records and of those seen."""
    drawn = ring.draw(batch, staleness, fresh_share, torch.Generator().manual_seed(seed))
    out = {name: value.numpy() for name, value in drawn.items()}
    return out | {"now": out["joints"][:, :3].astype(int), "then": out["seen_joints"][:, :3].astype(int)}


@given(HISTORY, st.integers(0, 8), st.integers(0, 99))
def test_vision_is_of_the_same_episode_and_no_older_than_it_may_be(history, staleness, seed):
    """A picture from before a reset shows another table: it would teach to ignore pictures. Also when the ring has turned
    over an episode's start."""
    worlds, rounds, begins = history
    drawn = draw(filled(worlds, rounds, begins), staleness, seed=seed)
    now, then = drawn["now"], drawn["then"]
    lag = now[:, 1] - then[:, 1]
    assert (now[:, [0, 2]] == then[:, [0, 2]]).all()  # the same world, the same episode
    assert (lag >= 0).all() and (lag <= staleness).all()
    assert (then[:, 1] >= max(0, len(begins) - rounds)).all()  # what has been overwritten is not drawn
    frame_age = 0.01 + 1e-5 * (then[:, 1] * worlds + then[:, 0])
    np.testing.assert_allclose(drawn["age"], (lag * PERIOD_S + frame_age)[:, None], rtol=0, atol=1e-6)


@given(HISTORY)
def test_without_staleness_every_record_sees_itself(history):
    """The ablation."""
    drawn = draw(filled(*history), staleness=0)
    assert (drawn["now"] == drawn["then"]).all() and (drawn["age"] < PERIOD_S).all()


def test_all_that_is_kept_is_drawn():
    """A ring that has turned twice: its last rounds, all of them, and nothing else."""
    ring = filled(2, 5, [[False] * 3] * 12)
    drawn = draw(ring, staleness=3, batch=400)
    assert {tuple(row) for row in drawn["now"][:, :2]} == {(world, moment) for world in range(2) for moment in range(7, 12)}
    assert len(ring) == 10 and len(filled(2, 5, [[False] * 3] * 3)) == 6


def test_so_many_are_fresh_and_the_others_lag_evenly():
    """Among those whose episode is old enough for any lag."""
    ring = filled(1, 400, [[False] * 3] * 400)
    drawn = [draw(ring, staleness=8, batch=500, seed=seed) for seed in range(30)]
    now, then = (np.concatenate([each[name] for each in drawn]) for name in ("now", "then"))
    lag = (now - then)[now[:, 1] >= 8, 1]
    share = np.bincount(lag, minlength=9) / len(lag)
    assert abs(share[0] - 0.4) < 0.02 and np.abs(share[1:] - 0.6 / 8).max() < 0.01


def test_draws_repeat_with_their_generator():
    ring = filled(2, 9, [[False] * 3] * 9)
    first, again, other = (draw(ring, 8, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["now"], other["now"])


def test_a_round_is_copied():
    """The worlds write the next one into the same shared memory while the device learns from this one; of a single world
    too, whose column is contiguous as it stands."""
    records = np.zeros(1, RECORD)
    ring = Ring(1, 4, CPU)
    seen = ring.add(records)
    records["joints"], records["frames"], records["label"] = 1, 1, 1
    assert not seen["joints"].any() and not seen["frames"].any() and not ring.labels().any()


def test_labels_are_offsets_from_the_joints():
    """Their spread is the scale of what the network puts out."""
    ring, records = Ring(2, 4, CPU), np.zeros(2, RECORD)
    records["joints"], records["label"] = 0.5, 2.0
    ring.add(records)
    assert ring.labels().shape == (2, 32, 7) and (ring.labels() == 1.5).all()
