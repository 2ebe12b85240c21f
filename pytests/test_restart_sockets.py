# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""vrdmad is restarted while processes use devices behind its sockets: no connection breaks, verbs wait, and a process
that does not take part loses its device alone."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from framework.connections import rounds, rping, start_pair
from framework.control import VRDMACTL
from framework.endpoint import Endpoint, connect
from framework.lab import TIMEOUT_S
from framework.native import Native
from framework.process import Process
from framework.programs import Program, start_server
from framework.verbs import VerbsError

pytestmark = [pytest.mark.native, pytest.mark.together]

RESTARTS = 3
RINGS = 15000
RPING_OPENS = 3  # its device before it begins
PAIRS = 500
FEW = 4
BUSY = 100  # messages
FUNCTION_SHIFT = 21  # eight functions share the numbers of a device
LIMITED = f"[types.medium]\nmax_qp = {FEW}\n"


def await_count(mediator: Process, text: str, count: int) -> list[str]:
    """The first lines of its log with this text."""
    begin, found = 0, []
    for _ in range(count):
        line = mediator.await_line(text, TIMEOUT_S, begin=begin)
        begin = mediator.lines("stderr").index(line, begin) + 1
        found.append(line)
    return found


def seconds_of(line: str) -> float:
    return datetime.fromisoformat(" ".join(line.split()[:2])).timestamp()


def messages(lab: Native, name: str, device: str) -> int:
    shown = subprocess.run([VRDMACTL, "--socket", lab.control_of(name), "device", "stats", device, "--json"],
                           capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    counters = json.loads(shown.stdout).get("counters", {}) if shown.returncode == 0 else {}
    return counters.get("tx_messages", 0) + counters.get("rx_messages", 0)


def await_traffic(lab: Native, name: str = "127.0.0.1", device: str = "127-0-0-1/0") -> None:
    """Waits until a device has messages. Its program creates nothing any more then."""
    deadline = time.monotonic() + TIMEOUT_S
    while messages(lab, name, device) < BUSY:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def enabled(lab: Native) -> int:
    """How often vrdmad has enabled a device."""
    return sum(": enabled" in line for line in lab.mediators[0].lines("stderr"))


def still(before: Process, after: Process, devices: int) -> float:
    """The time, in ms, from the end of service by one vrdmad until so many devices continue with the next one. Returns
    then."""
    continuing = await_count(after, ": continues", devices)
    return (seconds_of(continuing[-1]) - seconds_of(before.await_line("stands still", TIMEOUT_S))) * 1000


@pytest.fixture
def restart(lab: Native) -> Callable[[int], float]:
    """Restarts vrdmad, and returns when so many devices continue. Returns for how long they stood still, in ms."""

    def action(devices: int) -> float:
        return still(lab.stop_mediator(), lab.start_mediator_again(), devices)

    return action


@pytest.fixture
def away(lab: Native) -> Callable:
    """vrdmad is away for the duration of a `with`."""

    class Away:
        def __enter__(self) -> None:
            lab.stop_mediator()

        def __exit__(self, *_) -> None:
            lab.start_mediator_again()

    return Away


@pytest.fixture
def limited(lab: Native) -> Iterator[Callable[[], None]]:
    """Gives the next vrdmad a configuration in which a device may have few queue pairs."""
    usual = lab.configurations[0].read_text()

    def limit() -> None:
        lab.configurations[0].write_text(usual + LIMITED)

    yield limit
    lab.configurations[0].write_text(usual)
    lab.stop_mediator()
    lab.start_mediator_again()


def stop(pid: int) -> None:
    """Stops a process, and returns when all of its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + TIMEOUT_S
    while not all(") T " in stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")):
        assert time.monotonic() < deadline


def write_both_ways(left: Endpoint, right: Endpoint) -> None:
    for side, peer in ((left, right), (right, left)):
        for opcode in ("RDMA_WRITE", "RDMA_READ", "ATOMIC_FETCH_AND_ADD"):
            side.send(opcode, length=8, target=peer.target())
        assert side.sent(3) == ["SUCCESS"] * 3


def assert_that_messages_wait(connected: Callable[..., tuple[Endpoint, Endpoint]], interrupt: Callable[[int], object],
                              times: int) -> None:
    """Interrupts vrdmad under connected processes with sends that wait for receives."""
    left, right = connected(rnr_retry=7)
    for number in range(8):
        left.send(wr_id=number)
    for _ in range(times):
        interrupt(2)
    for number in range(8):
        right.receive(number)
    assert right.received(8) == ["SUCCESS"] * 8
    assert left.sent(8) == ["SUCCESS"] * 8
    assert left.state() == right.state() == "RTS"
    write_both_ways(left, right)


# ib_write_lat is not among them: it polls memory, where ThreadSanitizer delivers no signal that ends it.
@pytest.mark.parametrize("command", ["ib_send_lat -F -D 6", "ib_read_lat -F -D 6", "ib_send_bw -F -D 6",
                                     "ib_write_bw -F -s 65536 -q 8 -D 6", "ib_atomic_bw -F -D 6"],
                         ids=lambda command: command.split()[0])
def test_programs_continue(guest0, guest1, device, lab, restart, command):
    """Restarts vrdmad several times under a program of perftest; expects both sides to end with success."""
    program = Program(command, device)
    opened = enabled(lab)
    server, port = start_server(program, guest0)
    client = guest1.start(f"{program.arguments(guest1, port)} {guest0.name}")
    await_count(lab.mediators[0], ": enabled", opened + 2)
    for _ in range(RESTARTS):
        restart(2)
    client.wait(TIMEOUT_S)
    server.wait(TIMEOUT_S)


def test_connection_manager(guest0, guest1, lab, restart):
    """Restarts vrdmad under rping, which connects by rdma_cm, READs, WRITEs and compares; expects it to succeed."""
    opened = enabled(lab)
    listening, connecting = rping(guest0, 4)
    server, client = start_pair(guest0, guest1, f"{listening} -C {RINGS}", f"{connecting} -C {RINGS}")
    await_count(lab.mediators[0], ": enabled", opened + 2 * RPING_OPENS)
    for _ in range(RESTARTS):
        restart(2)
    assert rounds(server, client) == RINGS


def test_connections_continue(connected, restart):
    """Restarts vrdmad under connected processes with sends that wait for receives; expects all messages, and each
    operation to work."""
    assert_that_messages_wait(connected, restart, RESTARTS)


def test_unreliable_connections_continue(connected, restart):
    """Restarts vrdmad under a UC queue pair that has posted a receive; expects the next message to arrive."""
    left, right = connected("UC")
    right.receive(1)
    restart(2)
    left.send()
    assert left.sent() == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]


def test_processes_of_one_device(endpoint, guest0, guest1, restart):
    """Restarts vrdmad with three processes on one device and one on the other; expects each to come back as the
    function that it was, and all connections to work."""
    sides = [endpoint(guest0, process=number) for number in range(3)]
    other = endpoint(guest1)
    connect(sides[0], sides[1])
    connect(sides[2], other)
    numbers = [side.qp.num for side in sides]
    for _ in range(RESTARTS):
        restart(4)
    write_both_ways(sides[0], sides[1])
    write_both_ways(sides[2], other)
    assert [side.qp.num for side in sides] == numbers
    for side in sides:  # numbers of each function are its own
        assert side.another().qp.num >> FUNCTION_SHIFT == side.qp.num >> FUNCTION_SHIFT


def test_verbs_wait(open_device, guest0, away):
    """Creates queues while there is no vrdmad; expects each verb to succeed as soon as one is there."""
    opened = open_device(guest0)
    for _ in range(RESTARTS):
        with away():
            creating = opened.begin("cq", 16)
        assert creating().depth >= 16


def test_posted_while_it_is_away(connected, away):
    """Posts work requests while there is no vrdmad; expects them to be carried out later."""
    left, right = connected()
    with away():
        right.receive()
        left.send()
        left.send("RDMA_WRITE", target=right.target())
        assert left.sent(1, timeout=0.1) == []
    assert left.sent(2) == ["SUCCESS"] * 2
    assert right.received() == ["SUCCESS"]


def test_registered_memory_stays(endpoint, guest0, guest1, away, restart):
    """Registers memory while there is no vrdmad, and deregisters it after a restart; expects peers to read it."""
    left, right = endpoint(guest0), endpoint(guest1)
    connect(left, right)
    with away():
        registering = left.pd.begin("mr", 1 << 20, ["LOCAL_WRITE", "REMOTE_READ"])
    more = registering()
    checksum = more.fill(3, 0, 1 << 16)
    restart(2)
    right.send("RDMA_READ", length=1 << 16, target=[more.addr, more.rkey])
    assert right.sent() == ["SUCCESS"]
    assert right.mr.checksum(0, 1 << 16) == checksum
    more.close()


def test_fork(endpoint, guest0, guest1, away, restart):
    """Forks before a restart, and while there is no vrdmad; expects the parent's device to continue, and the children
    not to be in the way of a further restart."""
    parent, peer = endpoint(guest0), endpoint(guest1)
    connect(parent, peer)
    children = [parent.device.fork()]
    with away():
        forking = parent.device.begin("fork")
    children.append(forking())
    try:
        write_both_ways(parent, peer)
        restart(2)
        write_both_ways(parent, peer)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)


def test_one_that_does_not_take_part(endpoint, guest0, guest1, lab):
    """Restarts vrdmad while a process is stopped; expects vrdmad to end nevertheless, this process to lose its device
    when it goes on, and a connection of others not to notice."""
    stopped, one, two = endpoint(guest0), endpoint(guest0, process=1), endpoint(guest1)
    connect(one, two)
    pid = stopped.device.session.pid
    stop(pid)
    try:
        begin = time.monotonic()
        lab.stop_mediator()
        assert time.monotonic() - begin < 10
        await_count(lab.start_mediator_again(), ": continues", 2)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "DEVICE_FATAL" in stopped.device.await_event("DEVICE_FATAL", 20)
    with pytest.raises(VerbsError):
        stopped.pd.mr(4096, ["LOCAL_WRITE"])
    write_both_ways(one, two)
    stopped.device.session.kill()


def test_state_that_is_refused(endpoint, guest0, guest1, lab, limited):
    """Restarts vrdmad with a limit that a device exceeds; expects this device to fail, the others not to notice, and
    the next process to get a device."""
    side, one, two = endpoint(guest0), endpoint(guest0, process=1), endpoint(guest1)
    for _ in range(FEW):
        side.another()
    connect(one, two)
    limited()
    lab.stop_mediator()
    mediator = lab.start_mediator_again()
    await_count(mediator, ": continues", 2)
    assert "DEVICE_FATAL" in side.device.await_event("DEVICE_FATAL", 20)
    with pytest.raises(VerbsError):
        side.pd.mr(4096, ["LOCAL_WRITE"])
    write_both_ways(one, two)
    side.device.session.kill()
    endpoint(guest0, process=2).initialize()


def test_no_other_vrdmad(endpoint, guest0, lab):
    """Ends vrdmad for longer than a process waits; expects the process to get DEVICE_FATAL, and its verbs to fail."""
    side = endpoint(guest0)
    lab.stop_mediator()
    try:
        with pytest.raises(VerbsError):
            side.pd.mr(4096, ["LOCAL_WRITE"])
        assert "DEVICE_FATAL" in side.device.await_event("DEVICE_FATAL", 20)
    finally:
        lab.start_mediator_again()
    side.device.session.kill()


def test_gap(guest0, guest1, device, lab, restart, measured):
    """Restarts vrdmad under a thousand busy queue pairs; expects all to continue, and reports for how long they stood
    still."""
    program = Program(f"ib_write_bw -F -s 4096 -q {PAIRS} -t 8 -D 6", device)
    server, port = start_server(program, guest0)
    client = guest1.start(f"{program.arguments(guest1, port)} {guest0.name}")
    await_traffic(lab)
    gaps = [restart(2) for _ in range(RESTARTS)]
    result = client.wait(TIMEOUT_S)
    server.wait(TIMEOUT_S)
    assert re.search(rf"Number of qps\s*: {PAIRS}", result.stdout)
    measured.append(f"{2 * PAIRS} QPs stood still for {', '.join(f'{gap:.0f}' for gap in gaps)} ms")


def test_starts_without_libfabric(lab):
    """Looks at what a vrdmad without fabrics has loaded; expects no libfabric: it would make each restart 0.2 s
    longer."""
    maps = Path(f"/proc/{lab.mediators[0].pid}/maps").read_text(encoding="ascii")
    assert "vrdmad" in maps
    assert "libfabric" not in maps
