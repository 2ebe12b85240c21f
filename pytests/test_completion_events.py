# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Completion channels: when an armed completion queue causes an event, and when it must not (IBA 11.4.2.2)."""

import pytest

QUIET_S = 0.3


@pytest.fixture
def listening(connected):
    """Two connected sides with 8 receives on the right, whose receive queue has a completion channel."""
    left, right = connected(options={"events": True})
    for number in range(8):
        right.receive(wr_id=number)
    return left, right


def send(left, *send_flags: str) -> None:
    left.send(send_flags=["SIGNALED", *send_flags])
    assert left.sent() == ["SUCCESS"]


def test_armed_once(listening):
    """Arms, then receives two messages; expects one event, and the next only after arming again."""
    left, right = listening
    right.recv_cq.arm()
    assert not right.recv_cq.event(QUIET_S)
    send(left)
    send(left)
    assert right.recv_cq.event()
    assert not right.recv_cq.event(QUIET_S)
    right.recv_cq.arm()
    send(left)
    assert right.recv_cq.event()


def test_not_armed(listening):
    """Receives without arming; expects the completion but no event."""
    left, right = listening
    send(left)
    assert right.received() == ["SUCCESS"]
    assert not right.recv_cq.event(QUIET_S)


def test_solicited_only(listening):
    """Arms for solicited completions; expects a plain message to cause no event, a solicited one to cause it."""
    left, right = listening
    right.recv_cq.arm(solicited_only=True)
    send(left)
    assert right.received() == ["SUCCESS"]
    assert not right.recv_cq.event(QUIET_S)
    send(left, "SOLICITED")
    assert right.recv_cq.event()


def test_error_counts_as_solicited(listening):
    """Arms for solicited completions and takes the queue pair to ERR; expects the flushed receives to cause an
    event."""
    _, right = listening
    right.recv_cq.arm(solicited_only=True)
    right.qp.modify(qp_state="ERR")
    assert right.recv_cq.event()


def test_any_is_stronger_than_solicited(listening):
    """Arms for any completion and then for solicited ones; expects a plain message to cause an event nevertheless."""
    left, right = listening
    right.recv_cq.arm()
    right.recv_cq.arm(solicited_only=True)
    send(left)
    assert right.recv_cq.event()


def test_moderated_by_count(listening):
    """Sets moderation to one event per three completions; expects an event for the third message. Ends moderation;
    expects an event for each message again."""
    left, right = listening
    right.recv_cq.moderate(count=3, period=0)
    right.recv_cq.arm()
    send(left)
    send(left)
    assert not right.recv_cq.event(QUIET_S)
    send(left)
    assert right.recv_cq.event()
    right.recv_cq.moderate(count=0, period=0)
    right.recv_cq.arm()
    send(left)
    assert right.recv_cq.event()


def test_largest_moderation(listening):
    """Sets moderation to the largest number of completions, alone and with the longest time; expects no event until the
    moderation changes, and then one when the time is over."""
    left, right = listening
    limits = right.device.extended_limits()
    right.recv_cq.moderate(count=limits.max_cq_count, period=0)
    right.recv_cq.arm()
    send(left)
    assert not right.recv_cq.event(QUIET_S)
    right.recv_cq.moderate(count=limits.max_cq_count, period=limits.max_cq_period)
    assert right.recv_cq.event()
    right.recv_cq.arm()
    send(left)
    assert right.recv_cq.event()


def test_no_wake_up_is_lost(listening):
    """Receives 400 messages sent at random moments by arming, polling once more, then sleeping; expects all of them.

    A wake-up can only be lost for a message that arrives between arming and sleeping.
    """
    left, right = listening
    receiving = right.qp.begin("receive_by_events", 400, right.recv_cq, right.sge(0, 64))
    sending = left.qp.begin("send_at_random", 400, left.send_cq, left.sge(0, 64), seed=4)
    sending()
    received, slept = receiving()
    assert received == 400
    assert slept > 0


def flush_again(side) -> None:
    """Causes an event that nobody takes."""
    side.recv_cq.arm()
    side.qp.modify(qp_state="RESET")
    side.initialize().receive()
    side.qp.modify(qp_state="ERR")


def test_many_channels(listening):
    """Makes 20 queue pairs whose receive queue has a channel, more channels than the driver has event queues. Flushes a
    receive of each; expects one event in its channel, and none in the others. Destroys each with an event that nobody
    has taken, and does all of this again, so that new channels get the event queues of old ones."""
    _, right = listening
    for _ in range(2):
        sides = [right.another(events=True).initialize() for _ in range(20)]
        for side in sides:
            side.receive()
            side.recv_cq.arm()
        while sides:
            flushed = sides.pop()
            flushed.qp.modify(qp_state="ERR")
            assert flushed.recv_cq.event()
            assert not any(side.recv_cq.event(0) for side in [*sides, flushed])
            flush_again(flushed)
            for item in (flushed.qp, flushed.recv_cq, flushed.send_cq):
                item.close()
