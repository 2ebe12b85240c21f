# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Memory protection: keys, domains, rights and bounds, with the completion status on both sides (IBA 9.9, 10.6)."""

import pytest

from framework.endpoint import ALL_ACCESS, BUFFER

REMOTE_OPERATIONS = ("RDMA_WRITE", "RDMA_READ", "ATOMIC_FETCH_AND_ADD", "ATOMIC_CMP_AND_SWP")
RIGHT_FOR = {"RDMA_WRITE": "REMOTE_WRITE", "RDMA_READ": "REMOTE_READ", "ATOMIC_FETCH_AND_ADD": "REMOTE_ATOMIC",
             "ATOMIC_CMP_AND_SWP": "REMOTE_ATOMIC"}  # fmt: skip
PATTERN = "a5" * 64


def without(right: str) -> tuple[str, ...]:
    return tuple(name for name in ALL_ACCESS if name != right)


def operate(left, opcode: str, target: list) -> list[str]:
    """Carries out a remote operation on 8 bytes; returns its status."""
    left.send(opcode, length=8, target=target)
    return left.sent()


def assert_responder_unharmed(right) -> None:
    """A refused requester fails the connection, so the responder's side is in error too. No byte must have changed."""
    assert right.mr.read(0, 64) == PATTERN
    assert right.state() == "ERR"


@pytest.fixture
def protected(connected):
    """Two connected sides; the responder's buffer begins with a pattern, and a receive is posted there."""

    def make(**attributes):
        left, right = connected(**attributes)
        right.mr.write(0, PATTERN)
        right.receive(wr_id=7, offset=4096)
        return left, right

    return make


@pytest.mark.parametrize("opcode", REMOTE_OPERATIONS)
def test_unknown_rkey(protected, opcode):
    """Uses an rkey that was never assigned; expects REM_ACCESS_ERR, and the responder's receives flushed."""
    left, right = protected()
    address, rkey = right.target()
    assert operate(left, opcode, [address, rkey ^ 0x5a5a5a5a]) == ["REM_ACCESS_ERR"]
    assert right.received() == ["WR_FLUSH_ERR"]
    assert_responder_unharmed(right)


@pytest.mark.parametrize("opcode", REMOTE_OPERATIONS)
def test_region_without_the_right(protected, opcode):
    """Targets a region that lacks only the required right; expects REM_ACCESS_ERR."""
    left, right = protected()
    region = right.pd.mr(BUFFER, without(RIGHT_FOR[opcode]))
    assert operate(left, opcode, [region.addr, region.rkey]) == ["REM_ACCESS_ERR"]
    assert_responder_unharmed(right)


@pytest.mark.parametrize("opcode", REMOTE_OPERATIONS)
def test_queue_pair_without_the_right(protected, opcode):
    """Targets a queue pair that lacks only the required right; expects REM_INV_REQ_ERR, because it does not accept such
    requests."""
    left, right = protected(qp_access_flags=without(RIGHT_FOR[opcode]))
    assert operate(left, opcode, right.target()) == ["REM_INV_REQ_ERR"]
    assert_responder_unharmed(right)


@pytest.mark.parametrize("opcode", REMOTE_OPERATIONS)
def test_region_of_another_domain(protected, opcode):
    """Targets a region of another protection domain of the same process; expects REM_ACCESS_ERR."""
    left, right = protected()
    region = right.device.pd().mr(BUFFER, ALL_ACCESS)
    assert operate(left, opcode, [region.addr, region.rkey]) == ["REM_ACCESS_ERR"]
    assert_responder_unharmed(right)


@pytest.mark.parametrize("opcode", REMOTE_OPERATIONS)
@pytest.mark.parametrize("offset", [-8, BUFFER, 1 << 40], ids=["before", "behind", "far"])
def test_out_of_bounds(protected, opcode, offset):
    """Targets bytes beside the region; expects REM_ACCESS_ERR."""
    left, right = protected()
    address, rkey = right.target()
    assert operate(left, opcode, [address + offset, rkey]) == ["REM_ACCESS_ERR"]
    assert_responder_unharmed(right)


@pytest.mark.parametrize("opcode", ["RDMA_WRITE", "RDMA_READ"])
def test_across_the_end(protected, opcode):
    """Targets a range that begins inside the region and ends a byte behind it; expects REM_ACCESS_ERR."""
    left, right = protected()
    left.send(opcode, length=64, target=right.target(BUFFER - 63))
    assert left.sent() == ["REM_ACCESS_ERR"]
    assert_responder_unharmed(right)


@pytest.mark.parametrize("opcode", ["RDMA_WRITE", "RDMA_READ"])
def test_address_wraps_around(protected, opcode):
    """Targets a range that wraps around the end of the 64-bit address space; expects REM_ACCESS_ERR."""
    left, right = protected()
    left.send(opcode, length=64, target=[(1 << 64) - 32, right.mr.rkey])
    assert left.sent() == ["REM_ACCESS_ERR"]
    assert_responder_unharmed(right)


@pytest.mark.parametrize("opcode", REMOTE_OPERATIONS[2:])
def test_unaligned_atomic(protected, opcode):
    """Targets 8 bytes at an odd address; expects REM_INV_REQ_ERR."""
    left, right = protected()
    assert operate(left, opcode, right.target(1)) == ["REM_INV_REQ_ERR"]
    assert_responder_unharmed(right)


@pytest.mark.parametrize("opcode", REMOTE_OPERATIONS)
def test_deregistered_region(protected, opcode):
    """Targets a region after its deregistration; expects REM_ACCESS_ERR."""
    left, right = protected()
    region = right.pd.mr(BUFFER, ALL_ACCESS)
    target = [region.addr, region.rkey]
    region.close()
    assert operate(left, opcode, target) == ["REM_ACCESS_ERR"]
    assert_responder_unharmed(right)


@pytest.mark.parametrize("opcode", ["SEND", "RDMA_WRITE", "RDMA_READ"])
def test_unknown_lkey(protected, opcode):
    """Uses a local key that was never assigned; expects LOC_PROT_ERR, and no effect at the peer."""
    left, right = protected()
    address, length, lkey = left.sge(0, 64)
    left.qp.post_send(opcode, 1, [[address, length, lkey ^ 0x5a5a5a5a]], target=right.target())
    assert left.sent() == ["LOC_PROT_ERR"]
    assert right.mr.read(0, 64) == PATTERN
    assert right.received(1, timeout=0.3) == []


@pytest.mark.parametrize("opcode", ["SEND", "RDMA_WRITE"])
def test_local_region_of_another_domain(protected, opcode):
    """Sends from a region of another protection domain; expects LOC_PROT_ERR."""
    left, right = protected()
    foreign = left.device.pd().mr(BUFFER, ALL_ACCESS)
    left.qp.post_send(opcode, 1, [[foreign.addr, 64, foreign.lkey]], target=right.target())
    assert left.sent() == ["LOC_PROT_ERR"]
    assert right.mr.read(0, 64) == PATTERN


@pytest.mark.parametrize("opcode", ["SEND", "RDMA_WRITE"])
def test_local_out_of_bounds(protected, opcode):
    """Sends bytes beyond the end of the local region; expects LOC_PROT_ERR."""
    left, right = protected()
    address, _, lkey = left.sge()
    left.qp.post_send(opcode, 1, [[address + BUFFER - 63, 64, lkey]], target=right.target())
    assert left.sent() == ["LOC_PROT_ERR"]
    assert right.mr.read(0, 64) == PATTERN


def test_read_into_region_without_local_write(protected):
    """Reads into a region that may not be written to; expects LOC_PROT_ERR and the region unchanged."""
    left, right = protected()
    sealed = left.pd.mr(4096, ())
    left.qp.post_send("RDMA_READ", 1, [[sealed.addr, 64, sealed.lkey]], target=right.target())
    assert left.sent() == ["LOC_PROT_ERR"]
    assert sealed.read(0, 64) == "00" * 64


def test_receive_into_region_without_local_write(connected):
    """Sends to a receive whose buffer may not be written to; expects LOC_PROT_ERR there and REM_OP_ERR here."""
    left, right = connected()
    sealed = right.pd.mr(4096, ())
    right.qp.post_recv(1, [[sealed.addr, 64, sealed.lkey]])
    left.send()
    assert left.sent() == ["REM_OP_ERR"]
    assert right.received() == ["LOC_PROT_ERR"]
    assert sealed.read(0, 64) == "00" * 64


def test_receive_with_unknown_lkey(connected):
    """Sends to a receive with a key that does not exist; expects LOC_PROT_ERR there and REM_OP_ERR here."""
    left, right = connected()
    address, length, lkey = right.sge(0, 64)
    right.qp.post_recv(1, [[address, length, lkey ^ 0x5a5a5a5a]])
    left.send()
    assert left.sent() == ["REM_OP_ERR"]
    assert right.received() == ["LOC_PROT_ERR"]


def test_receive_too_small(connected):
    """Sends 64 bytes to a receive of 63; expects LOC_LEN_ERR there and REM_INV_REQ_ERR here."""
    left, right = connected()
    right.receive(length=63)
    left.send(length=64)
    assert left.sent() == ["REM_INV_REQ_ERR"]
    assert right.received() == ["LOC_LEN_ERR"]


def test_zero_length_needs_no_key(connected):
    """Writes and reads no bytes with a key that does not exist; expects success, because no memory is accessed."""
    left, right = connected()
    for opcode in ("RDMA_WRITE", "RDMA_READ"):
        left.send(opcode, length=0, target=[0, 0xdeadbeef])
        assert left.sent() == ["SUCCESS"]
    assert right.state() == "RTS"
