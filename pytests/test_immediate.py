# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Immediate data, with sends and with RDMA writes (IBA 9.4.1, 9.4.3)."""

import pytest

IMMEDIATE = 0x01020304


def test_write_consumes_a_receive(connected):
    """Writes with immediate data; expects a receive to complete with the data's length, and its buffer untouched."""
    left, right = connected()
    checksum = left.mr.fill(seed=5, length=512)
    right.receive(wr_id=1, offset=8192, length=16)
    right.receive(wr_id=2, offset=8192, length=16)
    left.send("RDMA_WRITE_WITH_IMM", length=512, imm=IMMEDIATE, target=right.target(1024))
    assert left.sent() == ["SUCCESS"]
    (completion,) = right.recv_cq.wait()
    assert (completion.wr_id, completion.opcode, completion.imm) == (1, "RECV_RDMA_WITH_IMM", IMMEDIATE)
    assert completion.byte_len == 512
    assert right.mr.checksum(1024, 512) == checksum
    assert right.mr.read(8192, 16) == "00" * 16


def test_plain_write_consumes_none(connected):
    """Writes without immediate data, then sends; expects the send to use the receive that was posted first."""
    left, right = connected()
    right.receive(wr_id=1)
    left.send("RDMA_WRITE", target=right.target(1024))
    left.send("SEND")
    assert left.sent(2) == ["SUCCESS", "SUCCESS"]
    (completion,) = right.recv_cq.wait()
    assert (completion.wr_id, completion.opcode, completion.imm) == (1, "RECV", None)


@pytest.mark.parametrize("kind", ["RC", "UC"])
def test_send(connected, kind):
    """Sends with immediate data; expects the same 4 bytes in the receive's completion."""
    left, right = connected(kind)
    right.receive(wr_id=1)
    left.send("SEND_WITH_IMM", length=100, imm=IMMEDIATE)
    assert left.sent() == ["SUCCESS"]
    (completion,) = right.recv_cq.wait()
    assert (completion.opcode, completion.byte_len, completion.imm) == ("RECV", 100, IMMEDIATE)


def test_unconnected_write_without_receive(connected):
    """Writes with immediate data on UC without a receive posted; expects success here and no completion there."""
    left, right = connected("UC")
    left.send("RDMA_WRITE_WITH_IMM", imm=IMMEDIATE, target=right.target())
    assert left.sent() == ["SUCCESS"]
    assert right.received(1, timeout=0.3) == []


def test_immediate_without_data(connected):
    """Writes no bytes with immediate data; expects a completion of length 0 with it."""
    left, right = connected()
    right.receive()
    left.send("RDMA_WRITE_WITH_IMM", length=0, imm=IMMEDIATE, target=right.target())
    assert left.sent() == ["SUCCESS"]
    (completion,) = right.recv_cq.wait()
    assert (completion.byte_len, completion.imm) == (0, IMMEDIATE)
