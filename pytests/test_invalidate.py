# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Invalidation, by the owner of a key and by its peer (IBA 10.6.5, 9.4.1.1.3): permissions and reports."""

import errno

import pytest

from framework.endpoint import BUFFER, connect
from framework.verbs import refused

READ_WRITE = ("REMOTE_READ", "REMOTE_WRITE")


def bind(side, offset: int = 0, length: int = BUFFER, kind: int = 2):
    """Makes a region and a window that shows a part of it; returns both and the window's rkey."""
    region, window = side.pd.mr(BUFFER, ("LOCAL_WRITE", "MW_BIND")), side.pd.mw(kind)
    rkey = (side.qp.post_bind if kind == 2 else side.qp.bind)(window, region, offset, length, READ_WRITE)
    assert side.sent() == ["SUCCESS"]
    return region, window, rkey


def write(left, address: int, rkey: int) -> str:
    left.send("RDMA_WRITE", target=[address, rkey])
    return left.sent()[0]


def test_local_invalidation(connected):
    """Invalidates a window that works; expects LOCAL_INV to complete, its key to be unknown, and its region to be
    unbound."""
    left, right = connected()
    region, _, rkey = bind(right)
    assert write(left, region.addr, rkey) == "SUCCESS"
    right.qp.invalidate(rkey, wr_id=5)
    assert [(done.wr_id, done.status, done.opcode) for done in right.send_cq.wait()] == [(5, "SUCCESS", "LOCAL_INV")]
    region.close()
    assert write(left, region.addr, rkey) == "REM_ACCESS_ERR"
    assert (left.state(), right.state()) == ("ERR", "ERR")


def test_window_can_be_bound_after_invalidation(connected):
    """Binds a type 2 window, invalidates it and binds it elsewhere; expects it to show the new bytes."""
    left, right = connected()
    region, window, rkey = bind(right)
    right.qp.invalidate(rkey)
    assert right.sent() == ["SUCCESS"]
    again = right.qp.post_bind(window, region, 4096, 64, READ_WRITE)
    assert right.sent() == ["SUCCESS"]
    left.mr.write(0, "42" * 64)
    assert write(left, region.addr + 4096, again) == "SUCCESS"
    assert region.read(4096, 64) == "42" * 64


def test_invalidation_follows_what_was_posted_before(connected):
    """Posts bind, send and invalidation at once; expects them to complete in order, so that the peer learns the key too
    late."""
    left, right = connected()
    region, window = right.pd.mr(BUFFER, ("LOCAL_WRITE", "MW_BIND")), right.pd.mw(2)
    left.receive()
    rkey = right.qp.post_bind(window, region, 0, BUFFER, READ_WRITE)
    right.send()
    right.qp.invalidate(rkey)
    assert [done.opcode for done in right.send_cq.wait(3)] == ["BIND_MW", "SEND", "LOCAL_INV"]
    assert write(left, region.addr, rkey) == "REM_ACCESS_ERR"


def test_remote_invalidation(connected):
    """Ends the peer's window by a SEND; expects its key and the data in the peer's completion, but no immediate."""
    left, right = connected()
    region, _, rkey = bind(right)
    right.receive(wr_id=3, offset=8192)
    left.mr.write(0, "c3" * 64)
    left.qp.send_invalidate(4, [left.sge(0, 64)], rkey)
    assert [(done.wr_id, done.status, done.opcode) for done in left.send_cq.wait()] == [(4, "SUCCESS", "SEND")]
    received = right.recv_cq.wait()[0]
    assert (received.wr_id, received.opcode, received.byte_len, received.imm) == (3, "RECV", 64, None)
    assert received.invalidated == rkey
    assert right.mr.read(8192, 64) == "c3" * 64
    region.close()
    assert write(left, region.addr, rkey) == "REM_ACCESS_ERR"


def unknown(side, other) -> int:
    return 0x77777777


def region_key(side, other) -> int:
    return side.mr.rkey


def type_1_window(side, other) -> int:
    return bind(side, kind=1)[2]


def stale_tag(side, other) -> int:
    return bind(side)[2] ^ 1


def unbound_window(side, other) -> int:
    return side.pd.mw(2).rkey


def invalidated_window(side, other) -> int:
    rkey = bind(side)[2]
    side.qp.invalidate(rkey)
    assert side.sent() == ["SUCCESS"]
    return rkey


def window_of_another_queue_pair(side, other) -> int:
    return bind(other)[2]


BAD_KEYS = [unknown, region_key, type_1_window, stale_tag, unbound_window, invalidated_window,
            window_of_another_queue_pair]


@pytest.fixture
def sides(connected):
    """A connected pair, and another queue pair in the right side's domain."""
    left, right = connected()
    other_left, other_right = left.another(), right.another()
    connect(other_left, other_right)
    return left, right, other_right


@pytest.mark.parametrize("bad", BAD_KEYS)
def test_local_invalidation_of_a_bad_key(sides, bad):
    """Invalidates keys that cannot be invalidated; expects MW_BIND_ERR, the queue pair in error, and no effect at the
    peer."""
    left, right, other = sides
    right.qp.invalidate(bad(right, other))
    assert right.sent() == ["MW_BIND_ERR"]
    assert (left.state(), right.state(), other.state()) == ("RTS", "ERR", "RTS")


@pytest.mark.parametrize("bad", BAD_KEYS)
def test_remote_invalidation_of_a_bad_key(sides, bad):
    """Asks the peer to invalidate such keys; expects REM_ACCESS_ERR, its receive in error, and both sides in error."""
    left, right, other = sides
    key = bad(right, other)
    right.receive()
    left.qp.send_invalidate(0, [left.sge(0, 64)], key)
    assert left.sent() == ["REM_ACCESS_ERR"]
    assert right.received() == ["REM_INV_REQ_ERR"]
    assert (left.state(), right.state(), other.state()) == ("ERR", "ERR", "RTS")


def test_bad_invalidation_ends_nothing(sides):
    """Fails to invalidate a type 1 window; expects it to work afterwards, for another queue pair of its domain."""
    left, right, other = sides
    region, _, rkey = bind(right, kind=1)
    right.qp.invalidate(rkey)
    assert right.sent() == ["MW_BIND_ERR"]
    assert refused(region.close) == errno.EBUSY


@pytest.mark.parametrize("kind", ["UC", "UD"])
def test_send_with_invalidate_is_for_reliable_connections(endpoint, guest0, kind):
    """Posts SEND with invalidate to an unreliable queue pair; expects EINVAL."""
    side = endpoint(guest0, kind).initialize()
    peer = endpoint(guest0, kind).initialize()
    side.connect(peer)
    assert refused(side.qp.send_invalidate, 0, [], 0x77777777) == errno.EINVAL
