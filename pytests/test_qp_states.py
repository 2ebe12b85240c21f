# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The state machine of queue pairs and the attributes of its transitions (IBA 10.3.1 and 11.2.5.2)."""

import errno

import pytest

from framework.endpoint import ALL_ACCESS, PSN, QKEY, connect, init_attributes, rtr_attributes, rts_attributes
from framework.verbs import refused

KINDS = ("RC", "UC", "UD")
REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC = 2, 4, 8
REMOTE_BITS = REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC
TO_STATE = {"INIT": "RESET", "RTR": "INIT", "RTS": "RTR"}


def attributes(endpoint, state: str) -> dict:
    """The attributes that a step to a state requires; the endpoint is its own peer."""
    if state == "RTR":
        return rtr_attributes(endpoint.kind, endpoint.qp.num, endpoint.gid.address, endpoint.gid.index)
    return init_attributes(endpoint.kind) if state == "INIT" else rts_attributes(endpoint.kind)


def advance(endpoint, state: str):
    """Takes a queue pair from RESET to the state."""
    for step in ("INIT", "RTR", "RTS"):
        if endpoint.state() == state:
            return endpoint
        endpoint.qp.modify(**attributes(endpoint, step))
    return endpoint


def assert_refused(endpoint, change: dict) -> None:
    """Expects the change to fail with EINVAL and to leave the state unchanged."""
    before = endpoint.state()
    assert refused(endpoint.qp.modify, **change) == errno.EINVAL
    assert endpoint.state() == before


@pytest.mark.parametrize("kind", KINDS)
def test_query_returns_what_was_set(endpoint, guest0, kind):
    """Takes a queue pair from RESET to RTS; expects each state and each attribute to have its new value."""
    side = endpoint(guest0, kind)
    assert side.state() == "RESET"
    expected: dict = {}
    for state in ("INIT", "RTR", "RTS"):
        step = attributes(side, state)
        side.qp.modify(**step)
        expected |= step
        assert side.state() == state
    found = side.qp.query()
    path = expected.pop("ah_attr", None)
    if path:
        assert found.dgid == path["dgid"]
    if "qp_access_flags" in expected:
        assert found.qp_access_flags & REMOTE_BITS == REMOTE_BITS
        del expected["qp_access_flags"]
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", TO_STATE)
def test_each_required_attribute_is_missed(endpoint, guest0, kind, state):
    """Leaves out each required attribute of a transition in turn; expects EINVAL each time."""
    side = advance(endpoint(guest0, kind), TO_STATE[state])
    complete = attributes(side, state)
    for name in complete.keys() - {"qp_state"}:
        assert_refused(side, {key: value for key, value in complete.items() if key != name})
    side.qp.modify(**complete)
    assert side.state() == state


@pytest.mark.parametrize("kind, state, surplus", [
    ("RC", "INIT", {"sq_psn": PSN}),
    ("RC", "INIT", {"qkey": QKEY}),
    ("RC", "RTR", {"timeout": 14}),
    ("RC", "RTS", {"path_mtu": 3}),
    ("UC", "RTR", {"min_rnr_timer": 12}),
    ("UC", "RTS", {"retry_cnt": 7}),
    ("UD", "INIT", {"qp_access_flags": ALL_ACCESS}),
    ("UD", "RTR", {"path_mtu": 3}),
    ("UD", "RTS", {"max_rd_atomic": 1}),
])  # fmt: skip
def test_attribute_that_does_not_belong(endpoint, guest0, kind, state, surplus):
    """Adds an attribute that the transition does not allow; expects EINVAL."""
    side = advance(endpoint(guest0, kind), TO_STATE[state])
    assert_refused(side, {**attributes(side, state), **surplus})


@pytest.mark.parametrize("before, after", [
    ("RESET", "RTR"), ("RESET", "RTS"), ("RESET", "SQD"), ("INIT", "RTS"), ("INIT", "SQD"), ("RTR", "INIT"),
    ("RTS", "RTR"), ("RTS", "INIT"), ("RTR", "SQD"),
])  # fmt: skip
def test_forbidden_transition(endpoint, guest0, before, after):
    """Skips a state or goes back; expects EINVAL."""
    side = advance(endpoint(guest0), before)
    change = attributes(side, after) if after in TO_STATE else {"qp_state": after}
    assert_refused(side, change)


@pytest.mark.parametrize("name, value", [("port_num", 2), ("pkey_index", 1), ("port_num", 0)])
def test_value_out_of_range(endpoint, guest0, name, value):
    """Names a port or partition that does not exist; expects EINVAL."""
    side = endpoint(guest0)
    assert_refused(side, {**init_attributes("RC"), name: value})


def test_current_state_is_checked(endpoint, guest0):
    """Gives a wrong current state in RTR to RTS; expects EINVAL, and success with the right one."""
    side = advance(endpoint(guest0), "RTR")
    assert_refused(side, {**rts_attributes("RC"), "cur_qp_state": "RTS"})
    side.qp.modify(**rts_attributes("RC"), cur_qp_state="RTR")
    assert side.state() == "RTS"


def test_change_in_rts(endpoint, guest0):
    """Changes the access flags and the RNR timer of a queue pair in use; expects query to return the new values."""
    side = advance(endpoint(guest0), "RTS")
    side.qp.modify(qp_state="RTS", qp_access_flags=["REMOTE_READ"], min_rnr_timer=20)
    found = side.qp.query()
    assert (found.qp_access_flags & REMOTE_BITS, found.min_rnr_timer) == (REMOTE_READ, 20)


def test_drained_and_back(connected):
    """Takes a queue pair to SQD, where a send must wait, and back to RTS; expects the send to arrive only then."""
    left, right = connected()
    right.receive()
    left.qp.modify(qp_state="SQD")
    left.send()
    assert left.sent(1, timeout=0.3) == []
    left.qp.modify(qp_state="RTS")
    assert left.sent() == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]


@pytest.mark.parametrize("kind", KINDS)
def test_reset_and_use_again(connected, kind):
    """Takes both sides to ERR and RESET and connects them again; expects no stale completion and a working
    connection."""
    left, right = connected(kind)
    right.receive(wr_id=1)
    for side in (left, right):
        side.qp.modify(qp_state="ERR")
        assert side.state() == "ERR"
        side.qp.modify(qp_state="RESET")
        assert side.state() == "RESET"
    if kind == "UD":
        return
    connect(left, right)
    assert right.received(1, timeout=0.3) == []
    right.receive(wr_id=2)
    left.send()
    assert left.sent() == ["SUCCESS"]
    (completion,) = right.recv_cq.wait()
    assert (completion.wr_id, completion.status) == (2, "SUCCESS")


@pytest.mark.parametrize("state", ["RESET", "INIT", "RTR"])
def test_send_before_rts(endpoint, guest0, state):
    """Posts a send before RTS; expects the post itself to fail."""
    side = advance(endpoint(guest0), state)
    assert refused(side.send) in (errno.EINVAL, errno.ENOMEM)


def test_receive_in_reset(endpoint, guest0):
    """Posts a receive in RESET, which fails, and in INIT, which does not."""
    side = endpoint(guest0)
    assert refused(side.receive) in (errno.EINVAL, errno.ENOMEM)
    advance(side, "INIT").receive()
