# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A host's network link that goes down and comes back: the events for programs, and messages during the outage.

One end of the cable goes down, which takes the carrier from the other. If the link comes back before the retries are
exceeded, messages are only delayed. If it stays down longer, the queue pair fails.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from framework.lab import TIMEOUT_S
from framework.verbs import Remote

pytestmark = [pytest.mark.hosts, pytest.mark.roce]

DOWN, ACTIVE = 1, 4
OUTAGE_S = 0.5
# 4.096 us * 2^18 is a second, with seven retries; 2^14 is 67 ms, with two retries.
PATIENT = {"timeout": 18, "retry_cnt": 7}
IMPATIENT = {"timeout": 14, "retry_cnt": 2}
LARGE, MANY = 32 << 20, 8
TRIES = 5


def await_ports(devices: list[Remote]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not all(device.port(1) == ACTIVE for device in devices):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(params=[0, 1], ids=["this end", "the other end"])
def link(request, lab, guest0, guest1, open_device):
    """Takes the link down at one of its ends, or brings it up. Returns when both devices have reported the change."""
    guest = (guest0, guest1)[request.param]
    devices = [open_device(each) for each in (guest0, guest1)]
    await_ports(devices)

    def hear(event: str) -> None:
        for device in devices:
            assert event in device.await_event(event, TIMEOUT_S)

    def change(up: bool) -> None:
        if up:
            lab.restore(guest.name)
        else:
            lab.ip(guest.name, "link set lan down")
        hear("PORT_ACTIVE" if up else "PORT_ERR")

    yield change
    lab.restore(guest.name)
    await_ports(devices)


def test_port(link, open_device, guest0, guest1):
    """Takes the link down and up; expects both sides to report each change (PORT_ERR, PORT_ACTIVE), and the port to
    have the reported state."""
    devices = [open_device(guest) for guest in (guest0, guest1)]
    for up, state in ((False, DOWN), (True, ACTIVE)):
        link(up)
        assert [device.port(1) for device in devices] == [state, state]


def test_mtu(lab, open_device, guest0):
    """Changes the interface's MTU; expects the port's to be the largest that fits, without an event, as with drivers of
    NICs."""
    device = open_device(guest0)
    try:
        for interface, port in ((9000, 4096), (2300, 2048), (1500, 1024)):
            lab.ip(guest0.name, f"link set lan mtu {interface}")
            deadline = time.monotonic() + TIMEOUT_S
            while device.limits().active_mtu != port:
                assert time.monotonic() < deadline
                time.sleep(0.05)
    finally:
        lab.restore(guest0.name)
    assert device.async_event(0.1) is None


def test_short_outage(link, connected):
    """Takes the link down for less time than the retries last, before requests of each kind; expects all to be carried
    out once, with all of their bytes."""
    left, right = connected(**PATIENT)
    sent = left.mr.fill(1, 0, 4096)
    read = right.mr.fill(2, 8192, 4096)
    right.mr.write(16384, "05" + "00" * 7)
    right.receive(offset=0, length=4096)
    link(False)
    left.send(length=4096)
    left.send("RDMA_WRITE", length=4096, target=right.target(4096))
    left.send("RDMA_READ", offset=8192, length=4096, target=right.target(8192))
    left.send("ATOMIC_FETCH_AND_ADD", offset=16384, length=8, target=right.target(16384), compare_add=2)
    assert left.send_cq.wait(1, OUTAGE_S) == []
    link(True)
    assert left.sent(4) == ["SUCCESS"] * 4
    assert right.received(2, 0.5) == ["SUCCESS"]
    assert right.mr.checksum(0, 4096) == right.mr.checksum(4096, 4096) == sent
    assert left.mr.checksum(8192, 4096) == read
    assert left.mr.read(16384, 8) == "05" + "00" * 7
    assert right.mr.read(16384, 8) == "07" + "00" * 7


def test_outage_within_a_message(link, connected):
    """Takes the link down in the middle of a long message; expects all bytes to arrive in the end. A busy machine may
    take it down too late, and then does it again."""
    left, right = connected(options={"buffer": LARGE}, **PATIENT)
    for again in range(TRIES):
        sent = left.mr.fill(3 + again)
        for _ in range(MANY):
            left.send("RDMA_WRITE", length=LARGE, target=right.target())
        link(False)
        before = left.sent(MANY, OUTAGE_S)
        link(True)
        after = left.sent(MANY - len(before), TIMEOUT_S)
        assert before + after == ["SUCCESS"] * MANY
        assert right.mr.checksum() == sent
        if after:
            break
    assert after


@contextmanager
def messages(connected) -> Iterator[None]:
    """Sends messages of all sizes in the background; expects each once and intact."""
    count = 150
    # In separate processes, which make no other calls meanwhile.
    left, right = connected(options={"process": 1, "buffer": 1 << 18, "max_send_sge": 3, "max_recv_sge": 3}, **PATIENT)
    received = right.qp.begin("receive_messages", right.recv_cq, right.mr, 5, count, 3)
    sent = left.qp.begin("send_messages", left.send_cq, left.mr, 5, count, 3)
    yield
    sent()
    assert received() == ""


def test_outage_under_messages(link, connected):
    """Takes the link down and up, twice, while messages of all sizes are sent; expects each once and intact."""
    with messages(connected):
        for _ in range(2):
            link(False)
            time.sleep(OUTAGE_S)
            link(True)


def test_interface_made_anew(lab, connected, open_device, guest0, guest1):
    """Removes both interfaces and makes others of their names while messages are sent. Expects each message once and
    intact, because the link was down for less time than the retries last. Expects new queue pairs to work by the new
    interfaces, which have other Ethernet addresses, and no packet to be answered by a host's own stack."""
    with messages(connected):
        lab.lay_anew()
    await_ports([open_device(guest) for guest in (guest0, guest1)])
    refused = lab.refusals()
    for left, right in (connected(), connected()[::-1]):
        right.receive()
        left.send()
        assert left.sent() == right.received() == ["SUCCESS"]
    assert lab.refusals() == refused


def test_long_outage(link, connected):
    """Takes the link down for longer than the retries last. Expects the request to fail, later ones to be flushed, the
    queue pair to be in ERR, and its peer to be unchanged. Expects new queue pairs to work when the link is back."""
    left, right = connected(**IMPATIENT)
    right.receive()
    link(False)
    for number in range(3):
        left.send(wr_id=number)
    assert left.sent(3) == ["RETRY_EXC_ERR", "WR_FLUSH_ERR", "WR_FLUSH_ERR"]
    assert (left.state(), right.state()) == ("ERR", "RTS")
    assert right.received(1, 0.1) == []
    link(True)
    left, right = connected()
    right.receive()
    left.send()
    assert left.sent() == right.received() == ["SUCCESS"]
