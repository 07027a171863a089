"""ROS tests run over real DDS in a domain of their own, with the package's profile."""

import importlib.util
import os

import pytest

from flashrt_ros.ros import dds

HAVE_ROS = importlib.util.find_spec("rclpy") is not None
if not HAVE_ROS:
    collect_ignore_glob = ["test_*node*.py", "test_*over_dds*.py"]


@pytest.fixture(scope="session", autouse=True)
def ros_domain():
    if not HAVE_ROS:
        pytest.skip("needs rclpy: source a ROS 2 installation or install the ros-* wheels")
    with dds.claim_domain() as domain:
        os.environ |= dds.environment() | {"ROS_DOMAIN_ID": str(domain)}
        yield domain


@pytest.fixture
def rig():
    """The player node alone; files about more nodes have a rig of their own."""
    from rig import Rig

    with Rig(nodes=("player",)) as rig:
        yield rig


@pytest.fixture
def puppet(rig):
    """A policy and an arm for it, in motion."""
    from puppet import Puppet

    puppet = Puppet(rig)
    puppet.until_moving()
    return puppet
