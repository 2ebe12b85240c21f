# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Unreliable datagrams: address handles, Q_Keys, the 40 bytes of GRH, and dropped datagrams (IBA 9.8.3, 11.4.1)."""

import ipaddress

import pytest

from framework.endpoint import QKEY

GRH = 40
LARGEST_MTU = 4096
CONTROLLED_QKEY = 0x80000000  # with this bit the sender's own Q_Key is used (IBA 10.2.5)


def address_of(left, right):
    """An address handle of `left` that leads to `right`."""
    return left.pd.ah(dgid=right.gid.address, sgid_index=left.gid.index)


def send(left, right, length: int = 64, qkey: int = QKEY, **how) -> list[str]:
    """Sends a datagram; returns its status."""
    left.send(length=length, ah=address_of(left, right), qpn=right.qp.num, qkey=qkey, **how)
    return left.sent()


@pytest.mark.parametrize("length", [0, 1, 64, 1024])
def test_grh_and_payload(connected, length):
    """Sends datagrams; expects the payload behind 40 bytes of GRH, a length of both, and the sender's number."""
    left, right = connected("UD")
    checksum = left.mr.fill(seed=length, length=length)
    right.receive(length=GRH + length)
    assert send(left, right, length) == ["SUCCESS"]
    (completion,) = right.recv_cq.wait()
    assert (completion.status, completion.opcode, completion.byte_len) == ("SUCCESS", "RECV", GRH + length)
    assert completion.grh
    assert completion.src_qp == left.qp.num
    assert right.mr.checksum(GRH, length) == checksum


def test_grh_names_the_sender(connected):
    """Sends from an IPv4 address; expects that address as the source in the IPv4 header at the GRH's end."""
    left, right = connected("UD")
    right.receive()
    assert send(left, right) == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]
    header = bytes.fromhex(right.mr.read(GRH - 20, 20))
    addresses = [ipaddress.IPv6Address(side.gid.address).ipv4_mapped for side in (left, right)]
    assert [ipaddress.IPv4Address(header[12:16]), ipaddress.IPv4Address(header[16:20])] == addresses


def test_answer_by_the_completion(connected):
    """Makes an address handle from a datagram's completion and GRH; expects the answer to reach the sender."""
    left, right = connected("UD")
    right.receive()
    left.receive()
    assert send(left, right) == ["SUCCESS"]
    (completion,) = right.recv_cq.wait()
    back = right.pd.ah_of_sender(right.recv_cq, right.mr.addr)
    right.send(length=8, ah=back, qpn=completion.src_qp, qkey=QKEY)
    assert right.sent() == ["SUCCESS"]
    assert left.received() == ["SUCCESS"]


def test_immediate(connected):
    """Sends a datagram with immediate data; expects the same 4 bytes in the completion."""
    left, right = connected("UD")
    right.receive()
    assert send(left, right, opcode="SEND_WITH_IMM", imm=0x01020304) == ["SUCCESS"]
    assert [completion.imm for completion in right.recv_cq.wait()] == [0x01020304]


def arrives(left, right, qkey: int) -> bool:
    """Whether a datagram with this Q_Key is accepted. A marked datagram behind it shows when it would have arrived."""
    right.receive(wr_id=1, length=GRH + 64)
    assert send(left, right, length=1, qkey=qkey) == ["SUCCESS"]
    assert send(left, right, length=2) == ["SUCCESS"]
    (completion,) = right.recv_cq.wait()
    return completion.byte_len == GRH + 1


def test_wrong_qkey(connected):
    """Sends with a Q_Key that is not the receiver's; expects success for the sender, and the datagram to be dropped."""
    left, right = connected("UD")
    assert not arrives(left, right, QKEY ^ 1)


def test_own_qkey(connected):
    """Sends with a Q_Key whose high bit is set; expects the queue pair's own Q_Key to be used, so that it arrives."""
    left, right = connected("UD")
    assert arrives(left, right, CONTROLLED_QKEY | 0x1234)


@pytest.mark.together  # between hosts the arrival of the first is unknown
def test_no_receive(connected):
    """Sends when no receive is posted, then with one; expects only the second to arrive."""
    left, right = connected("UD")
    assert send(left, right, length=1) == ["SUCCESS"]
    right.receive()
    assert send(left, right, length=2) == ["SUCCESS"]
    assert [completion.byte_len for completion in right.recv_cq.wait()] == [GRH + 2]


def test_nobody_there(connected):
    """Sends to a queue pair number that does not exist; expects success for the sender, and a queue pair that works
    afterwards."""
    left, right = connected("UD")
    left.send(ah=address_of(left, right), qpn=right.qp.num ^ 0x800000, qkey=QKEY)
    assert left.sent() == ["SUCCESS"]
    right.receive()
    assert send(left, right) == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]


def test_longer_than_the_mtu(connected):
    """Sends a datagram as long as the port's active MTU; expects it to arrive. Sends one a byte longer than any MTU;
    expects LOC_LEN_ERR."""
    left, right = connected("UD")
    most = left.device.limits().active_mtu
    right.receive()
    assert send(left, right, most) == ["SUCCESS"]
    assert [completion.byte_len for completion in right.recv_cq.wait()] == [GRH + most]
    assert send(left, right, LARGEST_MTU + 1) == ["LOC_LEN_ERR"]
    assert left.state() == "SQE"


def test_send_queue_error_is_left(connected):
    """Recovers from SQE to RTS after a failed send; expects flushes of later requests, and datagrams to arrive after
    the recovery."""
    left, right = connected("UD")
    ah = address_of(left, right)
    lengths = [LARGEST_MTU + 1, 8, 8]
    left.qp.post_sends([{"opcode": "SEND", "wr_id": number, "sges": [left.sge(0, length)], "ah": ah,
                         "qpn": right.qp.num, "qkey": QKEY} for number, length in enumerate(lengths)])  # fmt: skip
    assert left.sent(3) == ["LOC_LEN_ERR", "WR_FLUSH_ERR", "WR_FLUSH_ERR"]
    left.qp.modify(qp_state="RTS", cur_qp_state="SQE")
    right.receive()
    assert send(left, right) == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]


def test_many_senders(endpoint, guest0, guest1):
    """Sends from three queue pairs in two guests to one; expects each completion to name its sender."""
    receiver = endpoint(guest0, "UD")
    senders = [endpoint(guest, "UD") for guest in (guest0, guest1, guest1)]
    for side in (receiver, *senders):
        side.initialize()
        side.connect(receiver)
    for number in range(len(senders)):
        receiver.receive(wr_id=number, offset=256 * number, length=256)
    for sender in senders:
        assert send(sender, receiver) == ["SUCCESS"]
    completions = receiver.recv_cq.wait(len(senders))
    assert {completion.src_qp for completion in completions} == {sender.qp.num for sender in senders}
