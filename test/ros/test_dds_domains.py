"""Pins that every demo and test gets a ROS domain of its own: two runs that share one drive each other's arm."""

import socket
import subprocess
import sys

import pytest

from flashrt_ros.ros import dds

# Claims a domain, says which, and holds it until it is killed.
HOLDER = """
import sys
from pathlib import Path
from flashrt_ros.ros import dds
with dds.claim_domain(Path(sys.argv[1])) as domain:
    print(domain, flush=True)
    sys.stdin.read()
"""


def test_claims_differ_and_are_given_back(tmp_path):
    with dds.claim_domain(tmp_path) as first, dds.claim_domain(tmp_path) as second:
        assert first != second
    with dds.claim_domain(tmp_path) as again:
        assert again == first


def test_an_error_inside_gives_the_domain_back(tmp_path):
    with pytest.raises(KeyError), dds.claim_domain(tmp_path) as first:
        raise KeyError
    with dds.claim_domain(tmp_path) as again:
        assert again == first


def test_another_process_holds_its_claim_until_it_dies(tmp_path):
    """Also when it is killed: a lock that needs tidying up would use the domains up one crash after another."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        theirs = int(holder.stdout.readline())
        with dds.claim_domain(tmp_path) as ours:
            assert ours != theirs
        holder.kill()
        holder.wait()
        with dds.claim_domain(tmp_path) as ours:
            assert ours == theirs


def test_a_domain_in_use_outside_the_scheme_is_passed_over(tmp_path):
    """The user's own robot software knows nothing of our locks; its first participant owns this port."""
    with dds.claim_domain(tmp_path) as first:
        pass
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as participant:
        participant.bind(("", 7400 + 250 * first + 10))
        with dds.claim_domain(tmp_path) as other:
            assert other != first


def test_with_all_domains_taken_the_way_out_is_named(tmp_path, monkeypatch):
    with dds.claim_domain(tmp_path) as only:
        monkeypatch.setattr(dds, "DOMAINS", [only])
        with pytest.raises(dds.DdsError, match="all of the ROS domains.*Stop other demos"), dds.claim_domain(tmp_path):
            pass
