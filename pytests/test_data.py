# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Random messages from random pieces into random pieces. Every byte is compared. The seed is in the test's record."""

import random

import pytest

LARGEST = 1 << 16
COUNT = 120
PIECES = 4
BUFFER = 1 << 18


@pytest.fixture
def seed(record) -> int:
    number = random.SystemRandom().randrange(1 << 32)
    record.note(f"seed {number}")
    return number


@pytest.fixture
def roomy(connected):
    """Two connected sides with room for the largest message in pieces with gaps."""

    def make(kind: str = "RC", process: int = 0):
        room = {"buffer": BUFFER, "max_send_sge": PIECES, "max_recv_sge": PIECES}
        return connected(kind, {**room, "process": process}, min_rnr_timer=1)

    return make


def test_sends(roomy, seed):
    """Sends 120 messages of 0 to 64 KiB from up to 4 pieces into up to 4 others; expects all to be intact."""
    left, right = roomy()
    receiving = right.qp.begin("receive_messages", right.recv_cq, right.mr, seed, COUNT, PIECES)
    left.qp.send_messages(left.send_cq, left.mr, seed, COUNT, PIECES)
    assert receiving() == ""


def test_writes(roomy, seed):
    """Writes 120 messages to two places in turn, announced by immediate data; expects all to be intact."""
    left, right = roomy()
    place = 4096 + 1
    receiving = right.qp.begin("receive_writes", right.recv_cq, right.mr, seed, COUNT, PIECES, place)
    left.qp.send_messages(left.send_cq, left.mr, seed, COUNT, PIECES, "RDMA_WRITE_WITH_IMM", right.target(place))
    assert receiving() == ""


def test_reads(roomy, seed):
    """Reads 120 random ranges of a buffer into up to 4 pieces; expects the bytes of the buffer."""
    left, right = roomy()
    right.mr.fill(seed, 0, LARGEST)
    assert left.qp.read_messages(left.send_cq, left.mr, seed, COUNT, PIECES, right.target()) == ""


@pytest.mark.lab
def test_both_ways_at_once(roomy, seed):
    """Sends 60 messages each way at the same time, from two processes in each guest; expects all to be intact."""
    forth, back = roomy(), roomy(process=1)
    receiving, sending = [], []
    for number, (sender, receiver) in enumerate((forth, back[::-1])):
        what = (seed + number, COUNT // 2, PIECES)
        receiving.append(receiver.qp.begin("receive_messages", receiver.recv_cq, receiver.mr, *what))
        sending.append(sender.qp.begin("send_messages", sender.send_cq, sender.mr, *what))
    for finish in sending:
        finish()
    assert [finish() for finish in receiving] == ["", ""]


@pytest.mark.parametrize("length", [1, 4095, 4096, 4097, 1 << 20, 8 << 20])
@pytest.mark.parametrize("opcode", ["RDMA_WRITE", "RDMA_READ", "SEND"])
def test_sizes(connected, seed, opcode, length):
    """Moves messages around page borders and up to 8 MB; expects the same checksum on the other side."""
    left, right = connected(options={"buffer": 8 << 20})
    source, sink = (right, left) if opcode == "RDMA_READ" else (left, right)
    checksum = source.mr.fill(seed, length=length)
    right.receive()
    left.send(opcode, length=length, target=right.target())
    assert left.sent(timeout=50) == ["SUCCESS"]
    if opcode == "SEND":
        assert [completion.byte_len for completion in right.recv_cq.wait()] == [length]
    assert sink.mr.checksum(length=length) == checksum


@pytest.mark.parametrize("length", [1, 40, 41, 1000])
@pytest.mark.parametrize("opcode", ["RDMA_WRITE", "SEND"])
def test_inline(connected, seed, opcode, length):
    """Sends data inline and overwrites its source at once; expects the data at the time of the post."""
    left, right = connected(options={"max_inline_data": 1000})
    checksum = left.mr.fill(seed, length=length)
    right.receive()
    left.send(opcode, length=length, target=right.target(), send_flags=["SIGNALED", "INLINE"])
    left.mr.fill(seed + 1, length=length)
    assert left.sent() == ["SUCCESS"]
    if opcode == "SEND":
        assert right.received() == ["SUCCESS"]
    assert right.mr.checksum(length=length) == checksum


def test_unconnected_sends(roomy, seed):
    """Sends 8 messages on UC with a receive posted for each; expects all to be intact."""
    left, right = roomy("UC")
    for number in range(8):
        checksum = left.mr.fill(seed + number, length=4096 * number + 1)
        right.receive()
        left.send(length=4096 * number + 1)
        assert left.sent() == ["SUCCESS"]
        assert [completion.byte_len for completion in right.recv_cq.wait()] == [4096 * number + 1]
        assert right.mr.checksum(length=4096 * number + 1) == checksum
