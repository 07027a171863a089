"""The servo that picks and places: from where the cube is believed to be to a chunk of joint targets. numpy only.

It is Markov: what to do follows from joints, finger opening and belief alone. No timers, no memory: each chunk is made
by rolling the same rule forward from the present state, so a lost cube is simply approached again. Where a decision
must not flutter, geometry gives the hysteresis: closing fingers tolerate a larger error than open ones.

Conditions, in the order in which they are asked:
  held                               -> lift; for `place` carry over the bin, lower, open
  cube lies in its bin               -> open, climb, go home
  fingers closed on nothing          -> open, climb
  in the grasp pose                  -> close
  otherwise                          -> approach: down a funnel that is high far from the cube and narrow at its foot
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, cos, hypot, pi, sin, sqrt

import numpy as np

from flashrt_ros.policies.tabletop_arm import (
    HOME, LOWER, MAX_ACCELERATION, MAX_OPENING, MAX_VELOCITY, UPPER, forward, inverse, tool_yaw,
)
from flashrt_ros.policies.tabletop_cell import BIN_HEIGHT, BIN_INNER, CUBE, TABLE_Z

HOVER = 0.09  # height of the funnel's rim above the grasp
FUNNEL_FOOT, FUNNEL_SLOPE = 0.006, 3.0
LIFT_Z = 0.17  # tool height to which a held cube is lifted and at which it is carried
RELEASE_Z = TABLE_Z + BIN_HEIGHT + 0.014  # the fingertips stay above the bin's walls
SQUEEZE = 0.026  # commanded opening while holding: 14 mm inside the cube; the more, the harder the grip
HELD = (CUBE - 0.006, CUBE + 0.004)  # finger openings that mean a cube lies between the fingers
FINGERS_REST = 0.04  # m/s; they close and open three times as fast
NOT_THIS_ONE = 0.20  # m; further than a cube is carried within the age that vision may reach
YAW_ARM = 0.04  # m per rad: how much a yaw error counts as a lateral one

LATERAL_SPEED, VERTICAL_SPEED, YAW_SPEED, GRIPPER_SPEED = 0.35, 0.22, 1.8, 0.12
BRAKING = 0.6  # m/s^2, what the approach to any target is slowed down for
GAIN = 5.0  # 1/s, near the target
REACH = (0.17, 0.62)  # horizontal distances at which every height in HEIGHTS is reachable
HEIGHTS = (0.012, 0.32)
BEARING = 2.5  # rad, either way; just inside shoulder_pan's limits
LIMIT_SHARE = 0.95  # of the joints' velocity and acceleration limits that a chunk uses


@dataclass(frozen=True)
class Belief:
    """What the servo acts on, as of the moment at which the joints were read.

    kind: pick, place or belt. cube [3], yaw, velocity [3]: centre, rotation about z and velocity of the named cube (the
    velocity counts for `belt` only). bin [3]: centre of the named bin's foot, for `place`, else None.
    surface_z: top of what the cube lay on when it was last seen lying (TABLE_Z or BELT_Z).
    """

    kind: str
    cube: np.ndarray
    yaw: float
    velocity: np.ndarray
    bin: np.ndarray | None
    surface_z: float


@dataclass(frozen=True, slots=True)
class _Aim:
    """Where to go from here: tool target (x, y, z), yaw, commanded opening, allowed fraction of the lateral speed."""

    x: float
    y: float
    z: float
    yaw: float
    opening: float
    lateral: float = 1.0


def chunk(
    belief: Belief, joints: np.ndarray, horizon: int = 32, step_s: float = 0.02, velocity: np.ndarray | None = None
) -> np.ndarray:
    """Joint targets, float64 [horizon, 7] in the order of JOINTS; row i is for i * step_s after `joints` were read.

    joints [7]: measured positions, row 0 repeats the arm's. velocity [7]: measured velocities, from which the motion
    goes on within the acceleration limits. None: the motion starts at whatever speed the servo wants here, and the
    fingers count as resting, so that fingers on their way through a cube's width pass for fingers around a cube.
    The gripper's column is a command: while holding it lies inside the cube.
    """
    q = np.clip(np.asarray(joints, dtype=np.float64), LOWER, UPPER)
    arm, opening, command = q[:6].copy(), float(q[6]), float(q[6])
    rate, finger_rate = (None, 0.0) if velocity is None else (np.array(velocity[:6], dtype=float), float(velocity[6]))
    cube, drift = np.array(belief.cube, dtype=np.float64), np.zeros(3)
    if belief.kind == "belt":
        drift[:2] = belief.velocity[:2]
    out = np.empty((horizon, 7))
    tool = forward(arm)
    for i in range(horizon):
        position, yaw = tool[:3, 3], tool_yaw(tool)
        held = _holds(cube, position, opening, finger_rate)
        aim = _aim(belief, cube, position, yaw, opening, held)
        squeezing = held and i == 0 and aim.opening == SQUEEZE  # the squeeze goes on; it does not start anew
        command = SQUEEZE if squeezing else _towards(command, aim.opening, GRIPPER_SPEED * step_s)
        out[i, :6], out[i, 6] = arm, command

        wanted = _arm_rate(aim, np.zeros(3) if held else drift, position, yaw, arm, step_s)
        if rate is not None:
            change = LIMIT_SHARE * MAX_ACCELERATION[:6] * step_s
            wanted = np.clip(wanted, rate - change, rate + change)
        rate = np.clip(wanted, -_room(arm - LOWER[:6], step_s), _room(UPPER[:6] - arm, step_s))
        arm = np.clip(arm + rate * step_s, LOWER[:6], UPPER[:6])
        tool = forward(arm)

        between = held or float(np.abs(cube - position).max()) < CUBE / 2
        before, opening = opening, max(command, CUBE) if between and opening > HELD[0] else command
        finger_rate = (opening - before) / step_s
        cube = tool[:3, 3] if held else cube + drift * step_s
    return out


def _holds(cube: np.ndarray, tool: np.ndarray, opening: float, finger_rate: float) -> bool:
    """Fingers that rest at a cube's width hold one. Where the named one is believed to be counts little, for while it
    is carried a camera's news of it is old; but one seen far away is not the one in the hand."""
    stopped = abs(finger_rate) < FINGERS_REST
    return stopped and HELD[0] < opening < HELD[1] and hypot(*(cube - tool)[:2]) < NOT_THIS_ONE


def _aim(belief: Belief, cube: np.ndarray, tool: np.ndarray, yaw: float, opening: float, held: bool) -> _Aim:
    x, y, z = (float(v) for v in tool)
    if held:
        return _Aim(x, y, LIFT_Z, yaw, SQUEEZE) if belief.bin is None else _carry(belief.bin, x, y, z, yaw)
    if belief.bin is not None and float(np.abs(cube[:2] - belief.bin[:2]).max()) < BIN_INNER / 2:
        return _leave(x, y, z, yaw, opening)
    grasp_z = belief.surface_z + CUBE / 2
    if opening <= HELD[0]:
        return _Aim(x, y, grasp_z + HOVER, yaw, MAX_OPENING)
    yaw_goal = yaw + _wrap(belief.yaw - yaw, pi / 2)  # a cube looks alike from four sides
    error = hypot(cube[0] - x, cube[1] - y) + YAW_ARM * abs(yaw_goal - yaw)
    closing = opening < 0.9 * MAX_OPENING
    if error < (0.020 if closing else 0.011) and z - grasp_z < (0.012 if closing else 0.007):
        return _Aim(cube[0], cube[1], grasp_z, yaw_goal, SQUEEZE)
    height = grasp_z + min(HOVER, max(0.0, FUNNEL_SLOPE * (error - FUNNEL_FOOT)))
    # Below the funnel the way out is up, not sideways through whatever stands there.
    return _Aim(cube[0], cube[1], height, yaw_goal, MAX_OPENING, min(1.0, max(0.0, 1.0 - (height - z - 0.01) / 0.04)))


def _carry(bin_: np.ndarray, x: float, y: float, z: float, yaw: float) -> _Aim:
    away = hypot(bin_[0] - x, bin_[1] - y)
    height = min(LIFT_Z, RELEASE_Z + max(0.0, FUNNEL_SLOPE * (away - 0.012)))
    square = yaw + _wrap(-yaw, pi / 2)
    if away < 0.016 and z - RELEASE_Z < 0.008:
        return _Aim(bin_[0], bin_[1], RELEASE_Z, square, MAX_OPENING)
    return _Aim(bin_[0], bin_[1], height, square, SQUEEZE, min(1.0, max(0.0, 1.0 - (height - z - 0.02) / 0.05)))


def _leave(x: float, y: float, z: float, yaw: float, opening: float) -> _Aim:
    if opening < CUBE + 0.015:
        return _Aim(x, y, z, yaw, MAX_OPENING)
    home = forward(HOME)[:3, 3]
    clear = min(1.0, max(0.0, (z - RELEASE_Z - 0.04) / 0.04))
    return _Aim(home[0], home[1], home[2], yaw + _wrap(-yaw, pi), MAX_OPENING, clear)


def _arm_rate(aim: _Aim, drift: np.ndarray, tool: np.ndarray, yaw: float, arm: np.ndarray, step_s: float) -> np.ndarray:
    """Joint velocities [6] towards the aim, before joint limits. drift [3]: the aim's own velocity."""
    dx, dy, dz = aim.x - tool[0], aim.y - tool[1], aim.z - tool[2]
    away = hypot(dx, dy)
    along = aim.lateral * _speed(away, LATERAL_SPEED) / max(away, 1e-9)
    turn = aim.yaw - yaw
    goal = np.array([
        tool[0] + (dx * along + drift[0]) * step_s,
        tool[1] + (dy * along + drift[1]) * step_s,
        tool[2] + np.copysign(_speed(abs(dz), VERTICAL_SPEED), dz) * step_s,
    ])
    turn = np.copysign(min(YAW_SPEED, GAIN * abs(turn)), turn)
    # An arm that was led here joint by joint may not point straight down. That is mended with the servo's own gain: within
    # a step it would take all of the joints' speed, and throw the tool about.
    upright = inverse(_reachable(tool), yaw, arm)
    return (inverse(_reachable(goal), yaw + turn * step_s, arm) - upright) / step_s + GAIN * (upright - arm)


def _room(margin: np.ndarray, step_s: float) -> np.ndarray:
    """Joint speeds [6] from which a stop within the margin [6] to the position limit needs no more than the allowed
    acceleration: half of it on the way, all of it in the last step."""
    allowed = LIMIT_SHARE * MAX_ACCELERATION[:6]
    braking = np.minimum(np.sqrt(allowed * margin), margin / step_s)
    return np.minimum(braking, LIMIT_SHARE * MAX_VELOCITY[:6])


def _reachable(goal: np.ndarray) -> np.ndarray:
    """The point [3] of the workspace that lies nearest in direction, distance and height: an aim out of reach is
    followed along the workspace's edge."""
    bearing = min(max(atan2(goal[1], goal[0]), -BEARING), BEARING)
    distance = min(max(hypot(goal[0], goal[1]), REACH[0]), REACH[1])
    return np.array([distance * cos(bearing), distance * sin(bearing), min(max(goal[2], HEIGHTS[0]), HEIGHTS[1])])


def _speed(distance: float, limit: float) -> float:
    """Fast far away, able to brake in time, proportional near the target."""
    return min(limit, sqrt(2 * BRAKING * distance), GAIN * distance)


def _towards(value: float, target: float, step: float) -> float:
    return min(target, value + step) if target > value else max(target, value - step)


def _wrap(angle: float, period: float) -> float:
    """The angle brought into [-period / 2, period / 2)."""
    return (angle + period / 2) % period - period / 2
