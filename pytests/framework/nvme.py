# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""NVMe over RDMA: a RAM disk of one guest, which the other one uses through the kernel's nvme-rdma and nvmet-rdma."""

from collections.abc import Iterator

import pytest

from .connections import address
from .disk import SIZE
from .lab import Guest

SUBSYSTEM = "vrdma-test"
PORTS = {"rdma": 4420, "tcp": 4421}
BLOCK = "/dev/nvme0n1"

TARGET_UP = """
modprobe -r nvmet-rdma
modprobe nvmet-rdma use_srq={srq}
modprobe -a brd nvmet-tcp
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/nvmet
mkdir subsystems/{name} subsystems/{name}/namespaces/1
echo 1 > subsystems/{name}/attr_allow_any_host
echo /dev/ram0 > subsystems/{name}/namespaces/1/device_path
echo 1 > subsystems/{name}/namespaces/1/enable
"""
PORT_UP = """
mkdir /sys/kernel/config/nvmet/ports/{port}
cd /sys/kernel/config/nvmet/ports/{port}
echo {transport} > addr_trtype
echo ipv4 > addr_adrfam
echo {address} > addr_traddr
echo {port} > addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/{name} subsystems/
"""
PORT_DOWN = """
cd /sys/kernel/config/nvmet/ports
rm {port}/subsystems/{name}
rmdir {port}
"""
TARGET_DOWN = """
cd /sys/kernel/config/nvmet/subsystems
rmdir {name}/namespaces/1 {name}
"""
CONNECT = """
echo transport={transport},traddr={address},trsvcid={port},nqn={name},nr_io_queues=1 > /dev/nvme-fabrics
until test -b {block}; do sleep 0.05; done
"""
# udev opens a disk that was written, and an open disk keeps its controller's name from the next one.
DISCONNECT = """
udevadm settle
echo 1 > /sys/class/nvme/nvme0/delete_controller
while test -e {block}; do sleep 0.05; done
"""


def fill(script: str, transport: str = "rdma", **values) -> str:
    return script.format(name=SUBSYSTEM, transport=transport, port=PORTS[transport], block=BLOCK, size=SIZE, **values)


@pytest.fixture
def shared(request) -> bool:
    """Whether the target's connections share receive queues; false unless parametrized."""
    return getattr(request, "param", False)


@pytest.fixture
def target(device, shared, guest0: Guest) -> Iterator[str]:
    """Offers guest0's RAM disk, by RDMA and by TCP; yields the address."""
    own = address(guest0, 4)
    guest0.script(fill(TARGET_UP,
                       srq=int(shared)) + "".join(fill(PORT_UP, transport, address=own) for transport in PORTS))
    yield own
    guest0.script("".join(fill(PORT_DOWN, transport) for transport in PORTS) + fill(TARGET_DOWN))


@pytest.fixture
def connection(target, guest1: Guest) -> Iterator[str]:
    """Has guest1 connect; yields the script that does so."""
    guest1.run("modprobe nvme-rdma")
    connect = fill(CONNECT, address=target)
    guest1.script(connect)
    yield connect
    guest1.script(fill(DISCONNECT))
