"""Pins that every demo and test gets a ROS domain of its own: two runs that share one drive each other's arm."""

import os
import socket
import subprocess
import sys
import uuid

import pytest

from flashrt_ros.ros import dds

# Claims a domain, says which, and holds it until it is killed.
HOLDER = """
import sys
from flashrt_ros.ros import dds
with dds.claim_domain(sys.argv[1]) as domain:
    print(domain, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def scheme():
    """Claims of this test's own: others on the machine come and go meanwhile."""
    return f"test {uuid.uuid4()}"


def test_claims_differ_and_are_given_back(scheme):
    with dds.claim_domain(scheme) as first, dds.claim_domain(scheme) as second:
        assert first != second
    with dds.claim_domain(scheme) as again:
        assert again == first


def test_an_error_inside_gives_the_domain_back(scheme):
    with pytest.raises(KeyError), dds.claim_domain(scheme) as first:
        raise KeyError
    with dds.claim_domain(scheme) as again:
        assert again == first


def test_another_process_holds_its_claim_until_it_dies(scheme):
    """Also when it is killed: a lock that needs tidying up would use the domains up one crash after another."""
    command = [sys.executable, "-c", HOLDER, scheme]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        theirs = int(holder.stdout.readline())
        with dds.claim_domain(scheme) as ours:
            assert ours != theirs
        holder.kill()
        holder.wait()
        with dds.claim_domain(scheme) as ours:
            assert ours == theirs


def test_a_claim_counts_for_another_home(scheme):
    """Two users, or a container beside its host, share the network and so the domain, but no directory."""
    command = [sys.executable, "-c", HOLDER, scheme]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "HOME": "/nowhere"}) as holder:
        theirs = int(holder.stdout.readline())
        with dds.claim_domain(scheme) as ours:
            assert ours != theirs
        holder.kill()


def test_a_domain_in_use_outside_the_scheme_is_passed_over(scheme):
    """The user's own robot software knows nothing of our locks; its first participant owns this port."""
    with dds.claim_domain(scheme) as first:
        pass
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as participant:
        participant.bind(("", 7400 + 250 * first + 10))
        with dds.claim_domain(scheme) as other:
            assert other != first


def test_with_all_domains_taken_the_way_out_is_named(scheme, monkeypatch):
    with dds.claim_domain(scheme) as only:
        monkeypatch.setattr(dds, "DOMAINS", [only])
        with pytest.raises(dds.DdsError, match="all of the ROS domains.*Stop other demos"), dds.claim_domain(scheme):
            pass
