# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""RDS over RDMA between guests."""

from collections.abc import Iterator

import pytest

from framework.connections import address
from framework.lab import TIMEOUT_S, Guest

pytestmark = pytest.mark.lab

COUNT = 20


@pytest.fixture
def loaded(device: str, guest0: Guest, guest1: Guest) -> Iterator[None]:
    """RDS in both guests, with no other transport. It is unloaded afterwards, because it would connect again and again.
    Linux warns if that meets a device that goes (rdma_resolve_addr())."""
    for guest in (guest0, guest1):
        guest.run("modprobe -a rds rds_rdma")
    yield
    for guest in (guest0, guest1):
        guest.run("modprobe -r rds_rdma rds")


def test_datagrams(loaded, guest0, guest1):
    """Sends 20 datagrams of 4 KiB over RDS; expects all to arrive complete, and the receiver's answer."""
    own, peer = address(guest1, 4), address(guest0, 4)
    receiver = guest0.start(f"python3 {guest0.programs}/rds.py {peer} {COUNT}")
    assert receiver.next_line(TIMEOUT_S).strip() == "ready"
    answer = guest1.run(f"python3 {guest1.programs}/rds.py {own} {COUNT} {peer}").stdout
    receiver.kill()
    assert answer.strip() == f"{COUNT} whole"
