"""The servo's chunks: within limits whatever is believed, and the right thing in each condition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.policies.pick_servo import HELD, LIFT_Z, SQUEEZE, Belief, chunk
from flashrt_ros.policies.tabletop_arm import HOME, LOWER, MAX_ACCELERATION, MAX_VELOCITY, UPPER, forward, inverse
from flashrt_ros.policies.tabletop_cell import BELT_Z, BIN_X, CUBE, TABLE_Z

STEP_S = 0.02
TABLE_GRASP = TABLE_Z + CUBE / 2

coordinate = st.floats(-1.5, 1.5)
anywhere = st.tuples(coordinate, coordinate, coordinate).map(np.array)
speed = st.floats(-0.1, 0.1)
beliefs = st.builds(
    Belief,
    kind=st.sampled_from(["pick", "place", "belt"]),
    cube=anywhere,
    yaw=st.floats(-4, 4),
    velocity=st.tuples(speed, speed, speed).map(np.array),
    bin=st.one_of(st.none(), anywhere),
    surface_z=st.sampled_from([TABLE_Z, BELT_Z]),
)
fractions = st.lists(st.floats(0, 1), min_size=7, max_size=7).map(np.array)


def belief(cube, kind="pick", yaw=0.0, velocity=(0, 0, 0), bin=None, surface_z=TABLE_Z):
    return Belief(kind, np.array(cube), yaw, np.array(velocity), None if bin is None else np.array(bin), surface_z)


def posed(position, opening, yaw=0.0):
    return np.append(inverse(np.array(position), yaw, HOME), opening)


@given(beliefs, fractions, fractions, st.booleans())
def test_chunks_keep_position_and_velocity_limits(belief, where, how_fast, moving):
    """Whatever vision hallucinates and wherever the arm is, in reach or not: no error, no joint too fast or too far."""
    joints = LOWER + where * (UPPER - LOWER)
    velocity = (2 * how_fast - 1) * MAX_VELOCITY if moving else None
    rows = chunk(belief, joints, 16, STEP_S, velocity)
    assert rows.shape == (16, 7) and np.isfinite(rows).all()
    assert np.all((rows >= LOWER) & (rows <= UPPER))
    assert np.all(np.abs(np.diff(rows, axis=0)) <= MAX_VELOCITY * STEP_S + 1e-9)
    np.testing.assert_allclose(rows[0, :6], joints[:6], atol=1e-12)


@given(st.floats(0.18, 0.6), st.floats(-1, 1), st.floats(0.02, 0.3), st.floats(0.2, 0.34), st.floats(-0.25, 0.25))
def test_chunks_from_rest_keep_acceleration_limits(reach, bearing, z, cube_x, cube_y):
    """Smooth from the first step on, near the joints' ends too: the player must not have to repair a chunk."""
    joints = posed((reach * np.cos(bearing), reach * np.sin(bearing), z), 0.08)
    rows = chunk(belief((cube_x, cube_y, TABLE_GRASP)), joints, 32, STEP_S, np.zeros(7))[:, :6]
    rates = np.diff(rows, axis=0, prepend=rows[:1]) / STEP_S
    assert np.all(np.abs(np.diff(rates, axis=0)) <= MAX_ACCELERATION[:6] * STEP_S + 1e-9)


@given(beliefs, fractions)
def test_the_servo_is_a_function(belief, where):
    """Markov: the same state gives the same bytes. Demonstrations of it can be learned by a policy without memory."""
    joints = LOWER + where * (UPPER - LOWER)
    assert chunk(belief, joints, 8).tobytes() == chunk(belief, joints.copy(), 8).tobytes()


def test_it_goes_over_the_cube_before_it_goes_down():
    """Sideways at the height of cubes would sweep the neighbours away."""
    rows = chunk(belief((0.30, 0.2, TABLE_GRASP)), HOME, 60, STEP_S, np.zeros(7))
    tools = np.array([forward(row)[:3, 3] for row in rows])
    away = np.hypot(*(tools[:, :2] - (0.30, 0.2)).T)
    assert tools[away > 0.03, 2].min() > TABLE_GRASP + CUBE
    assert away[-1] < 0.01


def test_from_low_beside_a_cube_it_first_goes_up():
    """A missed descent must not end in a sideways push."""
    rows = chunk(belief((0.30, 0.10, TABLE_GRASP)), posed((0.30, 0.0, 0.02), 0.08), 12, STEP_S, np.zeros(7))
    tool = forward(rows[-1])[:3, 3]
    assert tool[2] > 0.03 and abs(tool[1]) < 0.005


def test_in_the_grasp_pose_it_closes():
    """Open fingers around a cube: the command runs into it and the arm stays."""
    joints = posed((0.30, 0.0, TABLE_GRASP), 0.08)
    rows = chunk(belief((0.30, 0.0, TABLE_GRASP)), joints, 32, STEP_S, np.zeros(7))
    assert rows[-1, 6] == SQUEEZE and np.all(np.diff(rows[:, 6]) <= 0)


def test_a_held_cube_is_squeezed_at_once_and_lifted():
    """A squeeze that started anew from the measured opening at every decision would let the cube slip each time."""
    joints = posed((0.30, 0.0, TABLE_GRASP), CUBE)
    rows = chunk(belief((0.30, 0.0, TABLE_GRASP)), joints, 64, STEP_S, np.zeros(7))
    assert np.all(rows[:, 6] == SQUEEZE)
    assert abs(forward(rows[-1])[2, 3] - LIFT_Z) < 0.01


def test_old_news_of_a_carried_cube_does_not_open_the_hand():
    """Vision at a quarter of the action's rate still sees the cube on the table when it is already half way up."""
    joints = posed((0.38, 0.1, 0.16), CUBE)
    seen_before = belief((0.30, 0.0, TABLE_GRASP), kind="place", bin=(BIN_X, 0.1, 0.0))
    assert np.all(chunk(seen_before, joints, 10, STEP_S, np.zeros(7))[:, 6] == SQUEEZE)


def test_a_cube_that_is_elsewhere_is_not_the_one_in_the_hand():
    """After a change of task with another cube in the fingers the hand opens."""
    joints = posed((0.30, 0.2, 0.16), CUBE)
    assert chunk(belief((0.30, -0.1, TABLE_GRASP)), joints, 10, STEP_S, np.zeros(7))[-1, 6] > HELD[1]


def test_fingers_passing_through_the_width_of_a_cube_hold_nothing():
    """After a miss they open through that width; taken for a hold, they would close and open for ever."""
    opening = np.zeros(7)
    opening[6] = 0.12
    joints = posed((0.30, 0.0, TABLE_GRASP + 0.05), CUBE)
    rows = chunk(belief((0.30, 0.03, TABLE_GRASP)), joints, 10, STEP_S, opening)
    assert np.all(np.diff(rows[:, 6]) > 0)


def test_fingers_closed_on_nothing_open_and_rise():
    """The way out of every miss."""
    rows = chunk(belief((0.30, 0.0, TABLE_GRASP)), posed((0.30, 0.0, TABLE_GRASP), 0.02), 16, STEP_S, np.zeros(7))
    assert rows[3, 6] > 0.02 and forward(rows[3])[2, 3] > TABLE_GRASP


def test_over_the_bin_it_lowers_and_opens_then_leaves():
    """Carried high, released low with the fingertips above the walls, and away without dragging the cube along."""
    target = (BIN_X, 0.065, 0.0)
    rows = chunk(belief((BIN_X, 0.065, 0.1), kind="place", bin=target), posed((BIN_X, 0.065, 0.1), CUBE), 120, STEP_S,
                 np.zeros(7))
    tools = np.array([forward(row)[:3, 3] for row in rows])
    released = int(np.argmax(rows[:, 6] > SQUEEZE))
    assert released > 0 and 0.03 < tools[released, 2] < 0.06
    assert rows[-1, 6] == UPPER[6] and tools[-1, 2] > 0.15


@pytest.mark.parametrize("speed", [-0.06, -0.02, 0.02, 0.06])
def test_it_leads_a_cube_on_the_belt(speed):
    """Aiming at where the cube was when it was seen leaves the fingers behind it by speed times age: 6 cm a second."""
    seen = belief((0.43, -np.sign(speed) * 0.1, BELT_Z + CUBE / 2), "belt", velocity=(0, speed, 0), surface_z=BELT_Z)
    rows = chunk(seen, posed((0.43, 0.0, 0.15), 0.08), 60, STEP_S, np.zeros(7))
    errors = [abs(forward(row)[1, 3] - (seen.cube[1] + speed * i * STEP_S)) for i, row in enumerate(rows)]
    assert max(errors[-10:]) < 0.004
    standing = chunk(belief(seen.cube, "pick", velocity=(0, speed, 0)), posed((0.43, 0.0, 0.15), 0.08), 60, STEP_S)
    assert abs(forward(standing[-1])[1, 3] - seen.cube[1]) < 0.004  # off the belt a velocity is perception's noise
