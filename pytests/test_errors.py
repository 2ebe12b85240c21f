# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Bad input, for each verb: the errno of the man pages, or the completion status of the specification. Existing objects
must continue to work. Tests of a verb's limits and of protection are in test_limits.py and test_protection.py."""

import errno

import pytest

from framework.endpoint import QKEY, connect, init_attributes, rtr_attributes, rts_attributes
from framework.verbs import refused

PAGE = 4096
# uverbs returns ENOENT for an invalid handle.
NO_SUCH = (errno.EINVAL, errno.ENOENT)
# An object, and the verb that needs it: it makes an object of another kind, or works on this one.
USES = [("pd", "mr"), ("pd", "srq"), ("pd", "qp"), ("pd", "ah"), ("cq", "qp"), ("srq", "qp")]
VERBS = [("cq", "resize_cq"), ("srq", "modify_srq"), ("srq", "query_srq"), ("qp", "modify_qp"), ("qp", "query_qp")]


@pytest.fixture
def opened(open_device, guest0):
    return open_device(guest0)


@pytest.fixture
def raw(opened):
    """Makes contexts whose objects can be made and destroyed in any order."""
    made = []

    def make():
        made.append(opened.raw())
        return made[-1]

    yield make
    for each in made:
        if each.session.usable:
            each.close()


@pytest.fixture
def forged(raw):
    """Has a call name another object than the given one; returns its errno."""

    def call(objects, kind: str, handle: int, *verb) -> int:
        mine = objects.handle(kind)
        objects.set_handle(kind, handle)
        error = refused(*verb)
        objects.set_handle(kind, mine)
        return error

    return call


def handles_of_none(objects, kind: str) -> list[int]:
    """A handle that never existed, and the handle of an object that is gone."""
    return [0x7ffffff0, objects.old_handle(kind)]


@pytest.mark.parametrize("held, user", [*USES, ("dm", "dm_mr"), ("pd", "dm_mr"), ("xrcd", "xrc_srq"), ("cq", "xrc_srq"),
                                        ("xrcd", "xrc_qp")])  # fmt: skip
def test_destroyed_in_use(raw, held, user):
    """Destroys an object that another needs; expects EBUSY, and success once the other is gone."""
    objects = raw()
    objects.make(user)
    assert refused(objects.destroy, held) == errno.EBUSY
    objects.destroy(user)
    if (held, user) == ("pd", "qp"):
        objects.destroy("srq")
    objects.destroy(held)


@pytest.mark.parametrize("kind, user", USES)
def test_made_of_no_object(raw, forged, kind, user):
    """Makes an object from one that never existed or is gone; expects EINVAL, and success with the right one."""
    objects = raw()
    objects.make(user)
    for handle in handles_of_none(objects, kind):
        assert forged(objects, kind, handle, objects.again, user) in NO_SUCH
    objects.again(user)


# In a guest each context has its own numbers and cannot name another's objects. Without a VM all contexts belong to one
# process, and the device checks this for objects that have queues.
@pytest.mark.native
@pytest.mark.parametrize("kind, user", [pair for pair in USES if pair[1] in ("srq", "qp")])
def test_made_of_anothers_object(raw, forged, kind, user):
    """Makes an object from one of another context; expects EINVAL, and the other's object to stay usable."""
    mine, other = raw(), raw()
    mine.make(user)
    other.make(user)
    assert forged(mine, kind, other.handle(kind), mine.again, user) == errno.EINVAL
    other.again(user)


@pytest.mark.parametrize("kind, verb", VERBS)
def test_verb_of_no_object(raw, forged, kind, verb):
    """Modifies and queries objects that never existed or are gone; expects EINVAL, and success with the right one."""
    objects = raw()
    objects.make(kind)
    for handle in handles_of_none(objects, kind):
        assert forged(objects, kind, handle, objects.use, verb) in NO_SUCH
    objects.use(verb)


@pytest.mark.parametrize("kind", ["pd", "cq", "mr", "srq", "qp"])
def test_no_object_destroyed(raw, forged, kind):
    """Destroys objects that never existed or are gone; expects EINVAL, and success with an existing one."""
    objects = raw()
    objects.make(kind)
    for handle in handles_of_none(objects, kind):
        assert forged(objects, kind, handle, objects.destroy, kind) in NO_SUCH
    objects.destroy(kind)


@pytest.mark.parametrize("kind, verb, mask, expected", [
    ("qp", "modify_qp", 1 << 30, errno.EOPNOTSUPP), ("srq", "modify_srq", 4, errno.EINVAL),
    ("pd", "reg_mr", 1 << 16, errno.EINVAL),
])  # fmt: skip
def test_unknown_attributes(raw, kind, verb, mask, expected):
    """Modifies undefined attributes, and registers memory with undefined rights; expects the errno."""
    objects = raw()
    objects.make(kind)
    assert refused(objects.use, verb, mask) == expected
    objects.use(verb)


def test_dma_buf(raw):
    """Registers a dma-buf; expects EOPNOTSUPP, before the file is examined."""
    objects = raw()
    objects.make("pd")
    assert refused(objects.use, "reg_dmabuf_mr") == errno.EOPNOTSUPP


@pytest.mark.parametrize("port", [0, 2, 255])
def test_no_such_port(opened, port):
    """Queries a port that does not exist; expects EINVAL."""
    assert refused(opened.port, port) == errno.EINVAL


def test_bad_completion_queues(opened):
    """Asks for no entries, and for a completion vector that does not exist; expects EINVAL."""
    assert refused(opened.cq, 0) == errno.EINVAL
    assert refused(opened.cq, 16, False, opened.limits().vectors) == errno.EINVAL
    opened.cq(16, False, opened.limits().vectors - 1)


def test_channel_of_another_context(opened, open_device, guest0):
    """Makes a completion queue with a channel of another context; expects EBADF, and success with a channel of its own
    context."""
    assert refused(opened.cq_that_tells, open_device(guest0)) == errno.EBADF
    opened.cq_that_tells(opened)


@pytest.mark.parametrize("mask", [0, 2, 3, 1 << 31])
def test_bad_moderation(opened, mask):
    """Modifies nothing of a completion queue, and attributes that do not exist; expects EINVAL."""
    cq = opened.cq()
    assert refused(cq.moderate, 1, 1, mask) == errno.EINVAL
    cq.moderate(1, 1)


def test_bad_regions(opened):
    """Registers no bytes, unmapped memory, and read-only memory for writing; expects EINVAL, and EFAULT for the memory.
    """
    pd, memory = opened.pd(), opened.memory(4 * PAGE)
    assert pd.refused_mr(0) == errno.EINVAL
    memory.write(0, "01" * 8)
    memory.unmap(2 * PAGE, PAGE)
    assert refused(pd.mr_of, memory, ["LOCAL_WRITE"]) == errno.EFAULT
    memory.map_again(2 * PAGE, PAGE)
    memory.protect_against_writes()
    assert refused(pd.mr_of, memory, ["LOCAL_WRITE"]) == errno.EFAULT
    pd.mr_of(memory, ["REMOTE_READ"]).close()


def test_bad_parent_domain(opened, open_device, guest0):
    """Makes a parent domain of another context's PD; expects EINVAL."""
    assert refused(opened.parent_domain, open_device(guest0).pd()) == errno.EINVAL
    opened.parent_domain(opened.pd())


@pytest.mark.parametrize("kind", ["RAW_PACKET", "DRIVER"])
def test_queue_pairs_of_other_services(endpoint, guest0, kind):
    """Asks for a transport service that does not exist; expects EOPNOTSUPP."""
    side = endpoint(guest0)
    assert refused(side.pd.qp, kind, side.send_cq, side.recv_cq) == errno.EOPNOTSUPP


def test_too_much_inline(endpoint, guest0):
    """Asks for a megabyte of inline data; expects EINVAL."""
    side = endpoint(guest0)
    assert refused(side.pd.qp, "RC", side.send_cq, side.recv_cq, max_inline_data=1 << 20) == errno.EINVAL


@pytest.mark.parametrize("name, value", [
    ("path_mtu", 0), ("path_mtu", 6), ("dest_qp_num", 1 << 24), ("min_rnr_timer", 32), ("max_dest_rd_atomic", 255),
    ("sgid_index", 255), ("dgid", "ff0e:0000:0000:0000:0000:0000:0000:0001"), ("port_num", 2), ("is_global", 0),
])  # fmt: skip
def test_values_to_rtr(endpoint, guest0, name, value):
    """Connects with a value that is out of range or names an object that does not exist; expects EINVAL in state INIT.
    """
    side = endpoint(guest0).initialize()
    step = rtr_attributes("RC", side.qp.num, side.gid.address, side.gid.index)
    bad = {**step, name: value} if name in step else {**step, "ah_attr": {**step["ah_attr"], name: value}}
    assert refused(side.qp.modify, **bad) == errno.EINVAL
    assert side.state() == "INIT"
    side.qp.modify(**step)


@pytest.mark.parametrize("name, value", [("timeout", 32), ("retry_cnt", 8), ("rnr_retry", 8), ("max_rd_atomic", 255)])
def test_values_to_rts(endpoint, guest0, name, value):
    """Goes to RTS with a value that is out of range; expects EINVAL in state RTR."""
    side = endpoint(guest0).initialize()
    side.qp.modify(**rtr_attributes("RC", side.qp.num, side.gid.address, side.gid.index))
    assert refused(side.qp.modify, **{**rts_attributes("RC"), name: value}) == errno.EINVAL
    assert side.state() == "RTR"
    side.qp.modify(**rts_attributes("RC"))


@pytest.mark.parametrize("name, value", [("is_global", 0), ("sgid_index", 255), ("port_num", 2), ("port_num", 0)])
def test_bad_addresses(endpoint, guest0, name, value):
    """Makes an address handle without a GRH, which RoCE needs, and with a GID and a port that do not exist; expects
    EINVAL."""
    side = endpoint(guest0, "UD")
    route = {"dgid": side.gid.address, "sgid_index": side.gid.index}
    assert refused(side.pd.ah, **{**route, name: value}) == errno.EINVAL
    side.pd.ah(**route).close()


def test_address_of_another_domain(connected):
    """Sends with an address handle of another PD; expects LOC_QP_OP_ERR, and the send queue in error."""
    left, right = connected("UD")
    foreign = left.device.pd().ah(dgid=right.gid.address, sgid_index=left.gid.index)
    left.send(ah=foreign, qpn=right.qp.num, qkey=QKEY)
    assert left.sent() == ["LOC_QP_OP_ERR"]
    assert left.state() == "SQE"


@pytest.mark.parametrize("kind, opcode", [
    ("UC", "RDMA_READ"), ("UC", "ATOMIC_FETCH_AND_ADD"), ("UC", "ATOMIC_CMP_AND_SWP"),
    ("UD", "RDMA_WRITE"), ("UD", "RDMA_WRITE_WITH_IMM"), ("UD", "RDMA_READ"), ("UD", "ATOMIC_FETCH_AND_ADD"),
    ("RC", "TSO"),
])  # fmt: skip
def test_operations_of_other_transports(connected, kind, opcode):
    """Posts requests that a transport does not have (IBA 9.2, table 38), or that do not exist; expects EINVAL."""
    left, right = connected(kind)
    assert refused(left.send, opcode, length=8, target=right.target()) == errno.EINVAL
    assert left.state() == "RTS"


def test_malformed_requests(connected):
    """Posts an atomic into two pieces, a READ and an atomic inline, and a datagram without a destination; expects
    EINVAL for each, and a queue pair that works afterwards."""
    left, right = connected(options={"max_send_sge": 2, "max_inline_data": 64})
    pieces = [left.sge(0, 4), left.sge(4, 4)]
    assert refused(left.qp.post_send, "ATOMIC_FETCH_AND_ADD", 1, pieces, target=right.target()) == errno.EINVAL
    for opcode in ("RDMA_READ", "ATOMIC_FETCH_AND_ADD"):
        inline = {"length": 8, "target": right.target(), "send_flags": ["SIGNALED", "INLINE"]}
        assert refused(left.send, opcode, **inline) == errno.EINVAL
    sender, _ = connected("UD")
    assert refused(sender.send, qpn=1, qkey=QKEY) == errno.EINVAL
    right.receive()
    left.send()
    assert left.sent() == ["SUCCESS"]


def test_chain_up_to_the_bad_one(connected):
    """Posts four requests by one call. The third is bad. Expects EINVAL, and only the first two to be executed."""
    left, right = connected()
    requests = [{"opcode": opcode, "wr_id": number, "sges": [left.sge(0, 8)], "target": right.target()}
                for number, opcode in enumerate(["RDMA_WRITE", "RDMA_WRITE", "TSO", "RDMA_WRITE"])]
    assert refused(left.qp.post_chain, requests) == errno.EINVAL
    assert [completion.wr_id for completion in left.send_cq.wait(3, timeout=0.3)] == [0, 1]


@pytest.mark.parametrize("opcode", ["RDMA_WRITE", "RDMA_READ", "ATOMIC_FETCH_AND_ADD"])
def test_keys_of_another_device(connected, opcode):
    """Names a peer's memory by a key of the own device, and own memory by a key of the peer's device; expects
    REM_ACCESS_ERR and LOC_PROT_ERR."""
    left, right = connected()
    left.send(opcode, length=8, target=left.target())
    assert left.sent() == ["REM_ACCESS_ERR"]
    left, right = connected()
    address, length, _ = left.sge(0, 8)
    left.qp.post_send(opcode, 1, [[address, length, right.mr.lkey]], target=right.target())
    assert left.sent() == ["LOC_PROT_ERR"]


@pytest.mark.parametrize("opcode", ["SEND", "RDMA_WRITE"])
def test_local_key_that_is_gone(connected, opcode):
    """Sends memory after its deregistration; expects LOC_PROT_ERR."""
    left, right = connected()
    region = left.pd.mr(PAGE, ["LOCAL_WRITE"])
    gone = [region.addr, 8, region.lkey]
    region.close()
    left.qp.post_send(opcode, 1, [gone], target=right.target())
    assert left.sent() == ["LOC_PROT_ERR"]


def test_receive_whose_key_is_gone(connected):
    """Deregisters the memory of a receive that is posted; expects LOC_PROT_ERR for it, and REM_OP_ERR for its
    sender."""
    left, right = connected()
    region = right.pd.mr(PAGE, ["LOCAL_WRITE"])
    right.qp.post_recv(1, [[region.addr, 8, region.lkey]])
    region.close()
    left.send(length=8)
    assert right.received() == ["LOC_PROT_ERR"]
    assert left.sent() == ["REM_OP_ERR"]


@pytest.mark.parametrize("state", ["INIT", "ERR"])
def test_peer_in_the_wrong_state(endpoint, guest0, guest1, state):
    """Sends to a queue pair that does not receive yet, or no longer; expects RETRY_EXC_ERR."""
    left, right = endpoint(guest0), endpoint(guest1)
    connect(left, right, timeout=10, retry_cnt=1)
    right.qp.modify(qp_state="ERR")
    if state == "INIT":
        right.qp.modify(qp_state="RESET")
        right.qp.modify(**init_attributes("RC"))
    right.receive()
    left.send()
    assert left.sent() == ["RETRY_EXC_ERR"]


def test_datagram_larger_than_its_receive(connected):
    """Sends a datagram into a receive that is too small, then one that fits; expects the first to be dropped silently,
    and the receive to take the second."""
    left, right = connected("UD")
    right.receive(length=40 + 63)
    ah = left.pd.ah(dgid=right.gid.address, sgid_index=left.gid.index)
    for length in (64, 63):
        left.send(length=length, ah=ah, qpn=right.qp.num, qkey=QKEY)
        assert left.sent() == ["SUCCESS"]
    assert [completion.byte_len for completion in right.recv_cq.wait()] == [40 + 63]
    assert right.state() == "RTS"
