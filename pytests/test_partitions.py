# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Partitions: the P_Keys that the administrator gives devices decide which devices can communicate (IBA 10.9)."""

import errno
from collections.abc import Iterator

import pytest

from framework.connections import PINGS, rounds, rping, start_pair
from framework.endpoint import QKEY
from framework.hosts import PartitionHosts, serving
from framework.native import NativeGuest
from framework.verbs import refused

pytestmark = [pytest.mark.hosts, pytest.mark.roce]

LEFT, RIGHT = PartitionHosts.PKEYS


def shared(left: int, right: int) -> bool:
    return left & 0x7FFF == right & 0x7FFF and bool((left | right) & 0x8000)


PAIRS = [(left, right) for left in range(len(LEFT)) for right in range(len(RIGHT))]


def names(pair: tuple[int, int]) -> str:
    return f"{LEFT[pair[0]]:#x}-{RIGHT[pair[1]]:#x}"


@pytest.fixture(scope="module")
def guests(lab, record) -> Iterator[list[NativeGuest]]:
    with serving(PartitionHosts(record, 8)) as guests:
        yield guests


def test_table(guests, open_device):
    """Reads the tables; expects the P_Keys of the configuration, in its order."""
    devices = [open_device(guest) for guest in guests]
    assert [device.pkeys() for device in devices] == [[*LEFT], [*RIGHT]]
    assert [device.limits().max_pkeys for device in devices] == [len(LEFT), len(RIGHT)]


@pytest.mark.parametrize("pair", PAIRS, ids=names)
def test_connection(endpoint, guests, pair):
    """Sends by a connection; expects the message to arrive in a partition of both sides, and no answer in other
    partitions."""
    left, right = (endpoint(guest).initialize(pkey_index=index) for guest, index in zip(guests, pair, strict=True))
    left.connect(right, timeout=14, retry_cnt=1)
    right.connect(left)
    right.receive()
    left.send()
    if shared(LEFT[pair[0]], RIGHT[pair[1]]):
        assert left.sent() == right.received() == ["SUCCESS"]
    else:
        assert left.sent() == ["RETRY_EXC_ERR"]
        assert right.received(1, 0.1) == []


@pytest.mark.parametrize("pair", PAIRS, ids=names)
def test_datagram(endpoint, guests, pair):
    """Sends a datagram, and a marked one after it in the default partition; expects the first only in a shared one."""
    left, right = (endpoint(guest, "UD").initialize(pkey_index=index) for guest,
                   index in zip(guests, pair, strict=True))
    sender = left.another().initialize(pkey_index=LEFT.index(0xFFFF))
    receiver = right.another().initialize(pkey_index=RIGHT.index(0xFFFF))
    for one, other in ((left, right), (right, left), (sender, receiver), (receiver, sender)):
        one.connect(other)
    to = left.pd.ah(dgid=right.gid.address, sgid_index=left.gid.index)
    for side in (right, receiver):
        side.receive(length=1024)
    for side, peer in ((left, right), (sender, receiver)):
        side.send(ah=to, qpn=peer.qp.num, qkey=QKEY)
        assert side.sent() == ["SUCCESS"]
    assert receiver.received() == ["SUCCESS"]
    assert right.received(1, 0.1) == (["SUCCESS"] if shared(LEFT[pair[0]], RIGHT[pair[1]]) else [])


@pytest.mark.parametrize("index", [3, 0xFFFF])
def test_no_such_index(endpoint, guests, index):
    """Uses an index that the P_Key table does not have; expects a refusal."""
    assert refused(endpoint(guests[0]).initialize, pkey_index=index) == errno.EINVAL


def test_rdma_cm(guests):
    """Connects by the connection manager. Its messages and connections are in the default partition, at any index of
    the table. Expects every round to succeed."""
    assert rounds(*start_pair(guests[0], guests[1], *rping(guests[0], 4))) == PINGS
