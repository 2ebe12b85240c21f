# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Priorities of outgoing packets. They depend on the service level and the traffic class that programs ask for, on
those that the administrator permits, and on the priorities that the administrator assigns."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from framework.endpoint import QKEY, connect
from framework.hosts import PriorityHosts, serving
from framework.lab import TIMEOUT_S
from framework.native import NativeGuest

pytestmark = [pytest.mark.hosts, pytest.mark.roce]

TAP = Path(__file__).parent / "guest/frame_priorities.py"
# What a program asks for (DSCP, service level): what its frames have (DSCP, priority).
FRAMES = {
    (0, 0): (0, 1),
    (26, 0): (26, 4),
    (46, 0): (46, 5),  # the default
    (26, 3): (26, 6),
    (0, 5): (0, 5),
    (10, 2): (0, 1),  # neither is permitted
    (26, 2): (26, 4),
    (10, 3): (0, 6),
}


@pytest.fixture(scope="module")
def guests(lab, record) -> Iterator[list[NativeGuest]]:
    with serving(PriorityHosts(record, 9)) as guests:
        yield guests


@pytest.fixture
def next_frame(guests) -> Iterator[Callable[[], tuple[int, int]]]:
    """Reads the DSCP and the priority of the next frame that leaves the first host."""
    hosts = guests[0].lab
    tap = hosts.tool(guests[0].name, "/usr/bin/python3", str(TAP), "lan")
    assert tap.next_line(TIMEOUT_S) == "watching\n"

    def read() -> tuple[int, int]:
        dscp, priority = tap.next_line(TIMEOUT_S).split()
        return int(dscp), int(priority)

    yield read
    tap.kill()


@pytest.mark.parametrize(("asked", "seen"), FRAMES.items(), ids=str)
def test_connected(endpoint, guests, next_frame, asked, seen):
    """Sends by a connection of each service level and class; expects the frame to have the priority that the
    administrator has assigned."""
    dscp, level = asked
    left, right = (endpoint(guest).initialize() for guest in guests)
    route = {"dgid": right.gid.address, "sgid_index": left.gid.index, "traffic_class": dscp << 2, "sl": level}
    left.connect(right, ah_attr=route)
    right.connect(left)
    right.receive()
    left.send()
    assert left.sent() == right.received() == ["SUCCESS"]
    assert next_frame() == seen


@pytest.mark.parametrize(("asked", "seen"), FRAMES.items(), ids=str)
def test_datagram(endpoint, guests, next_frame, asked, seen):
    """The same for a datagram, by its address handle."""
    dscp, level = asked
    left, right = (endpoint(guest, "UD") for guest in guests)
    connect(left, right)
    to = left.pd.ah(dgid=right.gid.address, sgid_index=left.gid.index, traffic_class=dscp << 2, sl=level)
    right.receive(length=1024)
    left.send(ah=to, qpn=right.qp.num, qkey=QKEY)
    assert left.sent() == right.received() == ["SUCCESS"]
    assert next_frame() == seen
