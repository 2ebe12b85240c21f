# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Async events: reports about queue pairs, completion queues and ports besides completions (IBA 11.6.3)."""

import pytest

TIMEOUT_S = 10


def test_access_error(connected):
    """Has a peer write with a bad key; expects QP_ACCESS_ERR at the responder."""
    left, right = connected()
    address, rkey = right.target()
    left.send("RDMA_WRITE", target=[address, rkey ^ 1])
    assert left.sent() == ["REM_ACCESS_ERR"]
    assert "QP_ACCESS_ERR" in right.device.await_event("QP_ACCESS_ERR", TIMEOUT_S)


def test_invalid_request(connected):
    """Has a peer execute an atomic that is not aligned; expects QP_REQ_ERR at the responder."""
    left, right = connected()
    left.send("ATOMIC_FETCH_AND_ADD", length=8, target=right.target(1), compare_add=1)
    assert left.sent() == ["REM_INV_REQ_ERR"]
    assert "QP_REQ_ERR" in right.device.await_event("QP_REQ_ERR", TIMEOUT_S)


def test_communication_established(endpoint, guest0, guest1):
    """Sends to a queue pair that is still in RTR; expects COMM_EST there."""
    left, right = endpoint(guest0), endpoint(guest1)
    for side in (left, right):
        side.initialize()
    left.connect(right)
    right.qp.modify(qp_state="RTR", ah_attr={"dgid": left.gid.address, "sgid_index": right.gid.index}, path_mtu=3,
                    dest_qp_num=left.qp.num, rq_psn=0x123456, max_dest_rd_atomic=1, min_rnr_timer=12)  # fmt: skip
    right.receive()
    left.send()
    assert left.sent() == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]
    assert "COMM_EST" in right.device.await_event("COMM_EST", TIMEOUT_S)


def test_send_queue_drained(connected):
    """Takes a queue pair to SQD and asks for the event; expects SQ_DRAINED."""
    left, _ = connected()
    left.qp.modify(qp_state="SQD", en_sqd_async_notify=1)
    assert "SQ_DRAINED" in left.device.await_event("SQ_DRAINED", TIMEOUT_S)


def test_completion_queue_overrun(endpoint, guest0, guest1):
    """Completes more sends than the completion queue holds; expects CQ_ERR."""
    left, right = endpoint(guest0, depth=1, max_send_wr=64), endpoint(guest1)
    for side in (left, right):
        side.initialize()
    left.connect(right)
    right.connect(left)
    for _ in range(left.send_cq.depth + 1):
        left.send("RDMA_WRITE", target=right.target())
    assert "CQ_ERR" in left.device.await_event("CQ_ERR", TIMEOUT_S)


def has_gid(guest, address: str) -> bool:
    guest.forget("gids")
    return any(gid.address.endswith(address) for gids in guest.gids.values() for gid in gids)


@pytest.fixture
def nic(guest0):
    """guest0's network device. After the test it is up again, with the address that `down` has removed."""
    guest0.script(f"echo 1 >/proc/sys/net/ipv6/conf/{guest0.nic}/keep_addr_on_down")
    yield guest0.nic
    guest0.script(f"ip link set {guest0.nic} up")
    guest0.forget("gids")


@pytest.mark.lab
def test_port_goes_and_comes(open_device, guest0, nic):
    """Sets the paired network device down and up; expects PORT_ERR and PORT_ACTIVE, and the port's state to follow."""
    opened = open_device(guest0)
    active = opened.limits().port_state
    guest0.run(f"ip link set {nic} down")
    assert "PORT_ERR" in opened.await_event("PORT_ERR", TIMEOUT_S)
    assert opened.limits().port_state != active
    guest0.run(f"ip link set {nic} up")
    assert "PORT_ACTIVE" in opened.await_event("PORT_ACTIVE", TIMEOUT_S)
    assert opened.limits().port_state == active


@pytest.mark.lab
def test_address_comes(open_device, guest0, nic):
    """Adds an IPv4 address to the paired network device; expects GID_CHANGE. Removes it; expects its GIDs to go."""
    opened = open_device(guest0)
    guest0.run(f"ip address add 10.99.0.1/24 dev {nic}")
    try:
        assert "GID_CHANGE" in opened.await_event("GID_CHANGE", TIMEOUT_S)
        assert has_gid(guest0, "ffff:0a63:0001")
    finally:
        guest0.run(f"ip address del 10.99.0.1/24 dev {nic}")
    assert "GID_CHANGE" in opened.await_event("GID_CHANGE", TIMEOUT_S)
    assert not has_gid(guest0, "ffff:0a63:0001")
