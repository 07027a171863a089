"""Units are converted at the contract's edge, in both nodes alike: else the player compares degrees with radians."""

import numpy as np
from rig import Rig

from flashrt_ros.policies.tabletop_arm import HOME
from flashrt_ros.resources import find


def test_a_driver_that_speaks_degrees_is_understood_by_policy_and_player(tmp_path):
    text = find("config/color_servo.contract.yaml").read_text()
    contract = tmp_path / "degrees.contract.yaml"
    head, joints = text.split("  joints:", 1)
    assert "    max_age_ms:" in joints
    contract.write_text(head + "  joints:" + joints.replace("    max_age_ms:", "    apply: [deg2rad]\n    max_age_ms:", 1))
    with Rig(contract=contract) as rig:
        rig.joints = np.rad2deg(rig.joints)
        rig.start()
        assert np.allclose(rig.chunks[-1].position[:7], HOME, atol=1e-3)
        assert np.allclose(rig.states[-1].position, HOME, atol=1e-3)
