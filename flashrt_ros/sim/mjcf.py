"""The physics model: an MJCF text of primitives, made from the arm's and the cell's descriptions. Imports no mujoco.

What moves at a reset (cubes, bins, light, camera jitter) is placed by world.py; here is what stays.
"""

from __future__ import annotations

from math import degrees

import numpy as np

from flashrt_ros.policies.tabletop_arm import ARM, CAMERAS, FOREARM, GRIPPER, HAND, MAX_OPENING, ROLL_OFFSET
from flashrt_ros.policies.tabletop_arm import SHOULDER_HEIGHT, UPPER_ARM, Camera
from flashrt_ros.policies.tabletop_cell import (
    BELT_WIDTH, BELT_X, BELT_Z, BIN_HEIGHT, BIN_INNER, BIN_WALL, BIN_X, BIN_Y, COLOURS, CUBE, TABLE_Z,
)

TIMESTEP_S = 0.002
BELT_PITCH = 0.10  # between the belt's stripes
BELT_HALF_LENGTH = 1.9  # far past the table, so that no cube reaches an end within an episode

RGB = {
    "red": (0.84, 0.19, 0.17), "green": (0.20, 0.62, 0.29), "blue": (0.16, 0.38, 0.82), "yellow": (0.96, 0.76, 0.15),
}
# Position servos, per joint of ARM and the gripper: stiffness (N m/rad; N/m) and damping. Stiff enough that a held
# cube bends no joint by 1 mrad; damping makes the loop about critical at the joint's largest inertia.
STIFFNESS = (6000, 6000, 4000, 600, 600, 300, 1500)
DAMPING = (200, 200, 120, 12, 12, 6, 25)
# Of servo and feed-forward together (N m; N): an arm that is driven into the table pushes, it does not fire cubes off.
FORCE_LIMIT = (120, 120, 80, 25, 25, 10, 40)

# Who touches whom: cubes touch everything, the arm touches all but itself, table, belt and bins never each other.
_CUBE_BITS = 'contype="1" conaffinity="3"'
_ARM_BITS = 'contype="2" conaffinity="0"'
_STILL_BITS = 'contype="0" conaffinity="3"'
_UNSEEN_BY_PHYSICS = 'contype="0" conaffinity="0" mass="0"'


def _v(*values: float) -> str:
    return " ".join(f"{v:.6g}" for v in values)


def camera_quaternion(camera: Camera) -> np.ndarray:
    """[4] (w, x, y, z) of the camera in its parent, in MuJoCo's convention (x right, y up, looking along -z)."""
    r = camera.mount[:3, :3] * (1, -1, -1)
    w = np.sqrt(max(0.0, 1 + np.trace(r))) / 2
    x, y, z = (np.sqrt(max(0.0, 1 + 2 * r[i, i] - np.trace(r))) / 2 for i in range(3))
    return np.array([w, np.copysign(x, r[2, 1] - r[1, 2]), np.copysign(y, r[0, 2] - r[2, 0]),
                     np.copysign(z, r[1, 0] - r[0, 1])])


def _camera(name: str) -> str:
    c = CAMERAS[name]
    return (f'<camera name="{name}" pos="{_v(*c.position)}" quat="{_v(*camera_quaternion(c))}" '
            f'fovy="{_v(degrees(c.fovy))}"/>')


# What each arm joint carries, in its own frame. Shells are white, joints and hand graphite.
_LINKS = {
    "shoulder_pan": f'''
      <geom type="cylinder" fromto="0 0 {-SHOULDER_HEIGHT + 0.05} 0 0 -0.06" size="0.062" material="shell" mass="2"/>
      <geom type="cylinder" fromto="0 -0.075 0 0 0.075 0" size="0.066" material="graphite" mass="2"/>''',
    "shoulder_lift": f'''
      <geom type="capsule" fromto="0.03 0 0 {UPPER_ARM - 0.03} 0 0" size="0.048" material="shell" mass="2"/>''',
    "elbow": f'''
      <geom type="cylinder" fromto="0 -0.062 0 0 0.062 0" size="0.054" material="graphite" mass="0.6"/>
      <geom type="capsule" fromto="0.03 0 0 {FOREARM / 2 - 0.02} 0 0" size="0.042" material="shell" mass="0.8"/>''',
    "forearm_roll": f'''
      <geom type="capsule" fromto="0.02 0 0 {FOREARM / 2 - 0.02} 0 0" size="0.036" material="shell" mass="0.6"/>
      <geom type="cylinder" fromto="0.004 0 0 0.016 0 0" size="0.043" material="accent" mass="0.05"/>''',
    "wrist_pitch": '''
      <geom type="cylinder" fromto="0 -0.046 0 0 0.046 0" size="0.040" material="graphite" mass="0.3"/>''',
    "wrist_roll": f'''
      <geom type="cylinder" fromto="-0.012 0 0 0.022 0 0" size="0.034" material="shell" mass="0.2"/>
      <geom type="box" pos="0.034 0 0" size="0.012 0.054 0.024" material="graphite" mass="0.2"/>
      <geom type="box" pos="-0.008 0 0.050" size="0.010 0.016 0.018" material="graphite" mass="0.05"/>
      {_camera("wrist")}''',
}


def _finger(side: int) -> str:
    """side +1 or -1: on which side of the opening. The pad's inner face is at y = side * opening / 2."""
    name = "finger_left" if side > 0 else "finger_right"
    tip, root, thick = HAND - ROLL_OFFSET + 0.008, 0.046, 0.010  # tips reach 8 mm past the tool point
    x, half = (tip + root) / 2, (tip - root) / 2
    return f'''
      <body name="{name}" gravcomp="1">
        <joint name="{name}" type="slide" axis="0 {side} 0" range="0 {MAX_OPENING / 2}" armature="0.1"/>
        <geom type="box" pos="{x} {side * thick / 2} 0" size="{half} {thick / 2} 0.010" material="graphite" mass="0.03"
          friction="1.6 0.02 0.001" condim="4" solref="0.006 1"/>
      </body>'''


def _arm() -> str:
    inside = _finger(1) + _finger(-1)
    for joint, force in reversed(list(zip(ARM, FORCE_LIMIT))):
        armature = 0.5 if joint.name in ("shoulder_pan", "shoulder_lift", "elbow") else 0.05
        inside = f'''
    <body name="{joint.name}" pos="{_v(*joint.offset)}" gravcomp="1">
      <joint name="{joint.name}" axis="{_v(*joint.axis)}" range="{joint.lower} {joint.upper}" armature="{armature}"
        actuatorfrcrange="-{force} {force}"/>
      {_LINKS[joint.name]}{inside}
    </body>'''
    return f'''
    <body name="base" childclass="arm">
      <geom type="cylinder" fromto="0 0 0 0 0 0.05" size="0.085" material="graphite"/>{inside}
    </body>'''


def _actuators() -> str:
    """A position servo per joint and, beside it, a motor through which world.py feeds the command's own velocity
    forward: without it the joints would trail a moving command by damping / stiffness seconds."""
    names = [joint.name for joint in (*ARM, GRIPPER)]
    through = [f'joint="{n}"' for n in names[:-1]] + ['tendon="gripper"']
    servos = [f'<position name="{n}" {t} kp="{kp}" kv="{kv}"/>'
              for n, t, kp, kv in zip(names, through, STIFFNESS, DAMPING)]
    motors = [f'<motor name="{n}_rate" {t} gear="{kv}"/>' for n, t, kv in zip(names, through, DAMPING)]
    return "\n    ".join(servos + motors)


def _cube(colour: str) -> str:
    return f'''
    <body name="{colour}_cube"><freejoint name="{colour}_cube"/>
      <geom name="{colour}_cube" type="box" size="{_v(*[CUBE / 2] * 3)}" material="{colour}" mass="0.05" {_CUBE_BITS}
        friction="0.7 0.01 0.001" condim="4" solref="0.006 1"/>
    </body>'''


def _bin(colour: str, y: float) -> str:
    half, wall, height = BIN_INNER / 2, BIN_WALL / 2, BIN_HEIGHT / 2
    geom = f'type="box" material="{colour}" {_STILL_BITS}'
    out = f'<geom {geom} pos="0 0 {wall}" size="{half} {half} {wall}"/>'
    for sign in (-1, 1):
        at = sign * (half + wall)
        out += f'''
      <geom {geom} pos="{at} 0 {height}" size="{wall} {half + 2 * wall} {height}"/>
      <geom {geom} pos="0 {at} {height}" size="{half} {wall} {height}"/>'''
    return f'''
    <body name="{colour}_bin" mocap="true" pos="{_v(BIN_X, y, TABLE_Z)}">
      {out}
    </body>'''


def _belt() -> str:
    """A slab on a slide joint. world.py sets the joint's speed at every step and wraps its position by the pitch of
    the stripes, so the slab seems endless while friction carries the cubes."""
    count = 6  # as far as the cameras see
    stripes = "".join(
        f'''
      <geom type="box" pos="0 {i * BELT_PITCH:.3f} {BELT_Z}" size="{BELT_WIDTH / 2 - 0.004} 0.006 0.0004"
        material="stripe" {_UNSEEN_BY_PHYSICS}/>''' for i in range(-count, count + 1))
    edge = BELT_WIDTH / 2 + 0.008
    rails = "".join(
        f'<geom type="box" pos="{BELT_X + s * edge} 0 0.006" size="0.008 {BELT_HALF_LENGTH} 0.006" material="rail" '
        f'{_UNSEEN_BY_PHYSICS}/>' for s in (-1, 1))
    return f'''
    {rails}
    <body name="belt" pos="{BELT_X} 0 0">
      <joint name="belt" type="slide" axis="0 1 0"/>
      <geom name="belt" type="box" pos="0 0 {BELT_Z / 2}" size="{BELT_WIDTH / 2} {BELT_HALF_LENGTH} {BELT_Z / 2}"
        material="belt" mass="100" {_STILL_BITS} friction="0.9 0.01 0.001"/>{stripes}
    </body>'''


def build() -> str:
    """The whole model as MJCF text."""
    colours = "\n    ".join(f'<material name="{c}" rgba="{_v(*RGB[c])} 1"/>' for c in COLOURS)
    return f'''<mujoco model="tabletop">
  <compiler angle="radian" autolimits="true"/>
  <!-- Dense Jacobian: MuJoCo 4.0.0 factorises the Newton Hessian wrongly with a sparse one (fixed in 4.0.1). -->
  <option timestep="{TIMESTEP_S}" integrator="implicitfast" cone="elliptic" impratio="10" jacobian="dense"
    solver="Newton" iterations="50" tolerance="1e-8"/>
  <statistic extent="1.5" center="0.35 0 0.1"/>
  <visual>
    <quality offsamples="0" shadowsize="0" numslices="20" numstacks="10"/>
    <map znear="0.01" zfar="8"/>
    <headlight ambient="0.42 0.42 0.42" diffuse="0.18 0.18 0.18" specular="0 0 0"/>
  </visual>
  <default>
    <material specular="0" shininess="0" reflectance="0"/>
    <default class="arm"><geom {_ARM_BITS}/></default>
  </default>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="0.93 0.94 0.96" rgb2="0.72 0.76 0.82" width="64"
      height="384"/>
    <texture name="tiles" type="2d" builtin="checker" rgb1="0.74 0.75 0.78" rgb2="0.66 0.67 0.71" width="128"
      height="128"/>
    <material name="floor" texture="tiles" texrepeat="10 10" texuniform="false"/>
    <material name="table" rgba="0.80 0.77 0.73 1"/>
    <material name="edge" rgba="0.55 0.50 0.45 1"/>
    <material name="belt" rgba="0.20 0.21 0.23 1"/>
    <material name="stripe" rgba="0.33 0.34 0.37 1"/>
    <material name="rail" rgba="0.62 0.63 0.66 1"/>
    <material name="shell" rgba="0.93 0.93 0.94 1"/>
    <material name="graphite" rgba="0.24 0.25 0.28 1"/>
    <material name="accent" rgba="0.50 0.51 0.56 1"/>
    {colours}
  </asset>
  <worldbody>
    <light name="lamp" type="directional" pos="0.6 0.3 2" dir="-0.2 -0.2 -1" diffuse="0.5 0.5 0.5" ambient="0 0 0"
      specular="0 0 0" castshadow="false"/>
    <geom name="floor" type="plane" pos="0 0 -0.72" size="4 4 0.1" material="floor" {_STILL_BITS}/>
    <geom name="table" type="box" pos="0.30 0 {TABLE_Z - 0.02}" size="0.46 0.60 0.02" material="table"
      friction="0.7 0.01 0.001" {_STILL_BITS}/>
    <geom type="box" pos="0.30 0 {TABLE_Z - 0.06}" size="0.44 0.58 0.02" material="edge" {_UNSEEN_BY_PHYSICS}/>
    {_camera("scene")}
    {_belt()}{"".join(_bin(c, y) for c, y in zip(COLOURS, BIN_Y))}{"".join(_cube(c) for c in COLOURS)}{_arm()}
  </worldbody>
  <tendon>
    <fixed name="gripper" actuatorfrcrange="-{FORCE_LIMIT[-1]} {FORCE_LIMIT[-1]}">
      <joint joint="finger_left" coef="1"/><joint joint="finger_right" coef="1"/>
    </fixed>
  </tendon>
  <equality><joint joint1="finger_left" joint2="finger_right" solref="0.004 1"/></equality>
  <actuator>
    {_actuators()}
  </actuator>
</mujoco>
'''
