# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A virtual machine that moves between hosts by QEMU's live migration, while a program in it talks to the guest of the
other host. After the move both guests are on one host."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from framework.connections import address, allow_users, await_listener
from framework.detached import TIMEOUT_S, Detached
from framework.lab import GUEST_PROGRAMS, Guest, Lab, Machine
from framework.mdev import Mdev, MdevType
from framework.process import Process
from framework.programs import Program, await_condition, next_port, start_server
from framework.programs import await_listener as await_server

pytestmark = pytest.mark.lab_hosts

HOME, AWAY = "host0", "host1"
# They last longer than two moves, or one, which takes five to ten seconds on emulated processors.
MESSAGES = 6000
FEW = 2500
RINGS = 1200
LOG = "journalctl -q -o cat -u vrdmad"


@pytest.fixture
def away(lab) -> Machine:
    return Machine(lab, AWAY)


@pytest.fixture
def mover(lab: Lab, guest0: Guest) -> Iterator[Guest]:
    """A guest that a test moves, and that is moved back to its own host after the test."""
    yield guest0
    if lab.describe(guest0.name)["host"] != HOME:
        guest0.migrate(HOME)


@pytest.fixture
def pingpong(device: str, mover: Guest, guest1: Guest) -> Callable[[int], tuple[Process, Detached]]:
    """Starts a ping-pong between the guest that moves and the other one, with the usual timeout."""

    def start(messages: int) -> tuple[Process, Detached]:
        program = Program(f"ib_send_lat -e -F -n {messages}", device)
        server, port = start_server(program, guest1)
        return server, Detached(mover, f"{program.arguments(mover, port)} {guest1.name}")

    return start


def test_pingpong(pingpong, mover, measured):
    """Moves a guest to its peer's host and back in the middle of a ping-pong; expects each message to arrive once."""
    server, client = pingpong(MESSAGES)
    moves = []
    for host in (AWAY, HOME):
        moves.append(mover.migrate(host))
        assert client.goes_on()
    client.output()
    server.wait(TIMEOUT_S)
    measured.append("a guest stood still for " + " and ".join(f"{move['downtime']} ms"
                                                              for move in moves) + " to be moved")


def test_connection_manager(mover, guest1):
    """Moves a guest while rping, which connects by rdma_cm, READs, WRITEs and compares; expects it to succeed."""
    for guest in (guest1, mover):
        allow_users(guest)
    port = next_port()
    server = guest1.start(f"rping -s -a 0.0.0.0 -p {port} -C {RINGS} -V")
    await_listener(guest1, port)
    client = Detached(mover, f"rping -c -a {address(guest1, 4)} -p {port} -C {RINGS} -V")
    mover.migrate(AWAY)
    assert client.goes_on()
    client.output()
    server.wait(TIMEOUT_S)


def test_connects_after_a_move(mover, works):
    """Moves a guest; expects new connections to work on the new host, and again on its own."""
    for host in (AWAY, HOME):
        mover.migrate(host)
        works()


def test_much_registered_memory(device, mover, measured):
    """Moves a guest by a slow channel, while its device writes to little of the memory that is registered. If all of it
    was transferred in each pass, that would take eight seconds or more, and the guest would never be stopped. Expects
    the move to end, and the memory to be right."""
    mover.copy(GUEST_PROGRAMS, "/root/")
    flag = "/root/uses-little"
    gid = mover.gid(device, "RoCE v2", 4)
    program = f"/usr/bin/python3 /root/{GUEST_PROGRAMS.name}/much_memory.py {device} {gid.index} {flag}"
    client = Detached(mover, program)
    client.await_file(flag)
    move = mover.migrate(AWAY, "--bandwidth", "32")
    mover.run(f"rm {flag}")
    output = client.output().strip()
    measured.append(f"a guest with {output} of RDMA moved in {move['ram']['dirty-sync-count']} passes "
                    f"and {move['total-time']} ms; it stood still for {move['downtime']} ms")


def test_memory_that_is_written_fast(device, mover, guest1, away, measured):
    """Moves a guest by a slow channel, while its peer on the same host writes to 16 MiB of its memory again and again,
    faster than the channel takes it. Expects the device to be slowed until the move ends, and the peer to go on
    writing."""
    mover.migrate(AWAY)
    program = Program("ib_write_bw -F -u 18 -q 32 -t 2 -s 524288 --run_infinitely -D 1", device)
    port = next_port()
    server = Detached(mover, program.arguments(mover, port))
    await_server(mover, port)
    client = guest1.start(f"{program.arguments(guest1, port)} {mover.name}")
    client.await_line(" 524288 ", TIMEOUT_S, "stdout")
    begin = len(away.script(LOG).stdout)
    move = mover.migrate(HOME, "--bandwidth", "8")
    assert "bytes per second while it moves" in away.script(LOG).stdout[begin:]
    assert server.goes_on()
    client.await_line(" 524288 ", TIMEOUT_S, "stdout", begin=len(client.lines("stdout")))
    client.kill()
    measured.append(f"a guest whose memory is written fast moved in {move['ram']['dirty-sync-count']} passes "
                    f"and {move['total-time']} ms; it stood still for {move['downtime']} ms")


def has_not_stopped(move: Process) -> bool:
    """Whether a move has failed without a stop of the guest."""
    return "did not stop" in move.wait(TIMEOUT_S, check=False).stderr


@pytest.fixture
def stays(pingpong, mover, lab) -> Iterator[Callable[[], Process]]:
    """Starts to move a guest that talks to another; expects that to fail, and the guest and its ping-pong to continue
    on its own host."""
    server, client = pingpong(FEW)
    moves = []

    def start() -> Process:
        moves.append(lab.start("ci/lab migrate", "migrate", mover.name, AWAY))
        return moves[0]

    yield start
    assert moves[0].wait(TIMEOUT_S, check=False).status != 0
    assert lab.describe(mover.name)["host"] == HOME
    client.output()
    server.wait(TIMEOUT_S)


def test_destination_dies(stays, mover, away):
    """Kills the monitor at the destination during the move."""
    move = stays()
    await_condition(away, f"systemctl is-active --quiet {mover.name}")
    away.run(f"systemctl kill --signal=KILL {mover.name}")
    move.wait(TIMEOUT_S, check=False)


def test_destination_is_smaller(stays, mover, away):
    """Has a device of a smaller type at the destination, whose BARs are shorter; expects a reason in its log, and a
    guest that does not stop."""
    smaller = Mdev(away, mover.lab.describe(mover.name)["uuid"])
    if smaller.exists:
        smaller.remove()
    MdevType(away, "small").create(smaller.uuid)
    begin = len(away.script(LOG).stdout)
    assert has_not_stopped(stays())
    assert f"{smaller.uuid}: refuses a device with" in away.script(LOG).stdout[begin:]
    smaller.remove()


def test_uplink_is_missing(stays, mover, away):
    """Has a device without an uplink at the destination; expects a reason in its log, and a guest that does not stop.
    """
    bare = Mdev(away, mover.lab.describe(mover.name)["uuid"])
    if not bare.exists:
        MdevType(away, "medium").create(bare.uuid)
    away.script(f"echo none >{bare.path}/uplink")
    begin = len(away.script(LOG).stdout)
    assert has_not_stopped(stays())
    assert f"{bare.uuid}: refuses a device that has an uplink" in away.script(LOG).stdout[begin:]
    bare.remove()


def test_address_is_taken(stays, mover, away):
    """Has another VM's device with the guest's MAC at the destination; expects a reason in its log, and a guest that
    does not stop."""
    other = Mdev(away, str(uuid.uuid4()))
    MdevType(away, "medium").create(other.uuid)
    away.script(f"echo {mover.lab.describe(mover.name)['mac']} >{other.path}/mac")
    away.copy(GUEST_PROGRAMS, "/root/")
    holder = away.start(f"/usr/bin/python3 /root/{GUEST_PROGRAMS.name}/held_device.py {other.uuid}")
    assert holder.next_line(TIMEOUT_S) == "held\n"
    begin = len(away.script(LOG).stdout)
    assert has_not_stopped(stays())
    assert "refuses the saved state: Address already in use" in away.script(LOG).stdout[begin:]
    holder.kill()
    other.remove()
