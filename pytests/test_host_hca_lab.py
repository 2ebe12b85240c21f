# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Processes and guests (VMs) whose messages go by the host's own HCA, which is rxe here. Their peers on another host
are programs on its rxe itself, processes and guests of the same kind, and a guest of the soft HCA."""

import errno
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from framework.endpoint import BUFFER, Endpoint, connect
from framework.host_hca import Offloaded, device_of, host_of, mediator_of, rxe_of
from framework.lab import TIMEOUT_S, Guest
from framework.programs import Program, bandwidths, latencies, start_server
from framework.verbs import Session, refused

pytestmark = pytest.mark.lab_hosts

PLACE = 4096 + 1


@dataclass(frozen=True)
class Side:
    guest: Guest
    device: str


@pytest.fixture(scope="module")
def offloaded(lab) -> Iterator[list[Side]]:
    """A process of each of two hosts."""
    with ExitStack() as kept:
        for host in (host_of(lab, 0), host_of(lab, 1)):
            kept.enter_context(mediator_of(host, kept.enter_context(rxe_of(host))))
        yield [Side(Offloaded(host_of(lab, number)), "vrdma0") for number in range(2)]


@pytest.fixture(scope="module")
def vms(lab, offloaded) -> Iterator[list[Side]]:
    """A guest of each of these hosts."""
    with ExitStack() as kept:
        yield [Side(guest, kept.enter_context(device_of(guest, side.guest.host)))
               for guest, side in zip((lab.guest(0), lab.guest(1)), offloaded, strict=True)]


PROCESSES = ["process to rxe", "rxe to process", "process to process", "process to guest", "guest to process"]
VMS = ["vm to rxe", "rxe to vm", "vm to process", "vm to vm", "guest to vm"]


@pytest.fixture(params=[*PROCESSES, *VMS])
def sides(request, lab, offloaded, guest1) -> list[Side]:
    """The server, or responder, and the client. One of them is the process on the first host, or its VM."""
    kinds = {"process": offloaded, "rxe": [Side(host_of(lab, 1), "rxe0")], "guest": [Side(guest1, "vrdma0")]}
    if "vm" in request.param:
        kinds["vm"] = request.getfixturevalue("vms")
    client, server = request.param.split(" to ")
    first = next(kind for kind in ("vm", "process") if kind in (client, server))
    sides = [kinds[server][0 if server == first else -1], kinds[client][0 if client == first else -1]]
    return [kinds[server][1], sides[1]] if client == server else sides


@pytest.fixture
def endpoints(sides) -> Iterator:
    """Makes two connected queue pairs: the responder's and the requester's."""
    sessions = [Session(side.guest) for side in sides]

    def make(kind: str = "RC", attributes: dict | None = None, **options) -> tuple[Endpoint, Endpoint]:
        right, left = (Endpoint(session.open(side.device), side.guest.gid(side.device), kind, **options)
                       for session, side in zip(sessions, sides, strict=True))
        connect(left, right, **(attributes or {}))
        return left, right

    yield make
    for session in sessions:
        session.kill()


@pytest.mark.parametrize("command, parse", [
    ("ib_write_bw -n 50 -s 65536 -F", bandwidths), ("ib_read_bw -n 50 -s 65536 -o 4 -F", bandwidths),
    ("ib_send_lat -n 20 -s 64 -F", latencies), ("ib_atomic_lat -n 20 -o 4 -F", latencies),
], ids=["write", "read", "send", "atomic"])  # fmt: skip
@pytest.mark.parametrize("sides", [*PROCESSES, "vm to vm"], indirect=True)
def test_perftest(sides, command, parse):
    """Runs perftest; expects all iterations."""
    server, client = sides
    waiting, port = start_server(Program(command, server.device), server.guest)
    calling = Program(command, client.device).arguments(client.guest, port)
    (line,) = parse(client.guest.run(f"{calling} {server.guest.name}"))
    waiting.wait(TIMEOUT_S)
    assert line.iterations in (20, 50)


@pytest.mark.parametrize("opcode", ["RDMA_WRITE", "RDMA_READ", "SEND"])
def test_data(endpoints, opcode):
    """Moves most of a buffer, which begins and ends inside of pages; expects the same checksum on the other side."""
    left, right = endpoints()
    length = BUFFER - 2 * PLACE
    source, sink = (right, left) if opcode == "RDMA_READ" else (left, right)
    checksum = source.mr.fill(1, PLACE, length)
    right.receive(offset=PLACE)
    left.send(opcode, offset=PLACE, length=length, target=right.target(PLACE))
    assert left.sent() == ["SUCCESS"]
    if opcode == "SEND":
        assert right.received() == ["SUCCESS"]
    assert sink.mr.checksum(PLACE, length) == checksum


def test_wrong_key(endpoints):
    """Writes by a key that the peer does not have, with another message behind it; expects the peer's refusal, and a
    flush."""
    left, right = endpoints()
    address, key = right.target()
    for target in ([address, key ^ 0xff00], [address, key]):
        left.send("RDMA_WRITE", target=target)
    assert left.sent(2) == ["REM_ACCESS_ERR", "WR_FLUSH_ERR"]
    assert left.state() == "ERR"


def test_peer_is_gone(endpoints):
    """Sends to a queue pair that is in RESET; expects the retries to end."""
    left, right = endpoints(attributes={"timeout": 14, "retry_cnt": 1})
    right.qp.modify(qp_state="RESET")
    left.send()
    assert left.sent() == ["RETRY_EXC_ERR"]


def test_receiver_is_not_ready(endpoints):
    """Sends without a receive, with one retry; expects the error. With retries without end, expects the message to
    arrive when there is a receive."""
    left, _ = endpoints(attributes={"rnr_retry": 1, "min_rnr_timer": 1})
    left.send()
    assert left.sent() == ["RNR_RETRY_EXC_ERR"]
    left, right = endpoints()
    left.send()
    right.receive()
    assert left.sent() == right.received() == ["SUCCESS"]


def test_flush(endpoints):
    """Moves a queue pair with three receives to ERR; expects each to be flushed."""
    _, right = endpoints()
    for number in range(3):
        right.receive(number)
    right.qp.modify(qp_state="ERR")
    assert right.received(3) == ["WR_FLUSH_ERR"] * 3


def test_datagrams(offloaded, lab):
    """Runs ibv_ud_pingpong with rxe; expects all iterations."""
    server, client = offloaded[0], Side(host_of(lab, 1), "rxe0")
    command = "ibv_ud_pingpong -n 20 -s 1000"
    waiting, port = start_server(Program(command, server.device), server.guest)
    calling = Program(command, client.device).arguments(client.guest, port)
    assert "20 iters in" in client.guest.run(f"{calling} {server.guest.name}").stdout
    assert "20 iters in" in waiting.wait(TIMEOUT_S).stdout


def test_what_is_not_mediated_is_refused(offloaded):
    """Asks for what the host's HCA does for its own programs only; expects EOPNOTSUPP, or EINVAL where the device's
    limit is 0."""
    session = Session(offloaded[0].guest)
    pd = session.open("vrdma0").pd()
    assert refused(pd.srq) == errno.EINVAL
    assert refused(pd.mw, 1) == errno.EOPNOTSUPP
    session.kill()
