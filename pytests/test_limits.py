# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Limits of messages, work requests, queues and objects: granted sizes work, and larger ones are refused."""

import errno

import pytest

from framework.verbs import refused

PIECE = 4096
EXHAUST_S = 300.0  # for all queue pairs of a device: 45 s under the emulator when it has a processor for itself


def test_too_long_a_message(connected):
    """Sends one byte more than the port's max_msg_sz, made of many pieces; expects LOC_LEN_ERR."""
    left, right = connected(options={"max_send_sge": 30, "buffer": 72 << 20})
    longest = left.device.limits().max_msg_sz
    pieces = [left.sge() for _ in range(longest // left.mr.length)]
    pieces.append(left.sge(0, longest + 1 - sum(piece[1] for piece in pieces)))
    assert len(pieces) <= 30
    left.qp.post_send("RDMA_WRITE", 1, pieces, target=right.target())
    assert left.sent(timeout=60) == ["LOC_LEN_ERR"]


def test_largest_scatter_and_gather(connected, open_device, guest0):
    """Sends from as many pieces as the device grants into as many others; expects every byte in its place."""
    most = open_device(guest0).limits().max_sge
    left, right = connected(options={"max_send_sge": most, "max_recv_sge": most})
    checksum = left.mr.fill(seed=2, length=most * 100)
    right.qp.post_recv(1, [right.sge(100 * number, 100) for number in range(most)])
    left.qp.post_send("SEND", 1, [left.sge(100 * number, 100) for number in range(most)])
    assert left.sent() == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]
    assert right.mr.checksum(length=most * 100) == checksum


def test_one_piece_too_many(connected):
    """Posts a send and a receive with more pieces than the queue pair has room for; expects EINVAL for both."""
    left, _ = connected(options={"max_send_sge": 2, "max_recv_sge": 2})
    too_many = [left.sge(PIECE * number, 1) for number in range(left.qp.cap["max_send_sge"] + 1)]
    assert refused(left.qp.post_send, "SEND", 1, too_many) == errno.EINVAL
    too_many = [left.sge(PIECE * number, 1) for number in range(left.qp.cap["max_recv_sge"] + 1)]
    assert refused(left.qp.post_recv, 1, too_many) in (errno.EINVAL, errno.ENOMEM)


def test_full_queues(connected):
    """Posts until both queues are full; expects ENOMEM for the next, and success after completions were polled."""
    left, right = connected()
    for number in range(left.qp.cap["max_recv_wr"]):
        left.receive(wr_id=number)
    assert refused(left.receive) == errno.ENOMEM
    for number in range(left.qp.cap["max_send_wr"]):
        left.send(wr_id=number)
    assert refused(left.send) == errno.ENOMEM
    for number in range(left.qp.cap["max_send_wr"]):
        right.receive(wr_id=number)
    assert left.sent(left.qp.cap["max_send_wr"]) == ["SUCCESS"] * left.qp.cap["max_send_wr"]
    assert right.received(1) == ["SUCCESS"]
    right.receive()
    left.send()
    assert left.sent() == ["SUCCESS"]


def test_inline_limit(connected):
    """Sends as many bytes inline as the queue pair grants; expects them to arrive. Sends one more; expects EINVAL."""
    left, right = connected(options={"max_inline_data": 100})
    granted = left.qp.cap["max_inline_data"]
    assert granted >= 100
    checksum = left.mr.fill(seed=3, length=granted)
    right.receive()
    left.send(length=granted, send_flags=["SIGNALED", "INLINE"])
    assert left.sent() == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]
    assert right.mr.checksum(length=granted) == checksum
    assert refused(left.send, length=granted + 1, send_flags=["SIGNALED", "INLINE"]) == errno.EINVAL


def test_inline_needs_no_key(connected):
    """Sends inline with a local key that does not exist; expects success, because the data is in the work request."""
    left, right = connected(options={"max_inline_data": 64})
    right.receive()
    address, length, lkey = left.sge(0, 64)
    left.qp.post_send("SEND", 1, [[address, length, lkey ^ 1]], send_flags=["SIGNALED", "INLINE"])
    assert left.sent() == ["SUCCESS"]


@pytest.mark.parametrize("opcode", ["SEND", "RDMA_WRITE", "RDMA_READ"])
def test_no_bytes(connected, opcode):
    """Carries out an operation of length 0; expects success, and a received length of 0."""
    left, right = connected()
    right.receive()
    left.send(opcode, length=0, target=right.target())
    assert left.sent() == ["SUCCESS"]
    if opcode == "SEND":
        assert [completion.byte_len for completion in right.recv_cq.wait()] == [0]


@pytest.mark.parametrize("cap, limit", [
    ("max_send_wr", "max_qp_wr"), ("max_recv_wr", "max_qp_wr"), ("max_send_sge", "max_sge"),
    ("max_recv_sge", "max_sge"),
])  # fmt: skip
def test_queue_pair_beyond_limits(endpoint, guest0, cap, limit):
    """Asks for a queue pair that exceeds a limit of the device; expects EINVAL."""
    side = endpoint(guest0)
    beyond = {cap: getattr(side.device.limits(), limit) + 1}
    assert refused(side.pd.qp, "RC", side.send_cq, side.recv_cq, **beyond) == errno.EINVAL


def test_completion_queue_beyond_limit(open_device, guest0):
    """Asks for a completion queue with more entries than the device's limit; expects EINVAL. With one entry it
    succeeds."""
    opened = open_device(guest0)
    assert refused(opened.cq, opened.limits().max_cqe + 1) == errno.EINVAL
    assert opened.cq(1).depth >= 1


# The number of objects that the kernel may have itself.
SPARE = 8


# Making tens of thousands of objects takes minutes on an emulated processor.
@pytest.mark.parametrize("kind", [
    "pd", "qp", *(pytest.param(kind, marks=pytest.mark.native) for kind in ("cq", "mr", "srq", "ah")),
])  # fmt: skip
def test_as_many_objects_as_promised(open_device, guest0, kind):
    """Makes objects of a kind until the device refuses with ENOMEM; expects the number of the device's limit, and
    success after all were destroyed."""
    opened = open_device(guest0)
    most = getattr(opened.limits(), f"max_{kind}")
    made, refusal = opened.begin("exhaust", kind, most + 1)(EXHAUST_S)
    assert refusal == errno.ENOMEM
    assert most - SPARE <= made <= most
    assert opened.exhaust(kind, SPARE) == [SPARE, 0]


@pytest.mark.lab
def test_as_many_processes_as_doorbell_pages(open_device, guest0):
    """Opens contexts until the device has no doorbell page for another; expects ENOMEM, and success after all were
    closed."""
    opened = open_device(guest0)
    made, refusal = opened.exhaust("context", 4096)
    assert made >= 8
    assert refusal == errno.ENOMEM
    assert opened.exhaust("context", made) == [made, 0]


@pytest.mark.lab
def test_many_objects_of_many_processes(open_device, guest0):
    """Has four processes make and destroy 500 queue pairs each at once; expects all to succeed."""
    opened = [open_device(guest0, process) for process in range(4)]
    calls = [each.begin("exhaust", "qp", 500) for each in opened]
    assert [call() for call in calls] == [[500, 0]] * 4


def test_region_beyond_limit(open_device, guest0):
    """Registers a region that exceeds the device's limit; expects EINVAL or, because there is no such memory, EFAULT or
    ENOMEM."""
    opened = open_device(guest0)
    beyond = opened.limits().max_mr_size + 1
    assert opened.pd().refused_mr(beyond) in (errno.EINVAL, errno.EFAULT, errno.ENOMEM)


@pytest.mark.parametrize("access", [["REMOTE_WRITE"], ["REMOTE_ATOMIC"]])
def test_remote_right_without_local(open_device, guest0, access):
    """Registers memory that peers but not the owner may write to; expects EINVAL (IBA 10.6.3.1)."""
    assert refused(open_device(guest0).pd().mr, 4096, access) == errno.EINVAL
