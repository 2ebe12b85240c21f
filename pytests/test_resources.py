# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A process's objects as iproute2's rdma shows them."""

import json
import time

import pytest

from framework.lab import Guest

pytestmark = pytest.mark.lab

REMEMBERED_S = 0.2  # twice as long as the driver caches a queue pair's counters


def shown(guest: Guest, device: str, kind: str, pid: int) -> list[dict]:
    """A process's objects of a kind, with the driver's details."""
    objects = json.loads(guest.run(f"rdma -j -dd resource show {kind}").stdout)
    return [each for each in objects if each.get("ifname") == device and each.get("pid") == pid]


def test_objects_of_a_process(endpoint, device, guest0):
    """Makes a queue pair with all that it needs; expects each object with its name, number and state, and its process.
    """
    side = endpoint(guest0).initialize()
    pid = side.device.session.pid
    (qp,) = [each for each in shown(guest0, device, "qp", pid) if each["lqpn"] == side.qp.num]
    assert (qp["type"], qp["state"]) == ("RC", "INIT")
    assert int(str(qp["drv_max_send_wr"]), 0) == side.qp.cap["max_send_wr"]
    (mr,) = [each for each in shown(guest0, device, "mr", pid) if int(each["lkey"], 16) == side.mr.lkey]
    assert mr["mrlen"] == side.mr.length
    assert not [name for name in mr if "addr" in name]  # all users may ask, so addresses are not shown
    cqs = shown(guest0, device, "cq", pid)
    assert len(cqs) == 2
    assert all(each["cqe"] >= 64 and int(str(each["drv_cqn"]), 0) for each in cqs)
    assert len(shown(guest0, device, "pd", pid)) == 1
    assert len(shown(guest0, device, "ctx", pid)) == 1


def test_regions_that_change(endpoint, device, guest0):
    """Gives a region other memory many times while its details are queried; expects its length to be one of the two.
    """
    side = endpoint(guest0)
    lengths = (4096, 8192)
    region = side.pd.mr(lengths[0], ["LOCAL_WRITE"])
    asking = guest0.start("sh -c 'while rdma -j -dd resource show mr >/tmp/regions; do :; done'")
    try:
        for number in range(1, 100):
            region.rereg(length=lengths[number % 2])
            if number % 20:
                continue
            (mr,) = [each for each in shown(guest0, device, "mr", side.device.session.pid)
                     if int(each["lkey"], 16) == region.lkey]
            assert mr["mrlen"] in lengths
        assert asking.running
    finally:
        asking.kill()


def test_summary_counts(open_device, device, guest0):
    """Makes three protection domains and regions and closes the device; expects the summary to count them, and then
    none."""

    def counts() -> dict[str, int]:
        (summary,) = [each for each in json.loads(guest0.run("rdma -j resource").stdout) if each["ifname"] == device]
        return {kind: summary[kind] for kind in ("pd", "mr")}

    before = counts()
    opened = open_device(guest0)
    domains = [opened.pd() for _ in range(3)]
    regions = [pd.mr(4096, ["LOCAL_WRITE"]) for pd in domains]
    assert len(regions) == 3
    assert counts() == {kind: number + 3 for kind, number in before.items()}
    opened.close()
    assert counts() == before


def test_counters_of_a_queue_pair(connected, device, guest0):
    """Sends three messages twice; expects the details of that queue pair to count them, and no counter for an event
    that did not happen."""
    left, right = connected()
    for total in (3, 6):
        for number in range(3):
            right.receive(wr_id=number)
            left.send(length=1000)
        assert left.sent(3) == right.received(3) == ["SUCCESS"] * 3
        time.sleep(REMEMBERED_S)
        (qp,) = [each for each in shown(guest0, device, "qp", left.device.session.pid) if each["lqpn"] == left.qp.num]
        assert (int(str(qp["drv_tx_messages"]), 0), int(str(qp["drv_tx_bytes"]), 0)) == (total, 1000 * total)
        assert "drv_rnr_nak_retry_err" not in qp
