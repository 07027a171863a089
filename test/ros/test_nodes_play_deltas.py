"""Deltas over real DDS: they count from where the arm was when the policy looked, whatever joint states have come since."""

import time
from pathlib import Path

import numpy as np
from puppet import contract
from rig import MS, PATIENCE_S, Rig
from servo_dialects import DeltaServo

from flashrt_ros import policies
from flashrt_ros.policies.tabletop_arm import HOME

AWAY = 0.01  # rad


def test_a_joint_state_that_comes_while_the_policy_thinks_changes_nothing(tmp_path: Path, monkeypatch):
    """The node hears it before the decision is over. Added to it, the deltas would move the arm by AWAY once more. What is
    published and played are positions."""
    servos = []

    def make(choice, device):
        servos.append(DeltaServo(choice, device))
        return servos[-1]

    monkeypatch.setattr(policies, "load", make)
    path = contract(tmp_path / "deltas.contract.yaml", {
        ", deadline]": "]", "representation: joint ": "representation: joint_delta "})
    with Rig(contract=path) as rig:
        rig.until(rig.heard, "subscriptions")
        newest, heard = rig.nodes["policy"]._inputs.newest, []

        def hear_a_newer_state():
            moved = (rig.joints + AWAY).tolist()
            rig.send_joints(rig.now_ns + MS, position=moved)
            deadline = time.monotonic() + PATIENCE_S
            while list(newest["joints"].position) != moved:
                assert time.monotonic() < deadline, "the newer joint state never came"
                time.sleep(0)
            heard.append(moved)

        servos[0].while_deciding = hear_a_newer_state
        rig.start()
        count = len(rig.chunks)
        rig.run_until(lambda: len(rig.chunks) >= count + 5, "five more chunks")
        assert len(heard) >= len(rig.chunks)
        for chunk in rig.chunks:
            rows = np.array(chunk.position).reshape(chunk.horizon, -1)
            np.testing.assert_allclose(rows[:, :6], np.tile(HOME[:6], (chunk.horizon, 1)), atol=1e-5)
        np.testing.assert_allclose(rig.states[-1].position, HOME, atol=1e-3)
