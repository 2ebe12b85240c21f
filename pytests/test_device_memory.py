# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Device memory (ibv_alloc_dm): allocated, copied to and from, registered, and refused uses."""

import errno

import pytest

from framework.endpoint import ALL_ACCESS
from framework.verbs import refused

PAGE = 4096
PATTERN = "c3" * 64


@pytest.fixture
def opened(open_device, guest0):
    return open_device(guest0)


def test_data_of_a_peer(connected):
    """Writes to, reads from and adds to a peer's device memory; expects the data, at offsets from the region's first
    byte."""
    left, right = connected()
    dm = right.device.dm(2 * PAGE)
    region = right.pd.dm_mr(dm, PAGE - 64, 128, ALL_ACCESS)
    left.mr.write(0, PATTERN)
    left.send("RDMA_WRITE", length=64, target=[64, region.rkey])
    assert left.sent() == ["SUCCESS"]
    assert dm.read(PAGE, 64) == PATTERN
    dm.write(PAGE - 64, "0500000000000000")
    left.send("ATOMIC_FETCH_AND_ADD", length=8, target=[0, region.rkey], compare_add=7)
    assert left.sent() == ["SUCCESS"]
    assert dm.read(PAGE - 64, 8) == "0c00000000000000"
    left.send("RDMA_READ", offset=128, length=128, target=[0, region.rkey])
    assert left.sent() == ["SUCCESS"]
    assert left.mr.read(128, 128) == "0c" + "00" * 63 + PATTERN


def test_local_memory(connected):
    """Sends from device memory and receives into it; expects the data."""
    left, right = connected()
    source, target = left.device.dm(64), right.device.dm(64)
    from_dm = left.pd.dm_mr(source, 0, 64, ["LOCAL_WRITE"])
    to_dm = right.pd.dm_mr(target, 0, 64, ["LOCAL_WRITE"])
    source.write(0, PATTERN)
    right.qp.post_recv(1, [[0, 64, to_dm.lkey]])
    left.qp.post_send("SEND", 1, [[0, 64, from_dm.lkey]])
    assert left.sent() == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]
    assert target.read(0, 64) == PATTERN


def test_bounds_of_a_region(connected):
    """Reads one byte past a region whose device memory is larger; expects REM_ACCESS_ERR."""
    left, right = connected()
    region = right.pd.dm_mr(right.device.dm(PAGE), 0, 64, ALL_ACCESS)
    left.send("RDMA_READ", length=65, target=[0, region.rkey])
    assert left.sent() == ["REM_ACCESS_ERR"]


def test_fresh_memory_is_zeroed(opened):
    """Fills, frees and allocates again; expects zeroes."""
    for _ in range(2):
        dm = opened.dm(PAGE)
        assert dm.read(0, PAGE) == "00" * PAGE
        dm.write(0, "ff" * PAGE)
        dm.close()


def test_all_of_it(opened):
    """Takes all device memory in two pieces and then four bytes; expects ENOMEM, and success after one is freed."""
    most = opened.extended_limits().max_dm_size
    assert most >= 2 * PAGE
    pieces = [opened.dm(most // 2) for _ in range(2)]
    assert refused(opened.dm, 4) == errno.ENOMEM
    pieces[0].close()
    opened.dm(4).close()
    pieces[1].close()


@pytest.mark.parametrize("length, log_align, expected",
                         [(0, 0, errno.EINVAL), (64, 13, errno.EINVAL), (1 << 40, 0, errno.ENOMEM)])
def test_bad_allocation(opened, length, log_align, expected):
    """Allocates no bytes, too many, or with too large an alignment; expects the errno."""
    assert refused(opened.dm, length, log_align) == expected


@pytest.mark.parametrize("offset, length", [(1, 4), (4, 2), (104, 4), (0, 104), (2**63, 4)])
def test_bad_copy(opened, offset, length):
    """Copies with an odd offset, with an odd length, and past the end; expects EINVAL."""
    dm = opened.dm(100)
    assert refused(dm.read, offset, length) == errno.EINVAL
    assert refused(dm.write, offset, "00" * length) == errno.EINVAL


@pytest.mark.parametrize("offset, length", [(0, 104), (104, 0), (96, 8)])
def test_bad_registration(opened, offset, length):
    """Registers more than there is; expects EINVAL."""
    dm = opened.dm(100)
    assert refused(opened.pd().dm_mr, dm, offset, length, ALL_ACCESS) == errno.EINVAL
