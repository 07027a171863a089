"""Sampling a chunk: through its steps, smooth between them, explicit at its ends."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.chunk.chunk import Chunk
from flashrt_ros.chunk.sample import knot_velocities, sample

STEP_NS = 20_000_000
START_NS = 3_000_000_000


def chunk_of(positions, velocities=None):
    positions = np.asarray(positions, dtype=float)
    names = tuple(f"j{i}" for i in range(positions.shape[1]))
    return Chunk(names, positions, START_NS, STEP_NS, velocities=velocities)


values = st.floats(-3, 3, allow_subnormal=False)
tracks = st.integers(1, 12).flatmap(lambda h: st.lists(st.tuples(values, values), min_size=h, max_size=h))


@given(tracks)
def test_every_step_is_met_exactly(track):
    """Interpolation must not move what the policy said."""
    chunk = chunk_of(track)
    said = sample(chunk, START_NS + STEP_NS * np.arange(len(track)))
    np.testing.assert_allclose(said.position, chunk.positions, atol=1e-12)
    assert not said.before_start.any() and not said.past_end.any()


@given(tracks, st.floats(0, 1))
def test_no_step_is_overshot(track, part):
    """Without given velocities the path stays between its neighbouring steps: a hover height is never undercut."""
    chunk = chunk_of(track)
    since = int(part * (chunk.horizon - 1) * STEP_NS)
    at = sample(chunk, START_NS + since)
    i = min(since // STEP_NS, max(chunk.horizon - 2, 0))
    near = chunk.positions[i:i + 2]
    assert (at.position >= near.min(axis=0) - 1e-9).all() and (at.position <= near.max(axis=0) + 1e-9).all()


@given(tracks, st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_many_times_give_what_each_alone_gives(track, parts):
    """Real ticks and previews sample differently many times at once; they must agree to the bit."""
    chunk = chunk_of(track)
    times = np.array([START_NS + int(p * chunk.horizon * STEP_NS) for p in parts])
    together = sample(chunk, times)
    for i, t in enumerate(times):
        alone = sample(chunk, int(t))
        assert np.array_equal(alone.position, together.position[i])
        assert np.array_equal(alone.velocity, together.velocity[i])
        assert (alone.before_start, alone.past_end) == (together.before_start[i], together.past_end[i])


def test_given_velocities_reproduce_a_cubic_and_its_derivative():
    """A cubic is a cubic Hermite's fixed point: any slip in the basis functions or in units shows here."""
    t = np.arange(6) * STEP_NS * 1e-9
    chunk = chunk_of((2 * t**3 - t**2 + 0.3 * t)[:, None], (6 * t**2 - 2 * t + 0.3)[:, None])
    at = np.linspace(0, t[-1], 41)
    said = sample(chunk, START_NS + np.round(at * 1e9).astype(np.int64))
    np.testing.assert_allclose(said.position[:, 0], 2 * at**3 - at**2 + 0.3 * at, atol=1e-9)
    np.testing.assert_allclose(said.velocity[:, 0], 6 * at**2 - 2 * at + 0.3, atol=1e-7)


@given(tracks)
def test_velocity_is_continuous_over_steps(track):
    """A step in velocity at a knot is a jerk that the arm feels at the chunk's rate."""
    chunk = chunk_of(track)
    knots = START_NS + STEP_NS * np.arange(1, chunk.horizon - 1)
    left, right = sample(chunk, knots - 1), sample(chunk, knots + 1)
    # One ns beside a knot, the velocity has moved by at most the segment's acceleration (|rise| <= 6) times 1 ns.
    np.testing.assert_allclose(left.velocity, right.velocity, atol=2e-9 * 40 * 6 / (STEP_NS * 1e-9) ** 2)


def test_outside_the_chunk_the_end_is_held_and_said():
    """A caller that overlooks the flags must get a standstill, not an extrapolation."""
    chunk = chunk_of([[0.0], [1.0], [3.0]])
    early, late = sample(chunk, START_NS - 1), sample(chunk, chunk.end_ns + 1)
    assert early.before_start and not early.past_end and early.position == 0.0 and early.velocity == 0.0
    assert late.past_end and not late.before_start and late.position == 3.0 and late.velocity == 0.0


@pytest.mark.parametrize("offset, before, past", [(-1, True, False), (0, False, False), (1, False, True)])
def test_a_chunk_of_one_step_is_that_step_at_its_time(offset, before, past):
    """Horizon 1 has no segment to interpolate; it must neither divide by zero nor pretend to last."""
    said = sample(chunk_of([[0.5, -0.5]]), START_NS + offset)
    assert np.array_equal(said.position, [0.5, -0.5]) and np.array_equal(said.velocity, [0, 0])
    assert (said.before_start, said.past_end) == (before, past)


def test_missing_velocities_are_central_where_smooth_and_zero_at_turns():
    """The two regimes of the slope rule, on numbers that can be checked by hand."""
    got = knot_velocities(np.array([[0.0], [1.0], [3.0], [2.0], [2.0]]), 1_000_000_000)
    np.testing.assert_allclose(got[:, 0], [1.0, 1.5, 0.0, 0.0, 0.0])


def test_a_slope_is_at_most_three_times_its_smaller_neighbour():
    """Beside a near-flat step, the central difference would overshoot it."""
    got = knot_velocities(np.array([[0.0], [0.1], [10.0]]), 1_000_000_000)
    np.testing.assert_allclose(got[1, 0], 0.3)
