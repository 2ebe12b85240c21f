# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Multicast of datagrams (IBA 10.5.2): each queue pair that is attached to a group gets a copy, also the sender's."""

import errno
from ipaddress import ip_address

import pytest

from framework.endpoint import QKEY
from framework.verbs import refused

GRH = 40
GROUP, OTHER, IPV4_GROUP = (ip_address(group).exploded for group in ("ff0e::77", "ff0e::78", "::ffff:e001:203"))
MULTICAST_QPN = 0xFFFFFF


def send(side, gid: str = GROUP, qpn: int = MULTICAST_QPN, length: int = 64) -> int:
    """Sends a datagram to a group; returns its checksum."""
    checksum = side.mr.fill(seed=length, offset=1024, length=length)
    ah = side.pd.ah(dgid=gid, sgid_index=side.gid.index)
    side.send(offset=1024, length=length, ah=ah, qpn=qpn, qkey=QKEY)
    assert side.sent() == ["SUCCESS"]
    return checksum


def expect_copy(sender, receiver, checksum: int, length: int = 64) -> None:
    """Expects one copy, complete, and no other."""
    (completion,) = receiver.recv_cq.wait()
    assert (completion.status, completion.byte_len, completion.grh) == ("SUCCESS", GRH + length, True)
    assert (completion.src_qp, completion.qp_num) == (sender.qp.num, receiver.qp.num)
    assert receiver.mr.checksum(GRH, length) == checksum
    assert not receiver.recv_cq.poll()


@pytest.fixture
def members(connected):
    """Two datagram queue pairs in each guest, each with two receives; none of them is attached yet."""
    left, right = connected("UD")
    sides = [left, right, *connected("UD")]
    for side in sides:
        for _ in range(2):
            side.receive(length=1024)
    return sides


# Packets from an IPv4 address can only go to groups of IPv4.
@pytest.mark.parametrize("group", [pytest.param(GROUP, marks=pytest.mark.together), IPV4_GROUP])
def test_every_member_gets_one_copy(members, group):
    """Attaches all, the sender too, one of them twice; expects one copy for each, with the group in its IP header."""
    for side in (*members, members[1]):
        side.qp.attach(group)
    checksum = send(members[0], group)
    for side in members:
        expect_copy(members[0], side, checksum)
        assert bytes.fromhex(side.mr.read(GRH - 4, 4)) == ip_address(group).packed[-4:]
        side.qp.detach(group)


def test_own_copies_can_be_blocked(members):
    """Attaches a queue pair that blocks its own copies, and another; expects it to get only the other's datagrams."""
    sender = members[0].extend(["SEND"], create_flags=["BLOCK_SELF_MCAST_LB"])
    sender.initialize().connect(sender)
    for side in (sender, members[1]):
        side.qp.attach(IPV4_GROUP)
    for _ in range(2):
        sender.receive(length=1024)
    expect_copy(sender, members[1], send(sender, IPV4_GROUP))
    assert not sender.recv_cq.poll()
    expect_copy(members[1], sender, send(members[1], IPV4_GROUP))
    for side in (sender, members[1]):
        side.qp.detach(IPV4_GROUP)


def test_nobody_else_gets_it(members):
    """Sends to another group, to one without members, and to a member's group by its own number; expects no copies."""
    members[1].qp.attach(OTHER)
    send(members[0], GROUP)
    send(members[0], OTHER, qpn=members[1].qp.num)
    members[2].qp.attach(GROUP)
    expect_copy(members[0], members[2], send(members[0], GROUP))  # earlier copies would have arrived by now
    assert not members[1].recv_cq.poll() and not members[3].recv_cq.poll()
    members[1].qp.detach(OTHER)
    members[2].qp.detach(GROUP)


def test_who_cannot_take_it_misses_it(members):
    """Sends three to a member with another Q_Key, to one with two receives and to one with three; expects losses only
    for the first two."""
    sender, stranger, short, ready = members
    stranger.qp.modify(qp_state="RTS", qkey=QKEY + 1)
    ready.receive(length=1024)
    for side in (stranger, short, ready):
        side.qp.attach(IPV4_GROUP)
    for length in (10, 20, 30):
        send(sender, IPV4_GROUP, length=length)
    assert [each.byte_len for each in ready.recv_cq.wait(3)] == [GRH + 10, GRH + 20, GRH + 30]
    assert [each.byte_len for each in short.recv_cq.wait(2)] == [GRH + 10, GRH + 20]
    for side in (stranger, short, ready):
        assert not side.recv_cq.poll()
        side.qp.detach(IPV4_GROUP)


def test_detached(members):
    """Detaches one of two members; expects it to get no copies afterwards."""
    for side in members[1:3]:
        side.qp.attach(GROUP)
    members[1].qp.detach(GROUP)
    expect_copy(members[0], members[2], send(members[0]))
    assert not members[1].recv_cq.poll()
    members[2].qp.detach(GROUP)


def test_errors(connected, members):
    """Attaches to an address that is no group, attaches a QP of another type, detaches a free one; expects EINVAL."""
    stream, _ = connected("RC")
    assert refused(stream.qp.attach, GROUP) == errno.EINVAL
    assert refused(members[0].qp.attach, "fe80::1") == errno.EINVAL
    assert refused(members[0].qp.detach, GROUP) == errno.EINVAL


def test_limits(endpoint, guest0):
    """Attaches to as many groups, and to one as many queue pairs, as the limits; expects ENOMEM for one more."""
    side = endpoint(guest0, "UD")
    limits = side.device.limits()
    *groups, one_more = (ip_address(f"ff0e::1:{number:x}").exploded for number in range(limits.max_mcast_grp + 1))
    members = [side.pd.qp("UD", side.send_cq, side.recv_cq) for _ in range(limits.max_mcast_qp_attach)]
    for group in groups:
        side.qp.attach(group)
    assert refused(side.qp.attach, one_more) == errno.ENOMEM
    for qp in members[1:]:
        qp.attach(groups[0])
    assert refused(members[0].attach, groups[0]) == errno.ENOMEM
    for qp in members[1:]:
        qp.detach(groups[0])
    for group in groups:
        side.qp.detach(group)


def test_destroyed_after_it_is_detached(members):
    """Destroys a queue pair that is attached; expects EBUSY until it is detached."""
    members[0].qp.attach(GROUP)
    assert refused(members[0].qp.close) == errno.EBUSY
    members[0].qp.detach(GROUP)
    members[0].qp.close()
