# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Registration: access flags, zero-based regions, and ibv_rereg_mr(3)."""

import errno

import pytest

from framework.endpoint import ALL_ACCESS, BUFFER
from framework.verbs import refused


def write(left, address: int, rkey: int) -> str:
    left.send("RDMA_WRITE", target=[address, rkey])
    return left.sent()[0]


def test_new_rights(connected):
    """Removes a region's right to be written, and restores it; expects REM_ACCESS_ERR in between."""
    left, right = connected()
    assert write(left, *right.target()) == "SUCCESS"
    right.mr.rereg(access=("LOCAL_WRITE", "REMOTE_READ"))
    left.send("RDMA_READ", target=right.target())
    assert left.sent() == ["SUCCESS"]
    assert write(left, *right.target()) == "REM_ACCESS_ERR"


def test_rights_to_write_what_was_read(connected):
    """Registers memory for reading only, then adds the right to write it; expects writes to arrive."""
    left, right = connected()
    region = right.pd.mr(BUFFER, ("REMOTE_READ",))
    region.rereg(access=ALL_ACCESS)
    left.mr.write(0, "d2" * 64)
    assert write(left, region.addr, region.rkey) == "SUCCESS"
    assert region.read(0, 64) == "d2" * 64


def test_new_memory(connected):
    """Gives a region other memory; expects its key to lead there, and not to its old addresses."""
    left, right = connected()
    old = right.target()
    now = right.mr.rereg(length=8192)
    assert (now.rkey, now.lkey) == (right.mr.rkey, right.mr.lkey)
    left.mr.write(0, "e1" * 64)
    assert write(left, now.addr + 8192 - 64, now.rkey) == "SUCCESS"
    assert right.mr.read(8192 - 64, 64) == "e1" * 64
    assert write(left, *old) == "REM_ACCESS_ERR"


def test_new_domain(connected):
    """Moves a region to another domain; expects REM_ACCESS_ERR."""
    left, right = connected()
    region = right.pd.mr(BUFFER, ALL_ACCESS)
    assert write(left, region.addr, region.rkey) == "SUCCESS"
    region.rereg(pd=right.device.pd())
    assert write(left, region.addr, region.rkey) == "REM_ACCESS_ERR"


def test_everything_at_once(connected):
    """Changes memory, domain and rights in one call; expects all changes to take effect."""
    left, right = connected()
    other = right.device.pd()
    region = other.mr(4096, ())
    now = region.rereg(pd=right.pd, length=8192, access=ALL_ACCESS)
    assert write(left, now.addr + 8000, now.rkey) == "SUCCESS"
    other.close()
    assert write(left, now.addr, now.rkey) == "SUCCESS"


@pytest.mark.parametrize("change", [{"access": ("REMOTE_WRITE",)}, {"access": ("REMOTE_ATOMIC", "REMOTE_READ")}],
                         ids=["write", "atomic"])
def test_a_refused_change_changes_nothing(connected, change):
    """Asks for rights that need local write, without it; expects EINVAL and an unchanged region."""
    left, right = connected()
    assert refused(right.mr.rereg, **change) == errno.EINVAL
    assert write(left, *right.target()) == "SUCCESS"


def test_region_with_windows_stays(connected):
    """Changes a region to which a window is bound; expects EBUSY and an unchanged region."""
    left, right = connected()
    region, window = right.pd.mr(BUFFER, (*ALL_ACCESS, "MW_BIND")), right.pd.mw(1)
    right.qp.bind(window, region, 0, BUFFER, ("REMOTE_READ",))
    assert right.sent() == ["SUCCESS"]
    changes: list[dict[str, object]] = [{"access": ("LOCAL_WRITE",)}, {"length": 4096}]
    for change in changes:
        assert refused(region.rereg, **change) == errno.EBUSY
    assert write(left, region.addr, region.rkey) == "SUCCESS"


def test_zero_based_region(connected):
    """Registers a zero-based region; expects its addresses to begin at 0, for the owner and for the peer."""
    left, right = connected()
    region = right.pd.mr(BUFFER, (*ALL_ACCESS, "ZERO_BASED"))
    left.mr.write(0, "3c" * 64)
    assert write(left, 100, region.rkey) == "SUCCESS"
    assert region.read(100, 64) == "3c" * 64
    left.receive(offset=4096)
    right.qp.post_send("SEND", 0, [[100, 64, region.lkey]])
    assert right.sent() == ["SUCCESS"]
    assert left.received() == ["SUCCESS"]
    assert left.mr.read(4096, 64) == "3c" * 64
    assert write(left, region.addr, region.rkey) == "REM_ACCESS_ERR"


def test_relaxed_ordering(connected):
    """Registers with a flag that a device may ignore; expects a region like any other."""
    left, right = connected()
    region = right.pd.mr(BUFFER, (*ALL_ACCESS, "RELAXED_ORDERING"))
    assert write(left, region.addr, region.rkey) == "SUCCESS"


@pytest.mark.parametrize("access", [("REMOTE_WRITE",), ("REMOTE_ATOMIC",), ("REMOTE_WRITE", "REMOTE_READ", "MW_BIND")])
def test_remote_changes_need_local_write(endpoint, guest0, access):
    """Registers memory that peers may change and its owner may not; expects EINVAL."""
    side = endpoint(guest0)
    assert refused(side.pd.mr, 4096, access) == errno.EINVAL
