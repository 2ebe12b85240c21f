# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""RDS over RDMA between guests."""

import pytest

from framework.connections import address
from framework.lab import TIMEOUT_S

pytestmark = pytest.mark.lab

COUNT = 20


def test_datagrams(device, guest0, guest1):
    """Sends 20 datagrams of 4 KiB over RDS, with no other transport of RDS loaded; expects all to arrive complete, and
    the receiver's answer."""
    for guest in (guest0, guest1):
        guest.run("modprobe -a rds rds_rdma")
    own, peer = address(guest1, 4), address(guest0, 4)
    receiver = guest0.start(f"python3 {guest0.programs}/rds.py {peer} {COUNT}")
    assert receiver.next_line(TIMEOUT_S).strip() == "ready"
    answer = guest1.run(f"python3 {guest1.programs}/rds.py {own} {COUNT} {peer}").stdout
    receiver.kill()
    assert answer.strip() == f"{COUNT} whole"
