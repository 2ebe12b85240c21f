# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Messages that find no receive posted: receiver not ready (IBA 9.7.5.2.8)."""

import time

import pytest

from framework.endpoint import connect

RNR_82_MS = 26  # the code of 81.92 ms
RETRIES = 3


def test_no_retry(connected):
    """Sends without a receive posted and without retries; expects RNR_RETRY_EXC_ERR, and the responder to continue."""
    left, right = connected(rnr_retry=0)
    left.send()
    assert left.sent() == ["RNR_RETRY_EXC_ERR"]
    assert left.state() == "ERR"
    assert right.state() == "RTS"


def test_retries_take_their_time(connected):
    """Allows 3 retries while the responder asks for 82 ms before each; expects the error only after these times."""
    left, _ = connected(rnr_retry=RETRIES, min_rnr_timer=RNR_82_MS)
    begin = time.monotonic()
    left.send()
    assert left.sent() == ["RNR_RETRY_EXC_ERR"]
    assert time.monotonic() - begin >= RETRIES * 0.08192


def test_receive_posted_during_retry(connected):
    """Sends with unlimited retries and posts the receive later; expects the message to arrive then, once."""
    left, right = connected(min_rnr_timer=RNR_82_MS)
    checksum = left.mr.fill(seed=1, length=64)
    left.send()
    assert left.sent(1, timeout=0.3) == []
    right.receive(wr_id=1)
    right.receive(wr_id=2)
    assert left.sent() == ["SUCCESS"]
    assert [completion.wr_id for completion in right.recv_cq.wait(2, timeout=0.5)] == [1]
    assert right.mr.checksum(length=64) == checksum


def test_order_is_kept(connected):
    """Queues 8 sends behind one that waits for a receive; expects them to arrive in the order posted."""
    left, right = connected(min_rnr_timer=1)
    for number in range(8):
        left.mr.write(number, f"{number:02x}")
        left.send(wr_id=number, offset=number, length=1)
    for number in range(8):
        right.receive(wr_id=number, offset=number)
    assert [completion.wr_id for completion in left.send_cq.wait(8)] == list(range(8))
    assert [completion.wr_id for completion in right.recv_cq.wait(8)] == list(range(8))
    assert right.mr.read(0, 8) == "0001020304050607"


def test_write_with_immediate_needs_a_receive(connected):
    """Writes with immediate data without a receive and without retries; expects RNR_RETRY_EXC_ERR."""
    left, right = connected(rnr_retry=0)
    left.send("RDMA_WRITE_WITH_IMM", imm=1, target=right.target())
    assert left.sent() == ["RNR_RETRY_EXC_ERR"]


def test_unconnected_send_is_dropped(connected):
    """Sends on UC without a receive, then with one; expects success for the sender and only the second to arrive."""
    left, right = connected("UC")
    left.mr.write(0, "0102")
    left.send(offset=0, length=1)
    left.send("RDMA_WRITE", offset=1, length=1, target=right.target(1))
    assert left.sent(2) == ["SUCCESS"] * 2
    assert right.mr.awaits(1, "02")  # earlier messages have arrived as well
    right.receive(wr_id=2)
    left.send(offset=1, length=1)
    assert left.sent() == ["SUCCESS"]
    assert [completion.wr_id for completion in right.recv_cq.wait(1)] == [2]
    assert right.mr.read(0, 1) == "02"


@pytest.mark.parametrize("why", ["reset", "never there"])
def test_no_peer(endpoint, guest0, guest1, why):
    """Sends to a queue pair that is in RESET or does not exist; expects RETRY_EXC_ERR after the retries."""
    left, right = endpoint(guest0), endpoint(guest1)
    connect(left, right, timeout=10, retry_cnt=2)
    if why == "reset":
        right.qp.modify(qp_state="RESET")
    else:
        right.qp.close()
    left.send()
    assert left.sent() == ["RETRY_EXC_ERR"]
    assert left.state() == "ERR"
