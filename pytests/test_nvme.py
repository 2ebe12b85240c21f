# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""NVMe over RDMA: a RAM disk of one guest, used by the other through the kernel's nvme-rdma and nvmet-rdma."""

import pytest

from framework.disk import SIZE, assert_survives
from framework.lab import Guest
from framework.nvme import BLOCK, CONNECT, DISCONNECT, PORTS, fill
from framework.text import found

pytestmark = pytest.mark.lab

RUNS = 3
COPIES = {
    "write": "dd if=/dev/zero of={block} bs=256k count=$(({size} >> 18)) oflag=direct",
    "read": "dd if={block} of=/dev/null bs=256k count=$(({size} >> 18)) iflag=direct",
}


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
