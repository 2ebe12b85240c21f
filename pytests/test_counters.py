# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The device's counters as the guest's kernel shows them: in sysfs and by iproute2's rdma."""

import json

import pytest

from framework.lab import Guest

pytestmark = pytest.mark.lab


def sysfs(guest: Guest, device: str, kind: str) -> dict[str, int]:
    """The counters in a directory of the port. ib_core caches values for some milliseconds."""
    text = guest.script(f"sleep 0.05; cd /sys/class/infiniband/{device}/ports/1/{kind}; grep -Hs '^[0-9]' * || "
                        f":").stdout
    return {name: int(value) for name, value in (line.split(":") for line in text.splitlines()) if name != "lifespan"}


def statistic(guest: Guest, device: str) -> dict[str, int]:
    (link,) = json.loads(guest.run(f"rdma -j statistic show link {device}/1").stdout)
    return {name: int(value) for name, value in link.items() if name not in ("ifindex", "ifname", "port")}


def test_messages_and_bytes(connected, device, guest0, guest1):
    """Sends three messages of 1000 bytes; expects both sides' hw_counters and port counters to grow by exactly these.
    """
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
    """Writes with a key that does not exist, followed by a message; expects an error, a flush, and a refusal at the
    peer."""
    left, right = connected()
    before = statistic(guest0, device), statistic(guest1, device)
    left.send("RDMA_WRITE", wr_id=1, target=[right.mr.addr, right.mr.rkey ^ 0x100])
    left.send("RDMA_WRITE", wr_id=2, target=right.target())
    assert left.sent(2) == ["REM_ACCESS_ERR", "WR_FLUSH_ERR"]
    assert statistic(guest0, device)["req_remote_access_errors"] == before[0]["req_remote_access_errors"] + 1
    assert statistic(guest0, device)["flushed_wqes"] == before[0]["flushed_wqes"] + 1
    assert statistic(guest1, device)["refused_requests"] == before[1]["refused_requests"] + 1


def test_no_receive(connected, device, guest0):
    """Sends when no receive is posted, with one retry; expects RNR NAKs, and that the retries were exceeded."""
    left, _ = connected(rnr_retry=1)
    before = statistic(guest0, device)
    left.send()
    assert left.sent() == ["RNR_RETRY_EXC_ERR"]
    after = statistic(guest0, device)
    assert after["rnr_nak_retry_err"] == before["rnr_nak_retry_err"] + 2
    assert after["retry_rnr_exceeded_err"] == before["retry_rnr_exceeded_err"] + 1


def bound(guest: Guest, device: str) -> list[dict]:
    """The counters of the port that have QPs bound to them."""
    return json.loads(guest.run(f"rdma -j statistic qp show link {device}/1").stdout)


def sent(right, left, messages: int) -> None:
    for number in range(messages):
        right.receive(wr_id=number)
        left.send(length=100)
    assert left.sent(messages) == right.received(messages) == ["SUCCESS"] * messages


def test_bound_qp(connected, device, guest0):
    """Binds a QP, and sends three messages by it and four by another. Unbinds it and sends two. Expects three in its
    counter, and nine in the port's."""
    left, right = connected()
    other, peer = connected()
    before = statistic(guest0, device)["tx_messages"]
    qpn = left.qp.num
    guest0.run(f"rdma statistic qp bind link {device}/1 lqpn {qpn}")
    sent(right, left, 3)
    sent(peer, other, 4)
    (counter,) = bound(guest0, device)
    assert (counter["lqpn"], counter["tx_messages"], counter["tx_bytes"]) == ([qpn], 3, 300)
    assert statistic(guest0, device)["tx_messages"] == before + 7
    refused = guest0.run(f"rdma statistic qp bind link {device}/1 lqpn {qpn}", check=False)
    assert refused.status != 0
    guest0.run(f"rdma statistic qp unbind link {device}/1 cntn {counter['cntn']} lqpn {qpn}")
    sent(right, left, 2)
    assert bound(guest0, device) == []
    assert statistic(guest0, device)["tx_messages"] == before + 9


def test_qps_bound_by_type(connected, device, guest0):
    """Has all QPs of a type bound automatically; expects one counter for both. It ends with the QPs, but its count
    remains."""
    before = statistic(guest0, device)["tx_messages"]
    guest0.run(f"rdma statistic qp set link {device}/1 auto type on")
    try:
        pairs = [connected(), connected()]
        for left, right in pairs:
            sent(right, left, 2)
        counter = next(each for each in bound(guest0, device) if pairs[0][0].qp.num in each["lqpn"])
        assert counter["qp-type"] == "RC" and pairs[1][0].qp.num in counter["lqpn"]
        assert counter["tx_messages"] == 4
        for left, _ in pairs:
            left.qp.close()
        assert bound(guest0, device) == []
        assert statistic(guest0, device)["tx_messages"] == before + 4
    finally:
        guest0.run(f"rdma statistic qp set link {device}/1 auto off")
