"""Windows with accelerations: what a controller then interpolates by, and what the node refuses to promise."""

import numpy as np
import pytest
from lifecycle_msgs.msg import Transition
from puppet import Puppet, contract
from rig import Rig

JERK = {"  velocity:                        #": "  jerk: 100\n  velocity:                        #"}


def test_quintic_windows_tell_accelerations_that_end_at_rest():
    """joint_trajectory_controller takes quintics if every point has them. The arm moves, within its acceleration limits."""
    with Rig(nodes=("player",), player={"interpolation": "quintic"}) as rig:
        puppet = Puppet(rig)
        puppet.until_moving()
        for window in rig.trajectories[-5:]:
            accelerations = np.array([point.accelerations for point in window.points])
            assert accelerations.shape == (len(window.points), 6) and not accelerations[-1].any()
        assert any(np.any(point.accelerations) for window in rig.trajectories for point in window.points)


def test_cubic_windows_tell_none(rig):
    """With some, joint_trajectory_controller would bend cubic motion into another one."""
    Puppet(rig).until_moving()
    assert not any(point.accelerations for window in rig.trajectories for point in window.points)


@pytest.mark.parametrize(("parameter", "text", "said"), [
    ("cubic", JERK, "'cubic', and the contract has limits.jerk"),
    ("linear", {}, "interpolation is 'linear'; allowed: cubic, quintic"),
])
def test_what_cannot_be_promised_is_refused(tmp_path, parameter, text, said):
    """A jerk limit that nobody keeps is worse than none."""
    path = contract(tmp_path / "arm.contract.yaml", text)
    with Rig(path, nodes=("player",), autostart=False, player={"interpolation": parameter}) as rig:
        assert not Puppet(rig).change(Transition.TRANSITION_CONFIGURE)
        assert said in rig.nodes["player"].reason


def test_jerk_limits_of_the_contract_make_windows_quintic(tmp_path):
    with Rig(contract(tmp_path / "arm.contract.yaml", JERK), nodes=("player",)) as rig:
        Puppet(rig).until_moving()
        assert all(len(point.accelerations) == 6 for point in rig.trajectories[-1].points)
