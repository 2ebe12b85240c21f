# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""On-demand paging: registering takes no pages, and pages are made when they are touched."""

import errno
import time

import pytest

from framework.endpoint import ALL_ACCESS
from framework.verbs import refused

PAGE = 4096
MIB = 1 << 20
ON_DEMAND = (*ALL_ACCESS, "ON_DEMAND")
OPERATIONS = ("RDMA_WRITE", "RDMA_READ", "ATOMIC_FETCH_AND_ADD")
PATTERN = "5e" * 64


@pytest.fixture
def pair(connected):
    """Two connected sides, and memory of the right one that no region covers yet."""

    def make(length: int = MIB, **options):
        left, right = connected(**options)
        left.mr.write(0, PATTERN)
        return left, right, right.device.memory(length)

    return make


@pytest.mark.parametrize("opcode", OPERATIONS)
@pytest.mark.parametrize("implicit", [False, True], ids=["explicit", "implicit"])
def test_remote_access(pair, opcode, implicit):
    """Writes to, reads from and adds to a peer's untouched memory; expects success and the data."""
    left, right, memory = pair()
    region = right.pd.whole_mr(ON_DEMAND) if implicit else right.pd.mr_of(memory, ON_DEMAND)
    left.send(opcode, length=8, target=[memory.addr + 5 * PAGE, region.rkey])
    assert left.sent() == ["SUCCESS"]
    assert memory.read(5 * PAGE, 8) == (PATTERN[:16] if opcode == "RDMA_WRITE" else "00" * 8)


# Between hosts, unacknowledged messages are lost if the receiver has no page for them.
@pytest.mark.parametrize("kind", ["RC", *(pytest.param(kind, marks=pytest.mark.together) for kind in ("UC", "UD"))])
def test_messages(connected, kind):
    """Sends from untouched memory and receives into untouched memory; expects the data."""
    left, right = connected(kind=kind)
    source, target = left.device.memory(2 * PAGE), right.device.memory(2 * PAGE)
    from_mr, to_mr = left.pd.mr_of(source, ON_DEMAND), right.pd.mr_of(target, ON_DEMAND)
    source.write(PAGE, PATTERN)
    grh = 40 if kind == "UD" else 0
    right.qp.post_recv(1, [[target.addr, PAGE, to_mr.lkey]])
    how = {"ah": left.pd.ah(dgid=right.gid.address, sgid_index=left.gid.index), "qpn": right.qp.num,
           "qkey": 0x11111111} if kind == "UD" else {}  # fmt: skip
    left.qp.post_send("SEND", 1, [[source.addr + PAGE, 64, from_mr.lkey]], **how)
    assert left.sent() == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]
    assert target.read(grh, 64) == PATTERN


def test_long_message(pair):
    """Writes 16 MiB that span many pages. The peer has touched the first half. Expects every byte."""
    left, right, memory = pair(16 * MIB, options={"buffer": 16 * MIB})
    memory.fill(8 * MIB)
    region = right.pd.mr_of(memory, ON_DEMAND)
    checksum = left.mr.fill(seed=3)
    left.send("RDMA_WRITE", length=16 * MIB, target=[memory.addr, region.rkey])
    assert left.sent() == ["SUCCESS"]
    assert memory.checksum() == checksum


def test_huge_region_at_once(pair):
    """Registers 4 GiB without any pages; expects that to return at once, and both ends to work. An emulated guest takes
    a second, and to get a million pages it would take minutes."""
    left, right, memory = pair(4 << 30)
    start = time.monotonic()
    region = right.pd.mr_of(memory, ON_DEMAND)
    assert time.monotonic() - start < 10
    for offset in (0, memory.length - 64):
        left.send("RDMA_WRITE", length=64, target=[memory.addr + offset, region.rkey])
        assert left.sent() == ["SUCCESS"]
        assert memory.read(offset, 64) == PATTERN


@pytest.mark.parametrize("opcode", OPERATIONS)
def test_memory_that_was_never_there(pair, opcode):
    """Unmaps registered memory that was never touched; expects REM_ACCESS_ERR."""
    left, right, memory = pair()
    region = right.pd.mr_of(memory, ON_DEMAND)
    memory.unmap(0, memory.length)
    left.send(opcode, length=8, target=[memory.addr, region.rkey])
    assert left.sent() == ["REM_ACCESS_ERR"]


def test_own_memory_that_is_not_there(connected):
    """Sends from and receives into memory that was unmapped; expects LOC_PROT_ERR, and REM_OP_ERR at the sender."""
    left, right = connected()
    memory = left.device.memory(MIB)
    region = left.pd.mr_of(memory, ON_DEMAND)
    memory.unmap(0, MIB)
    right.qp.post_send("SEND", 1, [right.sge(0, 64)])
    left.qp.post_recv(2, [[memory.addr, PAGE, region.lkey]])
    assert left.received() == ["LOC_PROT_ERR"]
    assert right.sent() == ["REM_OP_ERR"]


def test_the_part_that_is_there(pair):
    """Unmaps the second half; expects a write to the first half to succeed, and one that crosses into the second to
    fail."""
    left, right, memory = pair()
    region = right.pd.mr_of(memory, ON_DEMAND)
    memory.unmap(MIB // 2, MIB // 2)
    left.send("RDMA_WRITE", length=64, target=[memory.addr + MIB // 2 - 64, region.rkey])
    assert left.sent() == ["SUCCESS"]
    left.send("RDMA_WRITE", length=64, target=[memory.addr + MIB // 2 - 32, region.rkey])
    assert left.sent() == ["REM_ACCESS_ERR"]


def test_memory_that_may_only_be_read(pair):
    """Makes the memory of a region read-only; expects a READ to succeed and a WRITE to fail."""
    left, right, memory = pair()
    memory.write(0, PATTERN)
    region = right.pd.mr_of(memory, ON_DEMAND)
    memory.protect_against_writes()
    left.send("RDMA_READ", offset=128, length=64, target=[memory.addr, region.rkey])
    assert left.sent() == ["SUCCESS"]
    assert left.mr.read(128, 64) == PATTERN
    left.send("RDMA_WRITE", length=64, target=[memory.addr, region.rkey])
    assert left.sent() == ["REM_ACCESS_ERR"]


def test_fresh_data_after_dontneed(pair):
    """Gives back pages that the device has (MADV_DONTNEED), and writes new data; expects a peer to read it."""
    left, right, memory = pair()
    region = right.pd.mr_of(memory, ON_DEMAND)
    memory.write(0, "11" * 64)
    left.send("RDMA_READ", offset=128, length=64, target=[memory.addr, region.rkey])
    assert left.sent() == ["SUCCESS"]
    memory.give_back(0, MIB)
    memory.write(0, PATTERN)
    left.send("RDMA_READ", offset=128, length=64, target=[memory.addr, region.rkey])
    assert left.sent() == ["SUCCESS"]
    assert left.mr.read(128, 64) == PATTERN


def test_fork(pair, guest1):
    """Forks when the device has pages and when it has none; expects the parent's data in both cases."""
    left, right, memory = pair()
    region = right.pd.mr_of(memory, ON_DEMAND)
    left.send("RDMA_WRITE", length=64, target=[memory.addr, region.rkey])
    assert left.sent() == ["SUCCESS"]
    child = right.device.fork()
    try:
        memory.write(0, "22" * 64)
        memory.write(PAGE, "33" * 64)
        for offset, expected in ((0, "22"), (PAGE, "33")):
            left.send("RDMA_READ", offset=128, length=64, target=[memory.addr + offset, region.rkey])
            assert left.sent() == ["SUCCESS"]
            assert left.mr.read(128, 64) == expected * 64
    finally:
        guest1.run(f"kill -9 {child}")


def test_bounds_and_rights(pair):
    """Accesses memory past a region, and writes to a read-only region; expects REM_ACCESS_ERR."""
    left, right, memory = pair()
    region = right.pd.mr_of(memory, ("REMOTE_READ", "ON_DEMAND"))
    left.send("RDMA_WRITE", length=8, target=[memory.addr, region.rkey])
    assert left.sent() == ["REM_ACCESS_ERR"]


@pytest.mark.parametrize("advice", ["PREFETCH", "PREFETCH_WRITE", "PREFETCH_NO_FAULT"])
@pytest.mark.parametrize("implicit", [False, True], ids=["explicit", "implicit"])
def test_advice(pair, advice, implicit):
    """Prefetches memory; expects success, unchanged contents, and that peers can access it."""
    left, right, memory = pair()
    memory.write(PAGE, PATTERN)
    region = right.pd.whole_mr(ON_DEMAND) if implicit else right.pd.mr_of(memory, ON_DEMAND)
    right.pd.advise(advice, [[memory.addr + 100, 3 * PAGE, region.lkey]])
    left.send("RDMA_READ", offset=128, length=64, target=[memory.addr + PAGE, region.rkey])
    assert left.sent() == ["SUCCESS"]
    assert left.mr.read(128, 64) == PATTERN


def test_bad_advice(pair):
    """Gives advice of an unknown kind, with unknown flags, on an unknown key, on a region without paging, beyond a
    region, on a region of another domain, for writing to a read-only region, and on unmapped memory. Expects the errno
    of the man page. For the last, advice without faults is no error."""
    _, right, memory = pair()
    region = right.pd.mr_of(memory, ON_DEMAND)
    sge = [memory.addr, PAGE, region.lkey]
    assert refused(right.pd.advise, "PREFETCH", [sge], flags=2) == errno.EINVAL
    assert refused(right.pd.advise, "PREFETCH", [[memory.addr, PAGE, region.lkey ^ 0x5a5a5a00]]) == errno.EFAULT
    assert refused(right.pd.advise, "PREFETCH", [right.sge(0, PAGE)]) == errno.EFAULT
    assert refused(right.pd.advise, "PREFETCH", [[memory.addr + 1, MIB, region.lkey]]) == errno.EFAULT
    assert refused(right.device.pd().advise, "PREFETCH", [sge]) == errno.EINVAL
    readable = right.pd.mr_of(memory, ("REMOTE_READ", "ON_DEMAND"))
    assert refused(right.pd.advise, "PREFETCH_WRITE", [[memory.addr, PAGE, readable.lkey]]) == errno.EFAULT
    memory.unmap(0, PAGE)
    assert refused(right.pd.advise, "PREFETCH", [sge]) == errno.EFAULT
    right.pd.advise("PREFETCH_NO_FAULT", [sge])
