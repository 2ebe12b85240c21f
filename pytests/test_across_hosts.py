# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Tests that need two hosts. The other tests of verbs run between them as well (--where hosts)."""

import ipaddress
import re
from types import SimpleNamespace

import pytest

from framework.connections import PINGS, rounds, rping, start_pair
from test_pingpong import PROGRAMS, assert_done

pytestmark = [pytest.mark.hosts, pytest.mark.roce]


def gid_of(address: str) -> str:
    return ipaddress.IPv6Address(f"::ffff:{address}").exploded


@pytest.fixture
def quiet(lab, open_device, guest0, guest1):
    """Holds a device of each host open, so that its addresses exist all the time. Expects in the end that neither
    host's own stack has answered a packet."""
    for guest in (guest0, guest1):
        open_device(guest)
    before = lab.refusals()
    yield
    assert lab.refusals() == before


@pytest.mark.parametrize("gid_type", ["RoCE v2", "IB/RoCE v1"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_pingpong(quiet, pair, program, gid_type):
    """Sends 100 messages each way by both types of packets; expects all to arrive intact, and only at the devices."""
    for result in pair(f"{program} -c -n 100", gid_type=gid_type):
        assert_done(result.stdout, 100)


@pytest.mark.parametrize("family", [4, 6])
def test_rping(quiet, guest0, guest1, family):
    """Connects by IPv4 and IPv6; expects every round to succeed, and packets to arrive only at the devices."""
    assert rounds(*start_pair(guest0, guest1, *rping(guest0, family))) == PINGS


@pytest.mark.parametrize("address", ["10.98.0.99", "192.0.2.1"])
def test_nobody_there(endpoint, connected, guest0, address):
    """Sends to an address that no host has, and to one without a route; expects the retries to be exceeded, and a
    message to another peer to arrive meanwhile."""
    absent = SimpleNamespace(qp=SimpleNamespace(num=0x1234), gid=SimpleNamespace(address=gid_of(address)))
    lonely = endpoint(guest0).initialize()
    lonely.connect(absent, timeout=16, retry_cnt=1)
    left, right = connected()
    lonely.send()
    right.receive()
    left.send()
    assert left.sent() == right.received() == ["SUCCESS"]
    assert lonely.sent() == ["RETRY_EXC_ERR"]


def test_mtu(device, guest0):
    """Queries the port's MTU; expects the largest that fits into the interface's MTU of 1500."""
    assert re.search(r"active_mtu:\s+1024 ", guest0.run(f"ibv_devinfo -d {device}").stdout)
