"""The tabletop arm: six revolute joints and a parallel gripper. Its one description, from which the physics model, the
inverse kinematics and the camera geometry all come. numpy only; imports nothing of the package but errors.

Frames: the world's origin is the arm's base on the table top, x forward over the table, y left, z up. At q = 0 the arm
lies stretched out along x. The tool frame sits between the fingertips: x along the fingers (down, in a top-down
grasp), y along the finger opening. All lengths in metres, angles in radians.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import acos, atan2, cos, hypot, pi, sin, tan

import numpy as np

from flashrt_ros.errors import FlashRTError


class UnreachableError(FlashRTError):
    """No top-down configuration within the joint limits puts the tool there."""


@dataclass(frozen=True, slots=True)
class Joint:
    """One joint: `offset` from the parent's frame at q = 0, `axis` in that frame, limits on position, velocity and
    acceleration (rad, rad/s, rad/s^2; for the gripper m, m/s, m/s^2)."""

    name: str
    offset: tuple[float, float, float]
    axis: tuple[float, float, float]
    lower: float
    upper: float
    velocity: float
    acceleration: float


SHOULDER_HEIGHT = 0.28
UPPER_ARM = 0.34  # shoulder_lift axis to elbow axis
FOREARM = 0.33  # elbow axis to wrist_pitch axis; forearm_roll turns at half of it
HAND = 0.16  # wrist_pitch axis to the tool frame
ROLL_OFFSET = 0.05  # wrist_pitch axis to the wrist_roll frame
MAX_OPENING = 0.08  # between the finger pads, fully open

ARM = (
    Joint("shoulder_pan", (0, 0, SHOULDER_HEIGHT), (0, 0, 1), -2.6, 2.6, 2.0, 8.0),
    Joint("shoulder_lift", (0, 0, 0), (0, 1, 0), -2.6, 0.6, 2.0, 8.0),
    Joint("elbow", (UPPER_ARM, 0, 0), (0, 1, 0), -0.2, 2.7, 2.0, 8.0),
    Joint("forearm_roll", (FOREARM / 2, 0, 0), (1, 0, 0), -2.9, 2.9, 2.0, 8.0),
    Joint("wrist_pitch", (FOREARM / 2, 0, 0), (0, 1, 0), -2.2, 2.3, 2.0, 8.0),
    Joint("wrist_roll", (ROLL_OFFSET, 0, 0), (1, 0, 0), -3.0, 3.0, 2.0, 8.0),
)
# The gripper's position is the whole opening between the pads: 0 closed, MAX_OPENING open. Both fingers move alike.
GRIPPER = Joint("gripper", (HAND - ROLL_OFFSET, 0, 0), (0, 1, 0), 0.0, MAX_OPENING, 0.2, 2.0)
JOINTS = tuple(j.name for j in ARM) + (GRIPPER.name,)

LOWER = np.array([j.lower for j in (*ARM, GRIPPER)])
UPPER = np.array([j.upper for j in (*ARM, GRIPPER)])
MAX_VELOCITY = np.array([j.velocity for j in (*ARM, GRIPPER)])
MAX_ACCELERATION = np.array([j.acceleration for j in (*ARM, GRIPPER)])


def hand_pose(q: np.ndarray) -> np.ndarray:
    """Pose [4, 4] of the wrist_roll frame, which carries the fingers and the wrist camera. q: [6] or [7]."""
    # On plain floats: for six joints numpy's overhead is several times the arithmetic, and the servo calls this a lot.
    position, axes = [0.0, 0.0, 0.0], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    for joint, angle in zip(ARM, q):
        for axis, length in zip(axes, joint.offset):
            position = [p + length * a for p, a in zip(position, axis)]
        i = joint.axis.index(1)
        j, k = (i + 1) % 3, (i + 2) % 3
        c, s = cos(angle), sin(angle)
        axes[j], axes[k] = (
            [c * a + s * b for a, b in zip(axes[j], axes[k])],
            [c * b - s * a for a, b in zip(axes[j], axes[k])],
        )
    pose = np.eye(4)
    pose[:3, :3] = np.transpose(axes)
    pose[:3, 3] = position
    return pose


def forward(q: np.ndarray) -> np.ndarray:
    """Pose [4, 4] of the tool frame for arm joints q ([6], or [7] with the gripper, which is ignored)."""
    pose = hand_pose(q)
    pose[:3, 3] += pose[:3, 0] * (HAND - ROLL_OFFSET)
    return pose


def tool_yaw(pose: np.ndarray) -> float:
    """Yaw of a tool pose [4, 4]: the angle of the finger-opening axis from world y, about world z."""
    return atan2(-pose[0, 1], pose[1, 1])


def inverse(position: np.ndarray, yaw: float, near: np.ndarray) -> np.ndarray:
    """Arm joints [6] with the tool at `position` [3], pointing straight down, elbow up, forearm_roll 0.

    yaw: the angle of the finger-opening axis from world y. The gripper is symmetric, so of the solutions half a turn
    apart the one whose wrist_roll is nearest to that of `near` ([6] or [7]) is taken.
    Raises UnreachableError.
    """
    x, y, z = (float(v) for v in position)
    reach, rise = hypot(x, y), z + HAND - SHOULDER_HEIGHT
    distance = hypot(reach, rise)
    if not abs(UPPER_ARM - FOREARM) < distance < UPPER_ARM + FOREARM:
        raise UnreachableError(
            f"tool position ({x:.3f}, {y:.3f}, {z:.3f}): the wrist would be {distance:.3f} m from the shoulder; "
            f"it reaches {abs(UPPER_ARM - FOREARM):.3f} to {UPPER_ARM + FOREARM:.3f} m"
        )
    pan = atan2(y, x)
    lift = -atan2(rise, reach) - acos((UPPER_ARM**2 + distance**2 - FOREARM**2) / (2 * UPPER_ARM * distance))
    elbow = pi - acos((UPPER_ARM**2 + FOREARM**2 - distance**2) / (2 * UPPER_ARM * FOREARM))
    roll = pan - yaw
    roll += pi * round((float(near[5]) - roll) / pi)
    if abs(roll) > ARM[5].upper:
        roll -= pi * np.sign(roll)
    q = np.array([pan, lift, elbow, 0.0, pi / 2 - lift - elbow, roll])
    for joint, value in zip(ARM, q):
        if not joint.lower <= value <= joint.upper:
            raise UnreachableError(
                f"tool position ({x:.3f}, {y:.3f}, {z:.3f}): {joint.name} would be {value:.3f} rad, "
                f"outside [{joint.lower}, {joint.upper}]"
            )
    return q


# Above the near zone, clear of the scene camera's view of the table, fingers open.
HOME = np.append(inverse((0.24, 0.0, 0.30), 0.0, np.zeros(6)), MAX_OPENING)


@dataclass(frozen=True)
class Camera:
    """A pinhole camera, square pixels, principal point at the image's centre.

    parent: "world" or "hand" (the wrist_roll frame). position [3] and target [3] in the parent's frame: where it is
    and a point that it looks at; up [3]: the direction that is up in the image. fovy: vertical field of view (rad).
    Pixel coordinates are (u, v) = (right, down) from the image's top left corner; column j has its centre at j + 0.5.
    """

    name: str
    parent: str
    position: tuple[float, float, float]
    target: tuple[float, float, float]
    up: tuple[float, float, float]
    fovy: float

    @property
    def mount(self) -> np.ndarray:
        """Pose [4, 4] of the optical frame (x right, y down, z into the scene) in the parent's frame."""
        ahead = np.subtract(self.target, self.position)
        ahead = ahead / np.linalg.norm(ahead)
        right = np.cross(ahead, self.up)
        right = right / np.linalg.norm(right)
        pose = np.eye(4)
        pose[:3, 0], pose[:3, 1], pose[:3, 2], pose[:3, 3] = right, np.cross(ahead, right), ahead, self.position
        return pose

    def pose(self, q: np.ndarray) -> np.ndarray:
        """Pose [4, 4] of the optical frame in the world, for arm joints q ([6] or [7])."""
        return hand_pose(q) @ self.mount if self.parent == "hand" else self.mount

    def focal(self, height: int) -> float:
        """Focal length in pixels for an image of that height."""
        return height / 2 / tan(self.fovy / 2)

    def project(self, points: np.ndarray, size: tuple[int, int], q: np.ndarray) -> np.ndarray:
        """Pixels [..., 2] of world points [..., 3]; size: (width, height). NaN for points behind the camera."""
        pose = self.pose(q)
        local = (np.asarray(points, dtype=float) - pose[:3, 3]) @ pose[:3, :3]
        depth = np.where(local[..., 2:] > 1e-6, local[..., 2:], np.nan)
        return local[..., :2] / depth * self.focal(size[1]) + np.array(size) / 2

    def ray(self, pixels: np.ndarray, size: tuple[int, int], q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(origin [3], unit directions [..., 3]) in the world of the rays through pixels [..., 2]."""
        pose = self.pose(q)
        local = (np.asarray(pixels, dtype=float) - np.array(size) / 2) / self.focal(size[1])
        local = np.concatenate([local, np.ones(local.shape[:-1] + (1,))], axis=-1)
        return pose[:3, 3], local / np.linalg.norm(local, axis=-1, keepdims=True) @ pose[:3, :3].T


CAMERAS = {
    "scene": Camera("scene", "world", (1.10, 0.0, 0.74), (0.32, 0.0, 0.06), (0, 0, 1), np.deg2rad(39.0)),
    "wrist": Camera("wrist", "hand", (0.0, 0.0, 0.075), (0.16, 0.0, 0.012), (0, 0, 1), np.deg2rad(62.0)),
}
