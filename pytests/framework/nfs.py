# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""NFS over RDMA: a directory of one guest, mounted in the other by way of the kernel's rpcrdma."""

from collections.abc import Iterator

import pytest

from .connections import address
from .lab import Guest

SERVE = """
modprobe -a nfsd rpcrdma
mkdir -p /run/export /run/nfs-state /var/lib/nfs
mount -t tmpfs none /run/export
mountpoint -q /var/lib/nfs || mount -t tmpfs none /var/lib/nfs
mkdir -p /var/lib/nfs/v4recovery
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
exportfs -o rw,fsid=0,no_root_squash,insecure,no_subtree_check '*:/run/export'
rpc.mountd --no-udp -N 3
rpc.nfsd -N 3 -V 4.2 --rdma=20049 -G 10 -L 10 2
"""
UNSERVE = """
rpc.nfsd 0
pkill -x rpc.mountd
exportfs -ua
umount /run/export
"""
MOUNT = """
modprobe rpcrdma
mkdir -p /run/mounted
mount -t nfs4 -o rdma,port=20049,vers=4.2 {server}:/ /run/mounted
"""


@pytest.fixture
def mounted(device, guest0: Guest, guest1: Guest) -> Iterator[str]:
    """Serves a directory of guest0 and mounts it in guest1; gives the script that mounts it."""
    guest0.script(SERVE)
    mount = MOUNT.format(server=address(guest0, 4))
    guest1.script(mount)
    yield mount
    guest1.script("umount /run/mounted")
    guest0.script(UNSERVE)
