# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""NFS over RDMA: a directory of one guest, mounted in the other by way of the kernel's rpcrdma."""

import pytest

pytestmark = pytest.mark.lab

SIZE = 4 << 20


def test_data_survives_a_remount(mounted, guest0, guest1):
    """Writes a file, unmounts, mounts again and reads it past the cache; expects its contents, there and on the server,
    and that it was transferred over RDMA."""
    assert "proto=rdma" in guest1.read("/proc/mounts")
    guest1.script(f"head -c {SIZE} /dev/urandom > /tmp/pattern; cp /tmp/pattern /run/mounted/file; sync")
    guest1.script("umount /run/mounted")
    guest1.script(mounted)
    guest1.script("cmp /tmp/pattern /run/mounted/file")
    expected = guest1.script("sha256sum < /tmp/pattern").stdout
    assert guest0.script("sha256sum < /run/export/file").stdout == expected
