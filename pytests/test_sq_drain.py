# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The drained state of a send queue (IBA 10.3.1.5), and the attributes that may change there."""

import errno

import pytest

from framework.verbs import refused

LONG = 8 << 20
EVENT_S = 10


@pytest.mark.parametrize("kind", ["RC", "UC", "UD"])
def test_sends_wait(connected, kind):
    """Posts four sends in SQD; expects none to be executed. Goes back to RTS; expects all of them, in order."""
    left, right = connected(kind)
    how = {"ah": left.pd.ah(dgid=right.gid.address, sgid_index=left.gid.index), "qpn": right.qp.num,
           "qkey": 0x11111111} if kind == "UD" else {}  # fmt: skip
    left.qp.modify(qp_state="SQD")
    for number in range(4):
        right.receive(wr_id=number, offset=number * 256, length=256)
        left.send(wr_id=number, length=number + 1, **how)
    assert left.sent(1, timeout=0.3) == []
    left.qp.modify(qp_state="RTS", cur_qp_state="SQD")
    assert left.sent(4) == ["SUCCESS"] * 4
    assert [each.wr_id for each in right.recv_cq.wait(4)] == [0, 1, 2, 3]


# Between hosts the second message has already left.
@pytest.mark.together
def test_event_comes_when_it_is_drained(connected):
    """Goes to SQD while a message waits for a receive; expects it to complete, then the event, and later messages to
    wait."""
    left, right = connected()
    left.send(wr_id=1)
    left.send(wr_id=2)
    assert left.sent(1, timeout=0.3) == []
    left.qp.modify(qp_state="SQD", en_sqd_async_notify=1)
    assert left.device.await_event("SQ_DRAINED", 0.3) == []
    right.receive(wr_id=1)
    assert [each.wr_id for each in left.send_cq.wait()] == [1]
    assert left.device.await_event("SQ_DRAINED", EVENT_S) == ["SQ_DRAINED"]
    right.receive(wr_id=2)
    assert left.sent(1, timeout=0.3) == []
    left.qp.modify(qp_state="RTS")
    assert [each.wr_id for each in left.send_cq.wait()] == [2]


def test_receives_go_on(connected):
    """Goes to SQD; expects messages from the peer to arrive as before."""
    left, right = connected()
    left.qp.modify(qp_state="SQD")
    left.receive(wr_id=9)
    right.send()
    assert right.sent() == ["SUCCESS"]
    assert [each.wr_id for each in left.recv_cq.wait()] == [9]


def test_attributes_change(connected):
    """Changes in SQD the attributes that may change there; expects query to return them, and the connection to work."""
    left, right = connected()
    changes = {"timeout": 17, "retry_cnt": 3, "rnr_retry": 2, "max_rd_atomic": 4, "max_dest_rd_atomic": 5,
               "min_rnr_timer": 7, "pkey_index": 0, "port_num": 1}  # fmt: skip
    left.qp.modify(qp_state="SQD")
    left.qp.modify(**changes)
    found = left.qp.query()
    assert {name: getattr(found, name) for name in changes} == changes
    assert found.qp_state == "SQD"
    left.qp.modify(qp_state="RTS")
    right.receive()
    left.send()
    assert left.sent() == ["SUCCESS"]


@pytest.mark.parametrize("name, value", [
    ("timeout", 32), ("retry_cnt", 8), ("rnr_retry", 8), ("min_rnr_timer", 32), ("max_rd_atomic", 255),
    ("max_dest_rd_atomic", 255), ("pkey_index", 1), ("port_num", 2), ("path_mtu", 3), ("dest_qp_num", 1), ("sq_psn", 1),
    ("rq_psn", 1), ("qkey", 1),
])  # fmt: skip
def test_attributes_that_may_not(connected, name, value):
    """Sets in SQD a value out of range, or an attribute that must not change there; expects EINVAL and no change."""
    left, _ = connected()
    left.qp.modify(qp_state="SQD")
    before = left.qp.query()
    assert refused(left.qp.modify, **{name: value}) == errno.EINVAL
    assert left.qp.query() == before
