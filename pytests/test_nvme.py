# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""NVMe over RDMA: a RAM disk of one guest, used by the other through the kernel's nvme-rdma and nvmet-rdma."""

from collections.abc import Iterator

import pytest

from framework.connections import address
from framework.disk import SIZE, assert_survives
from framework.lab import Guest
from framework.text import found

pytestmark = pytest.mark.lab

SUBSYSTEM = "vrdma-test"
PORTS = {"rdma": 4420, "tcp": 4421}
BLOCK = "/dev/nvme0n1"
RUNS = 3

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
COPIES = {
    "write": "dd if=/dev/zero of={block} bs=256k count=$(({size} >> 18)) oflag=direct",
    "read": "dd if={block} of=/dev/null bs=256k count=$(({size} >> 18)) iflag=direct",
}


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


@pytest.mark.parametrize("shared", [False, True], indirect=True, ids=["receive queues", "shared receive queues"])
def test_data_survives_a_reconnection(connection, shared, guest0, guest1):
    """Writes a pattern to the disk and reads it back in requests of two sizes. Disconnects, connects again and reads it
    once more. Expects the pattern each time, also in the other guest's RAM disk. The target has an SRQ for all
    connections, or none."""
    assert bool(guest0.run("rdma resource show srq").stdout.strip()) == shared
    assert_survives(guest0, guest1, BLOCK, [fill(DISCONNECT), connection])


def rate(guest: Guest, copy: str) -> float:
    """The rate in MB/s, as dd measures it."""
    return SIZE / float(found(r"copied, ([\d.e-]+) s", guest.script(fill(copy)).stderr)[1]) / 1e6


def test_throughput(target, guest1, measured):
    """Writes the disk and reads it in requests of 256 KiB, by RDMA and by TCP in turns. The summary shows both rates.
    Other work of the machine can only slow a run down, so the best one counts. The test does not compare the rates,
    because a machine may be busy all the time."""
    guest1.run("modprobe -a nvme-rdma nvme-tcp")
    best = dict.fromkeys(((transport, name) for transport in PORTS for name in COPIES), 0.0)
    for transport in [*PORTS] * RUNS:
        guest1.script(fill(CONNECT, transport, address=target))
        for name, copy in COPIES.items():
            best[transport, name] = max(best[transport, name], rate(guest1, copy))
        guest1.script(fill(DISCONNECT))
    for name in COPIES:
        measured.append(f"NVMe {name} in requests of 256 KiB: {best['rdma', name]:.1f} MB/s over RDMA, "
                        f"{best['tcp', name]:.1f} over TCP")
