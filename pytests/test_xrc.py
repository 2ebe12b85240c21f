# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""XRC (IBA A14): each request of a sender names the shared receive queue at the other side that it is for."""

import errno

import pytest

from framework.endpoint import init_attributes, rtr_attributes, rts_attributes
from framework.verbs import refused

SLOT = 256
COMMON_RTS = {name: value for name, value in rts_attributes("RC").items() if name in ("qp_state", "sq_psn", "timeout")}


class Receiver:
    """A receiver: a shared receive queue of a domain, with a protection domain and a CQ of its own."""

    def __init__(self, device, xrcd) -> None:
        self.pd = device.pd()
        self.mr = self.pd.mr(1 << 16, ("LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC"))
        self.cq = device.cq()
        self.srq = self.pd.xrc_srq(xrcd, self.cq)

    def post(self, number: int, lkey: int | None = None) -> None:
        self.srq.post_recv(number, [[self.mr.addr + number * SLOT, SLOT, self.mr.lkey if lkey is None else lkey]])


class Connection:
    """A sender in one guest, and in the other guest the queue pair that receives for a domain."""

    def __init__(self, left, right, left_gid, right_gid) -> None:
        self.pd = left.pd()
        self.mr = self.pd.mr(1 << 16, ("LOCAL_WRITE",))
        self.cq = left.cq()
        self.sender = self.pd.xrc_send_qp(self.cq)
        self.device, self.xrcd = right, right.xrcd()
        self.receiver = right.xrc_recv_qp(self.xrcd)
        for qp, peer, gid, peer_gid in ((self.sender, self.receiver, left_gid, right_gid),
                                        (self.receiver, self.sender, right_gid, left_gid)):
            qp.modify(**init_attributes("RC"))
            qp.modify(**rtr_attributes("RC", peer.num, peer_gid.address, gid.index))
        self.sender.modify(**rts_attributes("RC"))
        self.receiver.modify(**COMMON_RTS)

    def request(self, srq: int, opcode: str = "SEND", length: int = 8, **how) -> str:
        """Posts a request; returns its status."""
        self.sender.post_send(opcode, 0, [[self.mr.addr, length, self.mr.lkey]], srq=srq, **how)
        (completion,) = self.cq.wait()
        return completion.status


@pytest.fixture
def connection(device, open_device, guest0, guest1):
    return Connection(open_device(guest0), open_device(guest1), guest0.gid(device), guest1.gid(device))


def test_messages_go_where_they_say(connection):
    """Sends in turn to two queues; expects each message in a receive of the named queue, completed there."""
    receivers = [Receiver(connection.device, connection.xrcd) for _ in range(2)]
    assert receivers[0].srq.num != receivers[1].srq.num
    for number in range(40):
        receiver = receivers[number % 2]
        receiver.post(number)
        checksum = connection.mr.fill(seed=number, length=32)
        assert connection.request(receiver.srq.num, length=32) == "SUCCESS"
        (received,) = receiver.cq.wait()
        assert (received.status, received.opcode, received.wr_id) == ("SUCCESS", "RECV", number)
        assert (received.byte_len, received.qp_num) == (32, connection.receiver.num)
        assert receiver.mr.checksum(number * SLOT, 32) == checksum
        assert not receivers[(number + 1) % 2].cq.poll()


def test_memory_of_the_queues_owner(connection):
    """Writes, reads and adds with keys of the named queue's domain; expects success. Uses another domain's; expects
    REM_ACCESS_ERR."""
    first, second = (Receiver(connection.device, connection.xrcd) for _ in range(2))
    for opcode in ("RDMA_WRITE", "RDMA_READ", "ATOMIC_FETCH_AND_ADD"):
        for receiver in (first, second):
            assert connection.request(receiver.srq.num, opcode,
                                      target=[receiver.mr.addr, receiver.mr.rkey]) == "SUCCESS"
    assert connection.request(first.srq.num, "RDMA_WRITE", target=[second.mr.addr, second.mr.rkey]) == "REM_ACCESS_ERR"
    assert connection.receiver.query().qp_state == "ERR"


def test_immediate(connection):
    """Writes with immediate data; expects it in a completion of the named queue."""
    receiver = Receiver(connection.device, connection.xrcd)
    receiver.post(3)
    assert connection.request(receiver.srq.num, "RDMA_WRITE_WITH_IMM", imm=77,
                              target=[receiver.mr.addr, receiver.mr.rkey]) == "SUCCESS"
    (received,) = receiver.cq.wait()
    assert (received.opcode, received.wr_id, received.imm) == ("RECV_RDMA_WITH_IMM", 3, 77)


@pytest.mark.parametrize("which", ["none", "another domain's", "an ordinary one"])
def test_a_queue_that_is_not_the_domains(connection, which):
    """Names no queue, or one outside of the receiver's domain; expects REM_INV_REQ_ERR and the receiver's event."""
    receiver = Receiver(connection.device, connection.device.xrcd())
    number = receiver.srq.num
    if which == "none":
        number += 1000
    elif which == "an ordinary one":
        receiver.pd.srq()
        number += 1  # SRQ numbers are consecutive
    receiver.post(0)
    assert connection.request(number) == "REM_INV_REQ_ERR"
    assert connection.sender.query().qp_state == "ERR"
    assert "QP_REQ_ERR" in connection.device.await_event("QP_REQ_ERR", 10)
    assert not receiver.cq.poll()


def test_a_receive_that_cannot_be_used(connection):
    """Posts a receive with a key of another domain; expects LOC_PROT_ERR for its owner, REM_OP_ERR for the sender."""
    first, second = (Receiver(connection.device, connection.xrcd) for _ in range(2))
    first.post(5, lkey=second.mr.lkey)
    assert connection.request(first.srq.num) == "REM_OP_ERR"
    (failed,) = first.cq.wait()
    assert (failed.status, failed.wr_id) == ("LOC_PROT_ERR", 5)


def test_receives_come_back(connection):
    """Uses each of a queue's places three times over; expects none to be lost."""
    receiver = Receiver(connection.device, connection.xrcd)
    for _ in range(3):
        for number in range(receiver.srq.max_wr):
            receiver.post(number)
        assert refused(receiver.post, 0) == errno.ENOMEM
        for number in range(receiver.srq.max_wr):
            assert connection.request(receiver.srq.num) == "SUCCESS"
            assert [each.wr_id for each in receiver.cq.wait()] == [number]


def test_a_receiver_without_anything(device, open_device, guest0):
    """Makes queue pairs that receive and have no queues, and destroys each; expects success for their domain then."""
    opened = open_device(guest0)
    xrcd = opened.xrcd()
    for _ in range(3):
        opened.xrc_recv_qp(xrcd).close()
    xrcd.close()


def test_domains_of_files(connection, tmp_path):
    """Opens a file's domain with every combination of flags; expects the errors that ib_uverbs gives."""
    name = f"/tmp/{tmp_path.name}-xrcd"
    assert refused(connection.device.xrcd, name, ()) == errno.EAGAIN
    domain = connection.device.xrcd(name)
    same = connection.device.xrcd(name, ())
    assert refused(connection.device.xrcd, name, ("CREAT", "EXCL")) == errno.EINVAL
    domain.close()
    receiver = Receiver(connection.device, same)
    receiver.srq.close()
    same.close()
    assert refused(connection.device.xrcd, name, ()) == errno.EAGAIN
