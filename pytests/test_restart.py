# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""vrdmad is restarted, as by an upgrade, or killed while guests use their devices: no connection breaks."""

from collections.abc import Iterator

import pytest

from framework.connections import allow_users, rounds, rping, start_pair
from framework.endpoint import Endpoint
from framework.health import RESTART
from framework.programs import Program, start_server
from framework.verbs import Remote, VerbsError
from test_performance import CONFIGURATION

pytestmark = pytest.mark.lab

RESTARTS = 2  # the second one restores what was restored
# They last longer than the restarts.
MESSAGES = 5000
RINGS = 1250
DEPTH = 16
TIMEOUT_S = 120.0
# From the last line of one vrdmad to the first device that the next one serves again.
GAP = r"""
journalctl -q -o short-unix -u vrdmad | awk '/vrdmad ends/ { end = $1 }
    /: continues$/ && end { printf "%.0f\n", ($1 - end) * 1000; end = 0 }' | tail -1
"""


def queue_receives(side: Endpoint, count: int) -> None:
    for number in range(count):
        side.receive(number)


@pytest.mark.parametrize("how", ["restart_mediator", "kill_mediator"])
def test_connections_continue(connected, health, how):
    """Restarts or kills vrdmad under connected processes: one has sent more messages than the other has receives, and
    both have receives left. Expects no DEVICE_FATAL, all messages, and all verbs to work."""
    left, right = connected(rnr_retry=7)
    queue_receives(right, DEPTH // 2)
    queue_receives(left, DEPTH)
    for number in range(DEPTH):
        left.send(wr_id=number)
    assert left.sent(DEPTH // 2) == ["SUCCESS"] * (DEPTH // 2)
    for _ in range(RESTARTS):
        getattr(health, how)()
    queue_receives(right, DEPTH // 2)
    assert right.received(DEPTH) == ["SUCCESS"] * DEPTH
    assert left.sent(DEPTH // 2) == ["SUCCESS"] * (DEPTH // 2)
    for side, peer in ((left, right), (right, left)):
        assert side.state() == "RTS"
        for opcode in ("RDMA_WRITE", "RDMA_READ", "ATOMIC_FETCH_AND_ADD"):
            side.send(opcode, length=8, target=peer.target())
        assert side.sent(3) == ["SUCCESS"] * 3
        side.pd.mr(4096, ["LOCAL_WRITE"])
    for _ in range(DEPTH):
        right.send()
    assert left.received(DEPTH) == ["SUCCESS"] * DEPTH


def test_verbs_wait(open_device, guest0, host, health):
    """Creates queues all the time while vrdmad restarts; expects each verb to succeed."""
    opened = open_device(guest0)
    for _ in range(RESTARTS):
        restarting = host.start(f"sh -c '{RESTART}'")
        queues: list[Remote] = []
        while restarting.running or len(queues) < DEPTH:
            queues.append(opened.cq(16))
        restarting.wait(TIMEOUT_S)
        for queue in queues:
            queue.close()
        health.watch_mediator()


@pytest.mark.parametrize("command", [f"ib_send_lat -F -n {MESSAGES}", f"ib_write_bw -F -s 65536 -n {MESSAGES}",
                                     f"ib_read_lat -F -n {MESSAGES}", f"ib_atomic_bw -F -n {MESSAGES}"],
                         ids=lambda command: command.split()[0])
def test_programs_continue(guest0, guest1, device, host, health, command, measured):
    """Restarts vrdmad several times under a program of perftest; expects it to succeed."""
    program = Program(f"{command} -u 18", device)
    server, port = start_server(program, guest0)
    client = guest1.start(f"{program.arguments(guest1, port)} {guest0.name}")
    gaps = []
    for _ in range(RESTARTS):
        health.restart_mediator()
        gaps.append(host.script(GAP).stdout.strip())
    client.wait(TIMEOUT_S)
    server.wait(TIMEOUT_S)
    measured.append(f"vrdmad was away for {', '.join(gaps)} ms")


def test_connection_manager(guest0, guest1, health):
    """Restarts vrdmad under rping, which connects by rdma_cm, READs, WRITEs and compares; expects it to succeed."""
    for guest in (guest0, guest1):
        allow_users(guest)
    listen, call = (f"{side} -C {RINGS}" for side in rping(guest0, 4))
    server, client = start_pair(guest0, guest1, listen, call)
    for _ in range(RESTARTS):
        health.restart_mediator()
    assert rounds(server, client) == RINGS


@pytest.fixture
def few_queue_pairs(host, health) -> Iterator[str]:
    """A configuration in which a device of the guests' type may have 4 queue pairs."""
    before = host.read(CONFIGURATION)
    yield f"{before}[types.medium]\nmax_qp = 4\n"
    host.script(f"cat >{CONFIGURATION} <<'END'\n{before}END")
    health.restart_mediator()


def test_state_that_is_refused(host, guest0, guest1, device, endpoint, few_queue_pairs, health, works):
    """Restarts vrdmad with a limit that a device exceeds; expects this device to fail and to come back, and the other
    guest's connections not to notice."""
    side = endpoint(guest0)
    for _ in range(4):
        side.another()
    other = endpoint(guest1)
    other.initialize().connect(other)
    host.script(f"cat >{CONFIGURATION} <<'END'\n{few_queue_pairs}END")
    health.restart_mediator()
    side.device.await_event("DEVICE_FATAL", 20)
    with pytest.raises(VerbsError):
        side.pd.mr(4096, ["LOCAL_WRITE"])
    guest0.run(f"kill -9 {side.device.session.pid}")
    side.device.session.await_end()
    other.send("RDMA_WRITE", target=other.target())
    assert other.sent() == ["SUCCESS"]
    guest0.await_device(device)
    works()
