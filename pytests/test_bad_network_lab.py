# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A network between two hosts that loses, repeats, reorders, delays and corrupts packets (tc-netem(8), at both ends of
the cable), or that is down for a while. Every byte of every message is compared, and each message must arrive once.
"""

import random
from contextlib import contextmanager

import pytest

from framework.endpoint import BUFFER, Endpoint, connect
from framework.lab import TIMEOUT_S, Machine
from framework.text import found
from test_across_hosts_lab import Side, peer, user_access  # noqa: F401 (fixtures)
from test_counters import statistic

pytestmark = pytest.mark.lab_hosts

COUNT, PIECES = 8, 3
LONG = 1 << 20  # bytes: enough packets for a loss of one in a thousand
PLACE = 4096 + 1
LARGEST = 1 << 16
ROOM = {"buffer": LONG, "max_send_sge": PIECES, "max_recv_sge": PIECES}
# 4.096 us * 2^15 is 134 ms. A guest may stand still for so long, while other machines have its processor, without a
# timeout at its peer.
TERMS = {"timeout": 15, "retry_cnt": 7, "min_rnr_timer": 1}
# 67 ms, three times.
IMPATIENT = {"timeout": 14, "retry_cnt": 2}
CLEAR = "if tc qdisc show dev eth1 | grep -q netem; then tc qdisc del dev eth1 root; fi"
BREAK, MEND = "ip link set eth1 down", "ip link set eth1 up"
WEATHER = ("loss 0.1%", "loss 1%", "loss 5%", "duplicate 5%", "delay 2ms", "delay 5ms reorder 75% 50%", "corrupt 2%")


def frames(statistics: str) -> int:
    """The number of frames that the queueing discipline has sent or lost."""
    sent, dropped = found(r"Sent \d+ bytes (\d+) pkt \(dropped (\d+)", statistics).groups()
    return int(sent) + int(dropped)


@pytest.fixture(scope="module")
def hosts(lab) -> list[Machine]:
    return [Machine(lab, f"host{number}") for number in range(2)]


@pytest.fixture
def weather(hosts):
    """Has both ends of the cable disturb the packets that they send."""

    @contextmanager
    def over(how: str):
        for host in hosts:
            host.run(f"tc qdisc replace dev eth1 root netem {how} limit 10000")
        yield
        for host in hosts:
            assert frames(host.run("tc -s qdisc show dev eth1").stdout) > LONG // 1024
            host.script(CLEAR)

    yield over
    for host in hosts:
        host.script(CLEAR)


@pytest.fixture
def open_side(session):
    """Opens a side's device."""
    opened = []

    def open_it(side: Side):
        opened.append(session(side.guest).open(side.device))
        return opened[-1]

    yield open_it
    for device in opened:
        if device.session.usable:
            device.close()


@pytest.fixture
def meet(guest0, peer, open_side):  # noqa: F811
    """Connects guest0's device and the peer's."""

    def make(options: dict, **terms) -> tuple[Endpoint, Endpoint]:
        sides = [Endpoint(open_side(side), side.guest.gid(side.device), **options)
                 for side in (Side(guest0, "vrdma0"), peer)]
        connect(*sides, **terms)
        return sides[0], sides[1]

    return make


def talk(left: Endpoint, right: Endpoint, seed: int) -> None:
    """Executes sends, writes, reads and atomics of the left side; expects each to be carried out once, with the right
    bytes."""
    receiving = right.qp.begin("receive_messages", right.recv_cq, right.mr, seed, COUNT, PIECES)
    left.qp.send_messages(left.send_cq, left.mr, seed, COUNT, PIECES)
    assert receiving() == ""
    receiving = right.qp.begin("receive_writes", right.recv_cq, right.mr, seed + 1, COUNT, PIECES, PLACE)
    left.qp.send_messages(left.send_cq, left.mr, seed + 1, COUNT, PIECES, "RDMA_WRITE_WITH_IMM", right.target(PLACE))
    assert receiving() == ""
    right.mr.fill(seed + 2, 0, LARGEST)
    assert left.qp.read_messages(left.send_cq, left.mr, seed + 2, COUNT, PIECES, right.target()) == ""
    sent = left.mr.fill(seed + 3)
    left.send("RDMA_WRITE", length=LONG, target=right.target())
    assert left.sent(1, TIMEOUT_S) == ["SUCCESS"]
    assert right.mr.checksum() == sent
    right.mr.write(0, "00" * 8)
    assert left.qp.fetch_add(COUNT, left.send_cq, left.sge(0, 8), right.target()) == list(range(COUNT))


@pytest.mark.parametrize("peer, how", [*(("same", how) for how in WEATHER), ("rxe0", "loss 1%")], indirect=["peer"])
def test_weather(meet, weather, record, how):
    """Disturbs the network while each side sends, writes, reads and counts in the other's memory; expects every byte to
    be right, and each message to arrive once."""
    seed = random.SystemRandom().randrange(1 << 32)
    record.note(f"seed {seed}")
    left, right = meet(ROOM, **TERMS)
    with weather(how):
        talk(left, right, seed)
        talk(right, left, seed + 4)


@pytest.mark.parametrize("peer", ["same"], indirect=True)
def test_congestion(meet, weather, guest0, peer):  # noqa: F811
    """Has the network mark packets (ECN) as a congested one does, instead of losing them. Expects each side to send
    congestion notifications, the other to react to them, and every byte to be right."""
    left, right = meet(ROOM, **TERMS)
    sides = Side(guest0, "vrdma0"), peer
    before = [statistic(side.guest, side.device) for side in sides]
    with weather("loss 10% ecn"):
        talk(left, right, 1)
        talk(right, left, 5)
    for side, counted in zip(sides, before, strict=True):
        after = statistic(side.guest, side.device)
        for name in ("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled"):
            assert after[name] > counted[name], name


@pytest.fixture
def cable(hosts):
    """host0's end of the cable, which is up again after the test."""
    yield hosts[0]
    hosts[0].run(MEND)


@pytest.mark.parametrize("peer", ["same"], indirect=True)
def test_outage(meet, cable):
    """Takes the network down for longer than the retries last. Expects the port of the device there to go down and come
    back, requests of both sides to fail by their retries, later requests to be flushed, and new queue pairs to work."""
    left, right = meet({}, **IMPATIENT)
    active = left.device.port(1)
    cable.run(BREAK)
    assert "PORT_ERR" in left.device.await_event("PORT_ERR", TIMEOUT_S)
    assert left.device.port(1) != active
    for side in (left, right):
        for number in range(3):
            side.send(wr_id=number)
        assert side.sent(3) == ["RETRY_EXC_ERR", "WR_FLUSH_ERR", "WR_FLUSH_ERR"]
        assert side.state() == "ERR"
    cable.run(MEND)
    assert "PORT_ACTIVE" in left.device.await_event("PORT_ACTIVE", TIMEOUT_S)
    assert left.device.port(1) == active
    left, right = meet({})
    right.receive()
    left.send()
    assert left.sent() == right.received() == ["SUCCESS"]


@pytest.mark.parametrize("peer", ["same"], indirect=True)
def test_short_outage(meet, cable):
    """Takes the network down for less time than the retries last, during a transfer; expects each message to arrive
    once."""
    left, right = meet({}, timeout=18)
    sent = left.mr.fill(1)
    right.receive()
    cable.run(BREAK)
    left.send(length=BUFFER)
    assert left.send_cq.wait(1, 0.2) == []
    cable.run(MEND)
    assert left.sent() == ["SUCCESS"]
    assert right.received(2, 0.5) == ["SUCCESS"]
    assert right.mr.checksum() == sent
