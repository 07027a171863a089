"""Pins what child processes are told about the middleware, and that the profile says what the load figures need."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from flashrt_ros.ros import dds


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """A ROS installation of our own, and no other."""
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


def test_fast_dds_3_gets_the_new_name_only(prefix):
    """Given both names, Kilted loads the file twice and prints errors about the second time."""
    variables = dds.environment()
    profile = variables.pop("FASTDDS_DEFAULT_PROFILES_FILE")
    assert Path(profile).is_absolute() and Path(profile).is_file()
    assert variables == {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}


def test_fast_dds_2_gets_the_old_name_too(prefix):
    """Jazzy reads FASTRTPS_DEFAULT_PROFILES_FILE and nothing else: without it two images of three are lost."""
    (prefix / "share" / "fastrtps").mkdir(parents=True)
    variables = dds.environment()
    assert variables["FASTRTPS_DEFAULT_PROFILES_FILE"] == variables["FASTDDS_DEFAULT_PROFILES_FILE"]


def test_a_missing_profile_is_an_error(tmp_path):
    """Fast DDS itself only prints a line and runs without it."""
    with pytest.raises(dds.DdsError, match="missing.xml does not exist"):
        dds.environment(tmp_path / "missing.xml")


def test_the_profile_has_shared_memory_of_32_mib_before_udp():
    """Fast DDS sends through the first shared-memory transport in the list; rmw_fastrtps appends a small one to it."""
    root = ElementTree.parse(dds.environment()["FASTDDS_DEFAULT_PROFILES_FILE"]).getroot()
    ns = {"d": "http://www.eprosima.com"}
    transports = {t.find("d:transport_id", ns).text: t for t in root.iterfind(".//d:transport_descriptor", ns)}
    used = [transports[t.text] for t in root.iterfind(".//d:userTransports/d:transport_id", ns)]
    assert [t.find("d:type", ns).text for t in used] == ["SHM", "UDPv4"]
    assert int(used[0].find("d:segment_size", ns).text) == 32 * 2**20
    assert root.find(".//d:participant", ns).get("is_default_profile") == "true"
