"""The built-in robot's two trajectory controllers, one for the arm and one for the gripper, each an emulation (jtc.py).
Imports no torch and no ROS."""

from __future__ import annotations

import numpy as np

from flashrt_ros.policies.tabletop_arm import ARM, JOINTS
from flashrt_ros.sim.jtc import Accepted, JointTrajectoryController, Rejected, Trajectory

GROUPS = {"arm": np.arange(len(ARM)), "gripper": np.array([len(ARM)])}  # name -> its columns among JOINTS


class Controllers:
    """hold() before anything else."""

    def __init__(self) -> None:
        self._of = {name: JointTrajectoryController([JOINTS[c] for c in columns]) for name, columns in GROUPS.items()}

    def parameters(self, name: str) -> dict[str, object]:
        """The ROS parameters that one of GROUPS would have as a node."""
        return self._of[name].parameters_by_name()

    def hold(self, position: np.ndarray) -> None:
        """Forget any trajectory and hold the joints [7]."""
        for name, columns in GROUPS.items():
            self._of[name].hold(position[columns])

    def receive(self, name: str, trajectory: Trajectory, now_ns: int) -> Accepted | Rejected:
        """Give a trajectory to one of GROUPS."""
        return self._of[name].receive(trajectory, now_ns)

    def update(self, now_ns: int, position: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        """The joint targets [7] of this control update, from the joints' measured position and velocity [7]."""
        targets = np.empty(len(JOINTS))
        for name, columns in GROUPS.items():
            targets[columns] = self._of[name].update(now_ns, position[columns], velocity[columns]).positions
        return targets
