# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Messages during failures of the libfabric connection that carries them between two hosts (--where fabric)."""

import re
import time

import pytest

from framework.connections import PINGS, rounds, rping, start_pair

pytestmark = pytest.mark.fabric

SEED = 7
COUNT = 150
PIECES = 4
RESTARTS = 3
ROOM = 1024
# 4.096 us * 2^14 is 67 ms, with three retries.
IMPATIENT = {"timeout": 14, "retry_cnt": 3}


@pytest.fixture
def first(lab) -> str:
    """A host at which the tests cut the network."""
    return next(iter(lab.addresses))


@pytest.fixture
def roomy(connected):
    """Two connected sides with the default timeout of a second, and seven retries."""
    return connected(options={"buffer": 1 << 18, "max_send_sge": PIECES, "max_recv_sge": PIECES}, min_rnr_timer=1)


@pytest.fixture
def transfer(roomy):
    """Starts to send random messages. Gives a function that waits for all messages and returns their errors."""
    left, right = roomy
    receiving = right.qp.begin("receive_messages", right.recv_cq, right.mr, SEED, COUNT, PIECES)
    sending = left.qp.begin("send_messages", left.send_cq, left.mr, SEED, COUNT, PIECES)

    def end() -> str:
        sending()
        return receiving()

    return end


def test_mtu(device, guest0):
    """Queries the port's MTU; expects the largest that exists, whatever the interface's MTU is."""
    assert re.search(r"active_mtu:\s+4096 ", guest0.run(f"ibv_devinfo -d {device}").stdout)


@pytest.mark.parametrize("family", [4, 6])
def test_rping(guest0, guest1, family):
    """Connects by IPv4 and IPv6; expects every round to succeed."""
    assert rounds(*start_pair(guest0, guest1, *rping(guest0, family))) == PINGS


def test_cut_and_restored(lab, first, transfer):
    """Resets the connection again and again while 150 messages are sent; expects each to arrive once and intact."""
    cuts = 0
    deadline = time.monotonic() + 60
    while cuts < 3 and time.monotonic() < deadline:
        cuts += lab.cut(first)
        time.sleep(0.2)
    assert transfer() == ""
    assert cuts >= 3


def test_link_down_for_a_while(lab, first, transfer):
    """Disables the network for a second and a half in the middle of a transfer; expects each message to arrive intact.
    """
    lab.link(first, "down")
    time.sleep(1.5)
    lab.link(first, "up")
    assert transfer() == ""


def test_budget_spent(lab, first, connected):
    """Disables the network for longer than a QP retries; expects its message to fail, and later messages to be sent.
    """
    left, right = connected(**IMPATIENT)
    right.receive()
    lab.link(first, "down")
    left.send()
    statuses = left.sent(timeout=60)
    lab.link(first, "up")
    assert statuses == ["RETRY_EXC_ERR"]
    deadline = time.monotonic() + 60
    while True:  # TCP retransmits with growing intervals
        again, there = connected()
        there.receive()
        again.send()
        if again.sent(timeout=60) == ["SUCCESS"]:
            break
        assert time.monotonic() < deadline


def test_vrdmad_restarts(lab, connected):
    """Posts SENDs and WRITEs on both sides while one host has no vrdmad; expects the next one to continue the
    connection, and all to be carried out. The hosts begin each time with a new connection of libfabric."""
    sides = connected()
    for _ in range(RESTARTS):
        lab.stop_mediator()
        for side, peer in (sides, sides[::-1]):
            side.receive(offset=ROOM)
            side.send()
            side.send("RDMA_WRITE", target=peer.target())
        assert sides[0].sent(1, timeout=0.1) == sides[1].sent(1, timeout=0.1) == []
        lab.start_mediator_again()
        for side in sides:
            assert side.sent(2) == ["SUCCESS"] * 2
            assert side.received() == ["SUCCESS"]
