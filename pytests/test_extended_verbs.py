# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Extended completion queues and queue pairs, resized completion queues, imported objects."""

import errno
import time

import pytest

from framework.endpoint import connect
from framework.verbs import refused

SECOND_NS = 1_000_000_000
ALL_OPS = ["SEND", "SEND_WITH_IMM", "RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "RDMA_READ", "ATOMIC_CMP_AND_SWP",
           "ATOMIC_FETCH_AND_ADD"]  # fmt: skip
TIMES = ["COMPLETION_TIMESTAMP", "COMPLETION_TIMESTAMP_WALLCLOCK"]


@pytest.fixture
def extended(endpoint, guest0, guest1):
    """Two connected sides of the extended verbs."""

    def make(wc_flags=()):
        left, right = (endpoint(guest).extend(ALL_OPS, wc_flags) for guest in (guest0, guest1))
        connect(left, right)
        return left, right

    return make


def test_completion_fields(extended):
    """Sends with immediate data; expects all its fields in both sides' completions."""
    left, right = extended()
    right.receive(wr_id=5)
    left.qp.batch([{"opcode": "send_imm", "args": [77], "wr_id": 9, "sges": [left.sge(0, 100)]}])
    (sent,) = left.send_cq.wait()
    assert (sent.wr_id, sent.status, sent.opcode, sent.qp_num) == (9, "SUCCESS", "SEND", left.qp.num)
    (received,) = right.recv_cq.wait()
    assert (received.wr_id, received.status, received.opcode) == (5, "SUCCESS", "RECV")
    assert (received.byte_len, received.imm, received.qp_num) == (100, 77, right.qp.num)
    assert received.timestamp == 0


def test_timestamps(extended):
    """Sends three messages; expects their times between two readings of the clock, in order, and with the same
    distances by the wall clock."""
    left, right = extended(TIMES)
    limits = left.device.extended_limits()
    assert (limits.hca_core_clock, limits.completion_timestamp_mask) == (1_000_000, (1 << 64) - 1)
    before, start = left.device.clock(), time.monotonic_ns()
    times, walls = [], []
    for _ in range(3):
        right.receive()
        left.qp.batch([{"opcode": "send", "sges": [left.sge(0, 8)]}])
        (sent,) = left.send_cq.wait()
        times.append(sent.timestamp)
        walls.append(sent.wallclock_ns)
    after, end = left.device.clock(), time.monotonic_ns()
    assert [before, *times, after] == sorted([before, *times, after])
    assert end - start - SECOND_NS < after - before < end - start + SECOND_NS
    assert [wall - walls[0] for wall in walls] == [stamp - times[0] for stamp in times]
    assert right.received(3) == ["SUCCESS"] * 3


def test_batch(extended):
    """Writes and reads in one batch; expects each done in order, and their data."""
    left, right = extended()
    left.mr.write(0, "aa" * 64)
    left.mr.write(2048, b"inline".hex())
    left.qp.batch([
        {"opcode": "rdma_write", "args": [right.mr.rkey, right.mr.addr], "wr_id": 1, "sges": [left.sge(0, 64)]},
        {"opcode": "rdma_read", "args": [right.mr.rkey, right.mr.addr], "wr_id": 2, "sges": [left.sge(1024, 64)]},
        {"opcode": "rdma_write", "args": [right.mr.rkey, right.mr.addr + 512], "wr_id": 3,
         "inline": left.sge(2048, 6)[:2]},
    ])  # fmt: skip
    assert [(done.wr_id, done.status) for done in left.send_cq.wait(3)] == [(n, "SUCCESS") for n in (1, 2, 3)]
    assert right.mr.read(0, 64) == "aa" * 64
    assert left.mr.read(1024, 64) == "aa" * 64
    assert right.mr.read(512, 6) == b"inline".hex()


def test_abort_and_errors(extended):
    """Aborts a batch, and completes one with a bad request in it; expects nothing to be executed. Expects the next
    batch to be executed whole."""
    left, right = extended()
    write: dict[str, object] = {"opcode": "rdma_write", "args": [right.mr.rkey, right.mr.addr],
                                "sges": [left.sge(0, 8)]}
    left.mr.write(0, "bb" * 8)
    left.qp.batch([write | {"wr_id": 1}] * 3, abort=True)
    too_many = write | {"sges": [left.sge(0, 8)] * 31}
    assert refused(left.qp.batch, [write | {"wr_id": 2}, too_many]) == errno.EINVAL
    assert refused(left.qp.batch, [write | {"wr_id": 3}] * 17) == errno.ENOMEM
    assert left.send_cq.poll(16) == []
    assert right.mr.read(0, 8) == "00" * 8
    left.qp.batch([write | {"wr_id": 4}])
    assert [done.wr_id for done in left.send_cq.wait()] == [4]
    assert right.mr.read(0, 8) == "bb" * 8


def test_operations_of_other_transports(endpoint, guest0):
    """Asks for operations that a transport does not have; expects EOPNOTSUPP."""
    for kind, send_op in (("UD", "RDMA_WRITE"), ("UC", "RDMA_READ"), ("UC", "ATOMIC_FETCH_AND_ADD"), ("RC", "TSO")):
        assert refused(endpoint(guest0, kind).extend, [send_op]) == errno.EOPNOTSUPP, (kind, send_op)


def test_completion_queues_refused(endpoint, guest0):
    """Asks for undefined fields, and for too many entries; expects EOPNOTSUPP, and EINVAL."""
    device = endpoint(guest0).device
    for field in ("CVLAN", "FLOW_TAG", "TM_INFO"):
        assert refused(device.cq_ex, 16, [field]) == errno.EOPNOTSUPP, field
    assert refused(device.cq_ex, device.limits().max_cqe + 1) == errno.EINVAL


def test_overrun_is_ignored(endpoint, guest0, guest1):
    """Overruns a CQ that ignores overruns; expects the queue pair to continue."""
    left, right = endpoint(guest0), endpoint(guest1)
    left.send_cq = left.device.cq_ex(4, [], ["IGNORE_OVERRUN"])
    left.qp = left.pd.qp("RC", left.send_cq, left.recv_cq)
    connect(left, right)
    for number in range(12):
        right.receive(wr_id=number)
        left.send(opcode="SEND")
    assert right.received(12) == ["SUCCESS"] * 12
    assert left.state() == "RTS"


def test_resize_under_traffic(connected):
    """Resizes a CQ 40 times, up and down, while 8 messages complete each time; expects all of them, in order."""
    left, right = connected()
    depths = [8, 512, 16, 64, 8, 4096, 32, 128] * 5
    for begin in range(0, len(depths), 2):
        for number in range(16):
            right.receive(wr_id=number, length=64)
        order = left.qp.send_while_resizing(left.send_cq, left.sge(0, 64), depths[begin:begin + 2], 8)
        assert order == list(range(16))
        assert right.received(16) == ["SUCCESS"] * 16


def test_resize_refused(connected):
    """Resizes to less than is outstanding, to 0 and beyond the limit; expects EINVAL and nothing lost."""
    left, right = connected()
    for number in range(6):
        right.receive()
        left.send(wr_id=number)
    assert right.received(6) == ["SUCCESS"] * 6
    assert refused(left.send_cq.resize, 2) == errno.EINVAL
    assert refused(left.send_cq.resize, 0) == errno.EINVAL
    assert refused(left.send_cq.resize, left.device.limits().max_cqe + 1) == errno.EINVAL
    assert left.send_cq.resize(8) == 8
    assert [done.wr_id for done in left.send_cq.wait(6)] == list(range(6))


def test_resize_keeps_armed(connected):
    """Arms, resizes, then receives; expects the event."""
    left, right = connected(options={"events": True})
    right.receive()
    right.recv_cq.arm()
    right.recv_cq.resize(256)
    left.send()
    assert right.recv_cq.event()
    assert right.received() == ["SUCCESS"]


def test_import(endpoint, guest0, guest1):
    """Imports context, PD and MR within a process; expects a QP of the imported PD to use the original's memory."""
    left, right = endpoint(guest0), endpoint(guest1)
    twin = left.device.imported()
    pd = twin.import_pd(left.pd.handle)
    keys = pd.import_mr(left.mr.handle)
    assert (keys.lkey, keys.rkey) == (left.mr.lkey, left.mr.rkey)
    original, left.device, left.pd = left.device, twin, pd
    left = left.another()
    connect(left, right)
    left.mr.write(0, "cc" * 16)
    right.receive()
    left.send(length=16)
    assert left.sent() == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]
    assert right.mr.read(0, 16) == "cc" * 16
    for mine in (left.qp, left.send_cq, left.recv_cq):
        mine.close()
    pd.unimport()
    twin.close()
    assert original.limits().max_qp > 0


def test_import_refused(open_device, guest0):
    """Imports invalid handles, and handles of another context; expects ENOENT."""
    device, other = open_device(guest0), open_device(guest0)
    twin = device.imported()
    foreign = other.pd()
    mine = device.pd()
    assert refused(twin.import_pd, 0x7fffffff) == errno.ENOENT
    assert refused(mine.import_mr, 0x7fffffff) == errno.ENOENT
    if foreign.handle != mine.handle:
        assert refused(twin.import_pd, foreign.handle) == errno.ENOENT
    foreign_mr = foreign.mr(4096, ["LOCAL_WRITE"])
    assert refused(mine.import_mr, foreign_mr.handle) == errno.ENOENT
    foreign_mr.close()
    twin.close()
