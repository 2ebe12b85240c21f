# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""SoftRoCE over the guests' virtio-net, to which vrdma is compared."""

from .lab import Guest

ADD = """
modprobe rdma_rxe
rdma link show rxe0/1 2>/dev/null || rdma link add rxe0 type rxe netdev {nic}
"""


def add_rxe(guest: Guest) -> str:
    """Adds the device if it does not exist yet; returns its name."""
    guest.script(ADD.format(nic=guest.nic))
    guest.forget("gids")
    return "rxe0"


def remove_rxe(guest: Guest) -> None:
    guest.run("rdma link delete rxe0")
    guest.forget("gids")
