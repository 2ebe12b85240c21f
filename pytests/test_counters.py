# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What the guest's kernel shows of the device's counters: in sysfs and by iproute2's rdma."""

import json

import pytest

from framework.lab import Guest

pytestmark = pytest.mark.lab


def sysfs(guest: Guest, device: str, kind: str) -> dict[str, int]:
    """Those of a directory of the port; ib_core keeps values for some milliseconds."""
    text = guest.script(f"sleep 0.05; cd /sys/class/infiniband/{device}/ports/1/{kind}; grep -Hs '^[0-9]' * || :").stdout
    return {name: int(value) for name, value in (line.split(":") for line in text.splitlines()) if name != "lifespan"}


def statistic(guest: Guest, device: str) -> dict[str, int]:
    (link,) = json.loads(guest.run(f"rdma -j statistic show link {device}/1").stdout)
    return {name: int(value) for name, value in link.items() if name not in ("ifindex", "ifname", "port")}


def test_messages_and_bytes(connected, device, guest0, guest1):
    """Sends three messages of 1000 bytes; expects both sides' hw_counters and port counters to have grown by just these."""
    left, right = connected()
    before = [{kind: sysfs(guest, device, kind) for kind in ("hw_counters", "counters")} for guest in (guest0, guest1)]
    for number in range(3):
        right.receive(wr_id=number)
        left.send(length=1000)
    assert left.sent(3) == right.received(3) == ["SUCCESS"] * 3
    after = [{kind: sysfs(guest, device, kind) for kind in ("hw_counters", "counters")} for guest in (guest0, guest1)]
    grown = [{name: after[side][kind][name] - value for kind in ("hw_counters", "counters")
              for name, value in before[side][kind].items()} for side in (0, 1)]
    assert {name: by for name, by in grown[0].items() if by} == {
        "tx_messages": 3, "tx_bytes": 3000, "port_xmit_packets": 3, "port_xmit_data": 750, "unicast_xmit_packets": 3}
    assert {name: by for name, by in grown[1].items() if by} == {
        "rx_messages": 3, "rx_bytes": 3000, "port_rcv_packets": 3, "port_rcv_data": 750, "unicast_rcv_packets": 3}


def test_errors(connected, device, guest0, guest1):
    """Writes with a key that does not exist, and a message behind it; expects an error, a flush, and a refusal at the peer."""
    left, right = connected()
    before = statistic(guest0, device), statistic(guest1, device)
    left.send("RDMA_WRITE", wr_id=1, target=[right.mr.addr, right.mr.rkey ^ 0x100])
    left.send("RDMA_WRITE", wr_id=2, target=right.target())
    assert left.sent(2) == ["REM_ACCESS_ERR", "WR_FLUSH_ERR"]
    assert statistic(guest0, device)["req_remote_access_errors"] == before[0]["req_remote_access_errors"] + 1
    assert statistic(guest0, device)["flushed_wqes"] == before[0]["flushed_wqes"] + 1
    assert statistic(guest1, device)["refused_requests"] == before[1]["refused_requests"] + 1


def test_no_receive(connected, device, guest0):
    """Sends where no receive is posted, with one retry; expects RNR NAKs, and that the retries were exceeded."""
    left, _ = connected(rnr_retry=1)
    before = statistic(guest0, device)
    left.send()
    assert left.sent() == ["RNR_RETRY_EXC_ERR"]
    after = statistic(guest0, device)
    assert after["rnr_nak_retry_err"] == before["rnr_nak_retry_err"] + 2
    assert after["retry_rnr_exceeded_err"] == before["retry_rnr_exceeded_err"] + 1
