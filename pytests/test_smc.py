# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""SMC-R between guests: sockets that begin with TCP and continue with RDMA."""

import pytest

from framework.connections import address
from framework.lab import TIMEOUT_S, Guest
from framework.programs import next_port

pytestmark = pytest.mark.lab

SIZE = 1 << 20


def sent_bytes(guest: Guest, device: str) -> int:
    """Bytes sent by RDMA. ib_core caches values for some milliseconds."""
    return int(guest.script(f"sleep 0.05; cat /sys/class/infiniband/{device}/ports/1/hw_counters/tx_bytes").stdout)


def test_stream(device, guest0, guest1):
    """Sends 1 MiB and gets it back; expects it unchanged, and sent over RDMA both ways. SMC silently falls back to TCP
    if it finds no device."""
    for guest in (guest0, guest1):
        guest.run("modprobe smc")
    before = [sent_bytes(guest, device) for guest in (guest0, guest1)]
    port = next_port()
    server = guest0.start(f"python3 {guest0.programs}/smc.py {port}")
    assert server.next_line(TIMEOUT_S).strip() == "ready"
    client = guest1.run(f"python3 {guest1.programs}/smc.py {port} {address(guest0, 4)} {SIZE}")
    server.wait(TIMEOUT_S)
    assert client.stdout.strip() == "same"
    for guest, sent in zip((guest0, guest1), before, strict=True):
        assert sent_bytes(guest, device) >= sent + SIZE
