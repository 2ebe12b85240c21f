# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Transports of an uplink that are not the default here: AF_XDP on both hosts, and on one."""

import time
from collections.abc import Iterator

import pytest

from framework.connections import PINGS, rounds, rping, start_pair
from framework.endpoint import connect
from framework.hosts import TransportHosts, serving
from framework.lab import TIMEOUT_S
from framework.native import NativeGuest
from test_pingpong import PROGRAMS, assert_done
from test_rdma_cm import mckey

pytestmark = [pytest.mark.hosts, pytest.mark.roce]

TRANSPORTS = [("af_xdp", "af_xdp"), ("af_xdp", "af_packet")]


@pytest.fixture(scope="module", params=enumerate(TRANSPORTS, 1), ids=lambda numbered: "-".join(numbered[1]))
def guests(request, lab, record) -> Iterator[list[NativeGuest]]:
    number, transports = request.param
    hosts = TransportHosts(record, number, transports)
    with serving(hosts) as guests:
        assert [hosts.xdp(name) for name in hosts.addresses] == [transport == "af_xdp" for transport in transports]
        yield guests


@pytest.mark.parametrize("gid_type", ["RoCE v2", "IB/RoCE v1"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_pingpong(pair, guests, program, gid_type):
    """Sends 100 messages each way by both types of packets; expects all to arrive intact."""
    for result in pair(f"{program} -c -n 100", *guests, gid_type=gid_type):
        assert_done(result.stdout, 100)


@pytest.mark.parametrize("family", [4, 6])
def test_rping(guests, family):
    """Connects by IPv4 and IPv6, so that the hosts resolve each other's Ethernet addresses; expects every round to
    succeed."""
    assert rounds(*start_pair(guests[0], guests[1], *rping(guests[0], family))) == PINGS


def test_multicast(device, guests):
    """Joins a group on both hosts and sends to it from one; expects 10 messages for each of two members on both."""
    receivers = [mckey(guest, "-c 2") for guest in guests]
    for process in (*receivers, mckey(guests[1], "-s")):
        assert "data transfers complete" in process.wait(TIMEOUT_S).stdout


@pytest.mark.parametrize("program", ["ib_write_bw", "ib_read_bw"])
def test_bandwidth(pair, guests, program):
    """Moves 128 MiB, with each side as the server once; expects it to complete."""
    for server, client in (guests, reversed(guests)):
        pair(f"{program} -F -n 2000 -s 65536", server, client)


def test_data(endpoint, guests):
    """Sends 120 messages of 0 to 64 KiB in pieces each way at once; expects all to be intact."""
    room = {"buffer": 1 << 18, "max_send_sge": 4, "max_recv_sge": 4}
    pairs = [tuple(endpoint(guest, process=process, **room) for guest in order)
             for process, order in enumerate((guests, guests[::-1]), 1)]
    receiving, sending = [], []
    for number, (left, right) in enumerate(pairs):
        connect(left, right, min_rnr_timer=1)
        receiving.append(right.qp.begin("receive_messages", right.recv_cq, right.mr, number, 120, 4))
    for number, (left, _) in enumerate(pairs):
        sending.append(left.qp.begin("send_messages", left.send_cq, left.mr, number, 120, 4))
    for sent in sending:
        sent()
    assert [received() for received in receiving] == ["", ""]


def test_interface_made_anew(pair, guests):
    """Replaces both interfaces by new ones; expects AF_XDP on the same hosts as before, and messages to arrive."""
    hosts = guests[0].lab
    ways = [hosts.xdp(name) for name in hosts.addresses]
    hosts.lay_anew()
    deadline = time.monotonic() + TIMEOUT_S
    while [hosts.xdp(name) for name in hosts.addresses] != ways:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for result in pair("ibv_rc_pingpong -c -n 100", *guests):
        assert_done(result.stdout, 100)
