"""The arm's closed forms agree with each other. The physics model and the camera-based policy both stand on them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashrt_ros.policies import tabletop_cell as cell
from flashrt_ros.policies.tabletop_arm import (
    CAMERAS, HOME, JOINTS, LOWER, MAX_VELOCITY, UPPER, UnreachableError, forward, inverse, tool_yaw,
)

distance = st.floats(0.17, 0.62)
bearing = st.floats(-2.5, 2.5)
height = st.floats(0.012, 0.32)
yaw = st.floats(-np.pi, np.pi)
roll = st.floats(-3.0, 3.0)


def point(distance, bearing, height):
    return np.array([distance * np.cos(bearing), distance * np.sin(bearing), height])


@given(distance, bearing, height, yaw, roll)
def test_inverse_then_forward_is_the_wanted_pose(distance, bearing, height, yaw, roll):
    """Everywhere in the servo's workspace there is a solution within limits, and it points straight down."""
    wanted = point(distance, bearing, height)
    near = HOME.copy()
    near[5] = roll
    q = inverse(wanted, yaw, near)
    pose = forward(q)
    assert np.all((LOWER[:6] <= q) & (q <= UPPER[:6]))
    np.testing.assert_allclose(pose[:3, 3], wanted, atol=1e-9)
    np.testing.assert_allclose(pose[:3, 0], (0, 0, -1), atol=1e-9)
    assert abs(np.sin(tool_yaw(pose) - yaw)) < 1e-9  # the gripper is symmetric: equal up to half a turn


@given(distance, bearing, height, yaw, roll)
def test_inverse_takes_the_nearer_half_turn(distance, bearing, height, yaw, roll):
    """A wrist that turns the long way round takes a second and winds itself up over many tasks."""
    near = HOME.copy()
    near[5] = roll
    turned = abs(inverse(point(distance, bearing, height), yaw, near)[5] - roll)
    at_limit = abs(roll) > UPPER[5] - np.pi / 2
    assert turned <= np.pi / 2 + 1e-9 or (at_limit and turned <= np.pi)


def test_the_whole_work_area_is_in_reach():
    """Cubes, belt and bins lie where the arm can grasp at the surface and carry above it."""
    places = [(x, y) for x in cell.CUBE_X for y in cell.CUBE_Y]
    places += [(cell.BELT_X, y) for y in (-0.35, 0.35)] + [(cell.BIN_X + cell.BIN_JITTER, y) for y in cell.BIN_Y]
    for x, y in places:
        for z in (cell.CUBE / 2, 0.2):
            inverse(np.array([x, y, z]), 0.0, HOME)


@pytest.mark.parametrize("position", [(0.8, 0.0, 0.1), (0.0, 0.0, 0.12), (-0.4, 0.0, 0.1)])
def test_out_of_reach_is_a_named_error(position):
    """Too far, too near, behind the base: the message says where the tool was wanted."""
    with pytest.raises(UnreachableError, match=f"{position[0]:.3f}"):
        inverse(np.array(position), 0.0, HOME)


def test_the_description_is_complete():
    """One name, one limit and one home position per joint; the home lies within the limits."""
    assert len(JOINTS) == len(set(JOINTS)) == len(LOWER) == len(MAX_VELOCITY) == len(HOME) == 7
    assert np.all((LOWER <= HOME) & (HOME <= UPPER))


@given(st.sampled_from(sorted(CAMERAS)), distance, bearing, height, st.floats(0, 1), st.floats(0, 1))
def test_a_ray_goes_through_the_point_that_it_shows(camera, distance, bearing, height, u, v):
    """project and ray are inverse to each other, wherever the hand is: perception is built from them."""
    q = inverse(point(distance, bearing, height), 0.3, HOME)
    size = (160, 96)
    pixel = np.array([u * size[0], v * size[1]])
    origin, direction = CAMERAS[camera].ray(pixel, size, q)
    np.testing.assert_allclose(CAMERAS[camera].project(origin + 0.4 * direction, size, q), pixel, atol=1e-6)


def test_what_lies_behind_a_camera_has_no_pixel():
    """A mirrored phantom pixel would be worse than none."""
    behind = np.add(CAMERAS["scene"].position, (1.0, 0.0, 0.5))
    assert np.isnan(CAMERAS["scene"].project(behind, (96, 96), HOME)).all()
