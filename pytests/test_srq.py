# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Shared receive queues (IBA 10.2.9): several queue pairs take their receives from one."""

import errno

import pytest

from framework.endpoint import connect
from framework.programs import bandwidths
from framework.verbs import refused

TIMEOUT_S = 10
DEPTH = 16
SLOT = 256
LONG = 8 << 20


@pytest.fixture
def sharing(endpoint, guest0, guest1):
    """Makes queue pairs of guest1 on one shared receive queue, each connected to one of guest0."""

    def make(count: int = 2, kind: str = "RC", buffer: int = 1 << 16, **attributes):
        left, owner = endpoint(guest0, kind, buffer=buffer), endpoint(guest1, kind, buffer=buffer)
        srq = owner.pd.srq(DEPTH)
        pairs = [(left.another(), owner.another(srq=srq)) for _ in range(count)]
        for pair in pairs:
            connect(*pair, **attributes)
        return srq, pairs

    return make


def post(srq, side, number: int) -> None:
    """Posts receive number `number`, which has its own slot of the buffer."""
    srq.post_recv(number, [side.sge(number % DEPTH * SLOT, SLOT)])


def exchange(pair, value: str) -> int:
    """Sends two bytes; returns the wr_id of the receive that took them."""
    left, right = pair
    left.mr.write(0, value)
    left.send(length=2)
    (received,) = right.recv_cq.wait(1)
    assert (received.status, received.byte_len, received.qp_num) == ("SUCCESS", 2, right.qp.num)
    assert right.mr.read(received.wr_id % DEPTH * SLOT, 2) == value
    assert left.sent() == ["SUCCESS"]
    return received.wr_id


def assert_all_usable(srq, pair) -> None:
    """Expects the queue to take as many messages as it has receives, so that none was lost."""
    left, right = pair
    srq.fill(7, [right.sge(0, SLOT)], DEPTH)
    assert refused(srq.post_recv, 7, [right.sge(0, SLOT)]) == errno.ENOMEM
    for _ in range(DEPTH):
        left.send(length=8)
        assert left.sent() == ["SUCCESS"]
    assert right.received(DEPTH) == ["SUCCESS"] * DEPTH


@pytest.mark.parametrize("kind", ["RC", "UC"])
def test_several_queue_pairs(sharing, kind):
    """Sends in turn on 4 queue pairs, three times around the queue; expects each message in the next receive."""
    srq, pairs = sharing(4, kind)
    for number in range(3 * DEPTH):
        post(srq, pairs[0][1], number)
        assert exchange(pairs[number % 4], f"{number:04x}") == number


def test_datagrams(sharing):
    """Sends datagrams to two queue pairs of one queue; expects header and payload in its receives, in order."""
    srq, pairs = sharing(2, "UD")
    (left, _), right = pairs[0], pairs[0][1]
    ah = left.pd.ah(dgid=right.gid.address, sgid_index=left.gid.index)
    for number in range(6):
        post(srq, right, number)
        left.mr.write(0, f"{number:04x}")
        _, receiver = pairs[number % 2]
        left.send(length=2, ah=ah, qpn=receiver.qp.num, qkey=0x11111111)
        (received,) = receiver.recv_cq.wait(1)
        assert (received.wr_id, received.byte_len, received.grh) == (number, 42, True)
        assert right.mr.read(number * SLOT + 40, 2) == f"{number:04x}"


def test_write_with_immediate(sharing):
    """Writes with immediate data; expects the completion of a receive of the shared queue."""
    srq, ((left, right), *_) = sharing()
    post(srq, right, 5)
    left.send("RDMA_WRITE_WITH_IMM", imm=17, target=right.target())
    (received,) = right.recv_cq.wait(1)
    assert (received.wr_id, received.opcode, received.imm) == (5, "RECV_RDMA_WITH_IMM", 17)


def test_polled_out_of_order(sharing):
    """Polls the later of two queue pairs' messages first, and posts its receive again; expects every receive to be used
    once."""
    srq, ((first, first_to), (second, second_to)) = sharing()
    for number in range(DEPTH):
        post(srq, first_to, number)
    for _ in range(6):
        for sender in (first, first, first, second, second, second):
            sender.send(length=8)
            assert sender.sent() == ["SUCCESS"]
        taken = [completion.wr_id for side in (second_to, first_to) for completion in side.recv_cq.wait(3)]
        assert len(set(taken)) == 6
        for number in taken:
            post(srq, first_to, number)
    assert refused(srq.post_recv, 0, [first_to.sge()]) == errno.ENOMEM


def test_full(sharing):
    """Posts as many receives as fit, and one more; expects ENOMEM, and success after one was taken."""
    srq, ((left, right), *_) = sharing()
    assert srq.fill(1, [right.sge(SLOT, SLOT)], DEPTH + 1) == DEPTH
    assert exchange((left, right), "abcd") == 1
    post(srq, right, 2)
    assert refused(srq.post_recv, 3, [right.sge(0, SLOT)]) == errno.ENOMEM


def test_empty(sharing):
    """Sends without a receive posted and without retries; expects RNR_RETRY_EXC_ERR, and the queue to work afterwards.
    """
    srq, (starved, served) = sharing(rnr_retry=0)
    starved[0].send()
    assert starved[0].sent() == ["RNR_RETRY_EXC_ERR"]
    assert starved[1].state() == "RTS"
    post(srq, served[1], 3)
    assert exchange(served, "1234") == 3


def test_posted_during_retry(sharing):
    """Sends with unlimited retries and posts the receive later; expects the message to arrive then."""
    srq, ((left, right), *_) = sharing(min_rnr_timer=1)
    left.send()
    assert left.sent(1, timeout=0.2) == []
    post(srq, right, 1)
    assert left.sent() == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]


def test_limit(sharing):
    """Arms a limit of 3 with 4 receives posted and sends; expects the event when 2 are left, once, and it disarmed."""
    srq, pairs = sharing()
    device = pairs[0][1].device
    for number in range(4):
        post(srq, pairs[0][1], number)
    srq.modify(srq_limit=3)
    assert srq.query().srq_limit == 3
    exchange(pairs[0], "0001")
    assert "SRQ_LIMIT_REACHED" not in device.await_event("SRQ_LIMIT_REACHED", 0.2)
    exchange(pairs[1], "0002")
    assert "SRQ_LIMIT_REACHED" in device.await_event("SRQ_LIMIT_REACHED", TIMEOUT_S)
    assert srq.query().srq_limit == 0
    exchange(pairs[0], "0003")
    assert "SRQ_LIMIT_REACHED" not in device.await_event("SRQ_LIMIT_REACHED", 0.2)


def test_limit_armed_too_late(sharing):
    """Arms a limit of 2 with 1 receive posted; expects the event at once."""
    srq, ((_, right), *_) = sharing()
    post(srq, right, 1)
    srq.modify(srq_limit=2)
    assert "SRQ_LIMIT_REACHED" in right.device.await_event("SRQ_LIMIT_REACHED", TIMEOUT_S)


def test_resize(sharing):
    """Resizes up and down with receives posted, one of which is taken and not polled; expects each message in the next
    receive, and the queue to hold as many receives as it reports."""
    srq, pairs = sharing(2)
    (left, right), numbers = pairs[0], iter(range(1000))
    for depth in (64, 4, 32, 8, 64, 4, DEPTH):
        posted = [next(numbers) for _ in range(4)]
        for number in posted:
            post(srq, right, number)
        left.send(length=8)
        assert left.sent() == ["SUCCESS"]
        srq.modify(max_wr=depth)
        assert srq.query().max_wr == depth
        assert [completion.wr_id for completion in right.recv_cq.wait(1)] == posted[:1]
        assert [exchange(pairs[number % 2], f"{number:04x}") for number in posted[1:]] == posted[1:]
        assert srq.fill(7, [right.sge(0, SLOT)], depth + 1) == depth
        for _ in range(depth):
            left.send(length=8)
            assert left.sent() == ["SUCCESS"]
        assert right.received(depth) == ["SUCCESS"] * depth


def test_resize_within_a_message(sharing):
    """Resizes while a long message arrives; expects it to complete in the receive in which it began."""
    srq, ((left, right), _) = sharing(buffer=LONG)
    for depth in (4, 64) * 4:
        srq.post_recv(depth, [right.sge()])
        left.send(length=LONG)
        srq.modify(max_wr=depth)
        (received,) = right.recv_cq.wait(1)
        assert (received.status, received.wr_id, received.byte_len) == ("SUCCESS", depth, LONG)
        assert left.sent() == ["SUCCESS"]


def test_resize_refused(sharing):
    """Resizes to less than is posted, also if a receive is taken and not polled; expects EINVAL and no change. Expects
    success when the receives fit."""
    srq, ((left, right), served) = sharing()
    for number in range(5):
        post(srq, right, number)
    left.send(length=8)
    assert left.sent() == ["SUCCESS"]
    assert refused(srq.modify, max_wr=4) == errno.EINVAL
    assert srq.query().max_wr == DEPTH
    assert right.received() == ["SUCCESS"]
    srq.modify(max_wr=4)
    assert [exchange(served, f"{number:04x}") for number in range(1, 5)] == [1, 2, 3, 4]


def test_resize_keeps_the_limit(sharing):
    """Arms a limit, and resizes; expects the limit to stay, to bound the queue's size, and to cause its event."""
    srq, pairs = sharing()
    device = pairs[0][1].device
    for number in range(7):
        post(srq, pairs[0][1], number)
    srq.modify(srq_limit=6)
    srq.modify(max_wr=64)
    assert srq.query().srq_limit == 6
    assert refused(srq.modify, max_wr=4) == errno.EINVAL
    exchange(pairs[0], "0001")
    assert "SRQ_LIMIT_REACHED" not in device.await_event("SRQ_LIMIT_REACHED", 0.2)
    exchange(pairs[1], "0002")
    assert "SRQ_LIMIT_REACHED" in device.await_event("SRQ_LIMIT_REACHED", TIMEOUT_S)


def test_resize_and_arm(sharing):
    """Resizes and arms a limit at once; expects both."""
    srq, ((left, right), _) = sharing()
    post(srq, right, 1)
    post(srq, right, 2)
    srq.modify(max_wr=4, srq_limit=2)
    attributes = srq.query()
    assert (attributes.max_wr, attributes.srq_limit) == (4, 2)
    exchange((left, right), "0001")
    assert "SRQ_LIMIT_REACHED" in right.device.await_event("SRQ_LIMIT_REACHED", TIMEOUT_S)


def test_last_receive_reached(sharing):
    """Takes one of two queue pairs to ERR; expects the event, no flush, and the receives to serve the other one."""
    srq, ((_, failed), served) = sharing()
    for number in range(DEPTH):
        post(srq, failed, number)
    failed.qp.modify(qp_state="ERR")
    assert "QP_LAST_WQE_REACHED" in failed.device.await_event("QP_LAST_WQE_REACHED", TIMEOUT_S)
    assert failed.recv_cq.poll(DEPTH) == []
    assert [exchange(served, f"{number:04x}") for number in range(DEPTH)] == list(range(DEPTH))


def test_failure_in_a_message(sharing):
    """Sends more than the receive holds; expects LOC_LEN_ERR for that receive, the event, and an unused next
    receive."""
    srq, ((left, right), served) = sharing()
    post(srq, right, 1)
    post(srq, right, 2)
    left.send(length=SLOT + 1)
    assert left.sent() == ["REM_INV_REQ_ERR"]
    (failed,) = right.recv_cq.wait(1)
    assert (failed.wr_id, failed.status) == (1, "LOC_LEN_ERR")
    assert "QP_LAST_WQE_REACHED" in right.device.await_event("QP_LAST_WQE_REACHED", TIMEOUT_S)
    assert exchange(served, "beef") == 2


@pytest.mark.parametrize("how", ["destroy", "reset"])
def test_unpolled_receives_come_back(sharing, how):
    """Destroys or resets a queue pair with unpolled completions; expects their receives to be free again."""
    srq, ((left, right), served) = sharing()
    srq.fill(1, [right.sge(0, SLOT)], DEPTH)
    for _ in range(5):
        left.send(length=8)
        assert left.sent() == ["SUCCESS"]
    if how == "destroy":
        right.qp.close()
    else:
        right.qp.modify(qp_state="RESET")
    assert srq.fill(1, [right.sge(0, SLOT)], DEPTH) == 5
    assert_all_usable(srq, served)


@pytest.mark.parametrize("how", ["destroy", "reset", "error"])
def test_receive_of_an_unfinished_message_comes_back(sharing, how):
    """Ends a queue pair while a long message arrives; expects no receive to be lost, however much had arrived."""
    srq, ((left, right), served) = sharing(buffer=LONG)
    srq.post_recv(1, [right.sge()])
    left.send(length=LONG)
    if how == "destroy":
        right.qp.close()
    else:
        right.qp.modify(qp_state="RESET" if how == "reset" else "ERR")
    if how == "error":
        assert "QP_LAST_WQE_REACHED" in right.device.await_event("QP_LAST_WQE_REACHED", TIMEOUT_S)
        right.recv_cq.wait(1, timeout=0.5)
    assert_all_usable(srq, served)


def test_bad_arguments(endpoint, guest0):
    """Makes and modifies shared receive queues with invalid arguments; expects the errno of the man pages."""
    side = endpoint(guest0)
    limits = side.device.limits()
    assert limits.max_srq > 0
    assert refused(side.pd.srq, 0) == errno.EINVAL
    assert refused(side.pd.srq, limits.max_srq_wr + 1) == errno.EINVAL
    assert refused(side.pd.srq, 16, limits.max_srq_sge + 1) == errno.EINVAL
    largest = side.pd.srq(limits.max_srq_wr, limits.max_srq_sge)
    assert (largest.max_wr, largest.max_sge) == (limits.max_srq_wr, limits.max_srq_sge)
    largest.close()

    srq = side.pd.srq(DEPTH, 2)
    assert refused(srq.modify, srq_limit=DEPTH + 1) == errno.EINVAL
    assert refused(srq.modify, max_wr=0) == errno.EINVAL
    assert refused(srq.modify, max_wr=limits.max_srq_wr + 1) == errno.EINVAL
    assert refused(srq.modify, max_wr=2 * DEPTH, srq_limit=2 * DEPTH + 1) == errno.EINVAL
    assert srq.query().max_wr == DEPTH
    assert refused(srq.post_recv, 1, [side.sge()] * 3) == errno.EINVAL
    user = side.another(srq=srq)
    user.initialize()
    assert refused(user.qp.post_recv, 1, [side.sge()]) == errno.EINVAL
    assert user.qp.cap["max_recv_wr"] == 0


def test_pingpong(pair):
    """Runs ibv_srq_pingpong on 16 queue pairs, which compares each message with what was sent; expects it to end."""
    for result in pair("ibv_srq_pingpong -c -n 200"):
        assert "200 iters in" in result.stdout


def test_perftest(pair):
    """Runs perftest's send test on 4 queue pairs that share a receive queue; expects all messages to be counted.

    Perftest counts completions by the hundred, and stops polling when the count is reached. With a number that is not a
    multiple it can stop before a queue pair is done, and wait for ever."""
    _, client = pair("ib_send_bw -F --use-srq -q 4 -s 1024 -n 200 -r 64")
    (line,) = bandwidths(client)
    assert (line.size, line.iterations) == (1024, 800)
