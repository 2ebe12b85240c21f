# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The error state: queued requests complete as flushed, in order, on both queues (IBA 10.3.1.6)."""

import pytest

COUNT = 8


def in_order(completions) -> None:
    assert [completion.wr_id for completion in completions] == list(range(COUNT))


@pytest.mark.parametrize("kind", ["RC", "UC", "UD"])
def test_receives(connected, kind):
    """Posts 8 receives and modifies the queue pair to ERR; expects 8 flushed completions in order."""
    _, right = connected(kind)
    for number in range(COUNT):
        right.receive(wr_id=number)
    right.qp.modify(qp_state="ERR")
    completions = right.recv_cq.wait(COUNT)
    in_order(completions)
    assert {completion.status for completion in completions} == {"WR_FLUSH_ERR"}


def test_sends(connected):
    """Posts 8 sends that wait for a receive, and modifies to ERR; expects 8 flushed completions in order."""
    left, _ = connected()
    for number in range(COUNT):
        left.send(wr_id=number)
    left.qp.modify(qp_state="ERR")
    completions = left.send_cq.wait(COUNT)
    in_order(completions)
    assert {completion.status for completion in completions} == {"WR_FLUSH_ERR"}


def test_behind_a_failed_send(connected):
    """Posts a write that succeeds, one with a bad key, and 6 more; expects success, the error, then flushes, in order.
    """
    left, right = connected()
    address, rkey = right.target()
    keys = [rkey, rkey ^ 1, *[rkey] * (COUNT - 2)]
    sge = left.sge(0, 64)
    left.qp.post_sends([{"opcode": "RDMA_WRITE", "wr_id": number, "sges": [sge], "target": [address, key]}
                        for number, key in enumerate(keys)])  # fmt: skip
    completions = left.send_cq.wait(COUNT)
    in_order(completions)
    assert [completion.status for completion in completions] == ["SUCCESS", "REM_ACCESS_ERR", *["WR_FLUSH_ERR"] * 6]


def test_unsignaled_are_flushed_too(connected):
    """Posts 8 unsignaled sends and modifies to ERR; expects 8 completions, because each send has failed."""
    left, _ = connected()
    for number in range(COUNT):
        left.send(wr_id=number, send_flags=[])
    left.qp.modify(qp_state="ERR")
    completions = left.send_cq.wait(COUNT)
    in_order(completions)
    assert {completion.status for completion in completions} == {"WR_FLUSH_ERR"}


def test_posted_in_error(connected):
    """Posts to both queues of a queue pair in ERR; expects each work request to complete as flushed."""
    left, _ = connected()
    left.qp.modify(qp_state="ERR")
    for number in range(COUNT):
        left.send(wr_id=number)
        left.receive(wr_id=number)
    for completions in (left.send_cq.wait(COUNT), left.recv_cq.wait(COUNT)):
        in_order(completions)
        assert {completion.status for completion in completions} == {"WR_FLUSH_ERR"}


def test_peer_of_a_failed_queue_pair(connected):
    """Takes one side to ERR; expects sends of the other side to fail, which flushes its receives."""
    left, right = connected(timeout=10, retry_cnt=1)
    left.receive(wr_id=5)
    right.qp.modify(qp_state="ERR")
    left.send()
    assert left.sent() == ["RETRY_EXC_ERR"]
    assert left.received() == ["WR_FLUSH_ERR"]


def test_destroyed_leaves_nothing(connected):
    """Destroys a queue pair with completions that were not polled; expects none of them in the queue afterwards."""
    left, right = connected()
    for number in range(COUNT):
        right.receive(wr_id=number)
    for number in range(COUNT):
        left.send(wr_id=number)
    assert left.sent(COUNT) == ["SUCCESS"] * COUNT
    right.qp.close()
    assert right.recv_cq.poll(COUNT) == []
