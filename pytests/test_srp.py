# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""SCSI over RDMA: a RAM disk of one guest, used by the other through the kernel's ib_srp and ib_srpt."""

from collections.abc import Iterator

import pytest

from framework.connections import address
from framework.disk import SIZE, assert_survives
from framework.lab import Guest
from framework.text import found

pytestmark = pytest.mark.lab

PORT = 5555
BLOCK = "/dev/sda"

TARGET_UP = """
modprobe -a brd target_core_iblock ib_srpt
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/target
mkdir -p core/iblock_0/ram
echo udev_path=/dev/ram0 > core/iblock_0/ram/control
echo 1 > core/iblock_0/ram/enable
mkdir -p srpt/{target}/{target}
cd srpt/{target}/{target}
mkdir lun/lun_0
ln -s /sys/kernel/config/target/core/iblock_0/ram lun/lun_0/
mkdir -p acls/{initiator}/lun_0
ln -s /sys/kernel/config/target/srpt/{target}/{target}/lun/lun_0 acls/{initiator}/lun_0/
echo 1 > enable
echo {port} > /sys/kernel/config/target/srpt/discovery_auth/rdma_cm_port
cat /sys/module/ib_srpt/parameters/srpt_service_guid
"""
TARGET_DOWN = """
cd /sys/kernel/config/target
echo 0 > srpt/discovery_auth/rdma_cm_port
cd srpt/{target}/{target}
echo 0 > enable
rm acls/{initiator}/lun_0/lun_0
rmdir acls/{initiator}/lun_0 acls/{initiator}
rm lun/lun_0/ram
rmdir lun/lun_0
cd /sys/kernel/config/target
rmdir srpt/{target}/{target} srpt/{target} srpt core/iblock_0/ram core/iblock_0
"""
# The target refuses it while it closes an old connection of the same name. No event reports the end of that.
CONNECT = """
until echo id_ext={guid},ioc_guid={guid},dest={address}:{port} > /sys/class/infiniband_srp/srp-{device}-1/add_target
do sleep 0.1; done
until test -b {block}; do sleep 0.05; done
"""
DISCONNECT = """
for port in /sys/class/srp_remote_ports/port-*; do echo 1 > $port/delete; done
while test -e {block}; do sleep 0.05; done
"""


def first_gid(guest: Guest, device: str) -> str:
    """The GID, in hex, from which SRP makes names of ports."""
    return guest.read(f"/sys/class/infiniband/{device}/ports/1/gids/0").strip().replace(":", "")


@pytest.fixture
def target(device, guest0: Guest, guest1: Guest) -> Iterator[str]:
    """Offers guest0's RAM disk to guest1; yields the target's GUID."""
    names = {"target": f"0x{first_gid(guest0, device)}", "initiator": f"0x{'0' * 16}{first_gid(guest1, device)[16:]}"}
    shown = guest0.script(TARGET_UP.format(port=PORT, **names)).stdout
    yield found(r"\A0x(\w{16})\Z", shown.strip())[1]
    guest0.script(TARGET_DOWN.format(**names))


@pytest.fixture
def connection(target, device, guest0: Guest, guest1: Guest) -> Iterator[str]:
    """Has guest1 connect; yields the script that does so."""
    guest1.run("modprobe -a sd_mod ib_srp")
    connect = CONNECT.format(guid=target, address=address(guest0, 4), port=PORT, device=device, block=BLOCK)
    guest1.script(connect)
    yield connect
    guest1.script(DISCONNECT.format(block=BLOCK))


def test_data_survives_a_reconnection(connection, guest0, guest1):
    """Writes a pattern to the disk and reads it back in requests of two sizes. Disconnects, connects again and reads it
    once more. Expects the pattern each time, also in the other guest's RAM disk."""
    assert_survives(guest0, guest1, BLOCK, [DISCONNECT.format(block=BLOCK), connection])


def test_file_system(connection, guest1):
    """Makes a file system and a file on the disk, and connects again before it reads the file; expects its contents."""
    guest1.script(f"busybox mke2fs {BLOCK} > /dev/null; mkdir -p /run/disk; mount -t ext2 {BLOCK} /run/disk; "
                  f"head -c {SIZE // 2} /dev/urandom > /tmp/pattern; cp /tmp/pattern /run/disk/file; umount /run/disk")
    guest1.script(DISCONNECT.format(block=BLOCK))
    guest1.script(connection)
    guest1.script(f"mount -t ext2 {BLOCK} /run/disk; cmp /tmp/pattern /run/disk/file; umount /run/disk")
