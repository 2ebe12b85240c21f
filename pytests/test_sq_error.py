# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The error state of an unreliable send queue (IBA 10.3.1.6), and the ways out of it and of the drained state."""

import errno

import pytest

from framework.endpoint import QKEY
from framework.verbs import refused

UNRELIABLE = ("UC", "UD")
ALTERNATE = {"alt_ah_attr": {"dgid": "fe80:0000:0000:0000:0000:0000:0000:0001", "sgid_index": 0}}
WAYS_OUT = {"SQD": {"RTS", "SQD", "ERR", "RESET"}, "SQE": {"RTS", "ERR", "RESET"}}
STATES = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")


def send(left, right, wr_id: int = 0, lkey: int | None = None) -> None:
    how = {"ah": left.pd.ah(dgid=right.gid.address, sgid_index=left.gid.index), "qpn": right.qp.num,
           "qkey": QKEY} if left.kind == "UD" else {}  # fmt: skip
    left.qp.post_send("SEND", wr_id, [[left.mr.addr, 64, left.mr.lkey if lkey is None else lkey]], **how)


def enter(left, right, state: str) -> None:
    """Takes a queue pair from RTS to SQD, or to SQE by a send with an invalid key."""
    if state == "SQD":
        left.qp.modify(qp_state="SQD")
    else:
        send(left, right, lkey=0)
        assert left.sent() == ["LOC_PROT_ERR"]
    assert left.state() == state


@pytest.mark.parametrize("kind", UNRELIABLE)
def test_flushes_until_it_is_left(connected, kind):
    """Fails a send with two behind it, and posts another in SQE; expects flushes in order, and sends to work again in
    RTS."""
    left, right = connected(kind)
    right.receive(wr_id=7)
    send(left, right, 0, lkey=0)
    send(left, right, 1)
    send(left, right, 2)
    assert left.sent(3) == ["LOC_PROT_ERR", "WR_FLUSH_ERR", "WR_FLUSH_ERR"]
    assert left.state() == "SQE"
    send(left, right, 3)
    assert [(each.wr_id, each.status) for each in left.send_cq.wait()] == [(3, "WR_FLUSH_ERR")]
    assert not right.recv_cq.poll()
    left.qp.modify(qp_state="RTS", cur_qp_state="SQE")
    send(left, right, 4)
    assert left.sent() == ["SUCCESS"]
    assert [each.wr_id for each in right.recv_cq.wait()] == [7]


@pytest.mark.parametrize("kind", UNRELIABLE)
def test_receives_go_on(connected, kind):
    """Sends to a queue pair in SQE; expects the message to arrive, and its receives not to be flushed."""
    left, right = connected(kind)
    left.receive(wr_id=1)
    left.receive(wr_id=2, offset=1024)
    enter(left, right, "SQE")
    send(right, left)
    assert right.sent() == ["SUCCESS"]
    assert [(each.wr_id, each.status) for each in left.recv_cq.wait()] == [(1, "SUCCESS")]
    assert not left.recv_cq.poll()


def test_reliable_queue_pairs_have_none(connected):
    """Fails a send of a reliable queue pair in the same way; expects ERR, in which receives are flushed as well."""
    left, right = connected("RC")
    left.receive()
    send(left, right, lkey=0)
    assert left.sent() == ["LOC_PROT_ERR"]
    assert left.state() == "ERR"
    assert left.received() == ["WR_FLUSH_ERR"]


@pytest.mark.parametrize("kind, before", [("RC", "SQD"), ("UC", "SQD"), ("UD", "SQD"), ("UC", "SQE"), ("UD", "SQE")])
def test_ways_out(connected, kind, before):
    """Tries to go to each state; expects EINVAL if the transition does not exist, and otherwise the new state."""
    for after in STATES:
        left, right = connected(kind)
        enter(left, right, before)
        if after in WAYS_OUT[before]:
            left.qp.modify(qp_state=after)
            assert left.state() == after
        else:
            assert refused(left.qp.modify, qp_state=after) == errno.EINVAL, after
            assert left.state() == before


@pytest.mark.parametrize("kind, allowed, foreign", [
    ("UC", {"qp_access_flags": ["REMOTE_WRITE"]}, {"qkey": QKEY}),
    ("UD", {"qkey": QKEY + 1}, {"qp_access_flags": ["REMOTE_WRITE"]}),
])  # fmt: skip
def test_attributes(connected, kind, allowed, foreign):
    """Leaves SQE with an attribute of the other type, and with its own; expects EINVAL, then success and the change."""
    left, right = connected(kind)
    enter(left, right, "SQE")
    assert refused(left.qp.modify, qp_state="RTS", **foreign) == errno.EINVAL
    assert refused(left.qp.modify, qp_state="RTS", cur_qp_state="SQD") == errno.EINVAL
    assert refused(left.qp.modify, **allowed) == errno.EINVAL  # nothing changes in SQE itself
    left.qp.modify(qp_state="RTS", cur_qp_state="SQE", **allowed)
    found = left.qp.query()
    if kind == "UD":
        assert found.qkey == QKEY + 1
    else:
        assert found.qp_access_flags & 14 == 2  # of the remote rights, only writing


@pytest.mark.parametrize("kind", ["RC", "UC"])
@pytest.mark.parametrize("change", [ALTERNATE, {"path_mig_state": 1}])
def test_no_path_migration(connected, kind, change):
    """Sets an alternate path, or arms one, in RTS and in SQD; expects to be refused, and the connection to work."""
    left, right = connected(kind)
    for state in ("RTS", "SQD"):
        left.qp.modify(qp_state=state)
        assert refused(left.qp.modify, **change) in (errno.EINVAL, errno.EOPNOTSUPP)
    left.qp.modify(qp_state="RTS")
    right.receive()
    send(left, right)
    assert left.sent() == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]
