# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A virtual machine that moves between hosts by QEMU's live migration, while a program in it talks to the guest of the
other host. After the move both guests are on one host."""

import re

import pytest

from framework.detached import TIMEOUT_S, Detached, EndlessRping
from framework.lab import MOVE_TIMEOUT_S
from framework.moving import AWAY, HOME, THIRD, begin_move
from framework.programs import Program, await_listener, next_port

pytestmark = pytest.mark.lab_hosts

# More than are sent during two moves, on emulated processors. The first one may take 22 seconds: to send pages of a
# memfd that the guest has never touched, the host allocates them one by one.
MESSAGES = 12000
LOG = "journalctl -q -o cat -u vrdmad"
SLOWED = "bytes per second while it moves"  # vrdmad logs it, and the next
LEAVES = re.compile(r"leaves, with (\d+) bytes after (\d+) that went ahead")
# The state of a device with a QP, without the lists of pages of its memory.
MUCH_STATE = 16 << 10


def test_pingpong(pingpong, mover, measured):
    """Moves a guest to its peer's host and back in the middle of a ping-pong; expects each message to arrive once."""
    server, client = pingpong(MESSAGES)
    moves = []
    for host in (AWAY, HOME):
        moves.append(mover.migrate(host))
        assert client.goes_on()
    client.output()
    server.output()
    measured.append("a guest stood still for " + " and ".join(f"{move['downtime']} of {move['total-time']} ms"
                                                              for move in moves) + " to be moved")


@pytest.mark.three_hosts
def test_three_hosts(pingpong, mover):
    """Moves a guest to a third host, to its peer's and back in the middle of a ping-pong; expects each message to
    arrive once."""
    server, client = pingpong(MESSAGES)
    for host in (THIRD, AWAY, HOME):
        mover.migrate(host)
        assert client.goes_on()
    client.output()
    server.output()


def test_connection_manager(mover, guest1):
    """Moves a guest while rping, which connects by rdma_cm, READs, WRITEs and compares; expects it to go on."""
    rping = EndlessRping(guest1, mover)
    rping.await_more()
    mover.migrate(AWAY)
    rping.await_more()
    rping.stop()


def test_connects_after_a_move(mover, works):
    """Moves a guest; expects new connections to work on the new host, and again on its own."""
    for host in (AWAY, HOME):
        mover.migrate(host)
        works()


@pytest.mark.parametrize("use", ["writes", "reads"])
def test_much_registered_memory(device, mover, home, measured, use):
    """Moves a guest by a slow channel, while its device writes to little of the memory that is registered, or reads all
    of it again and again and writes to a little. If all of it was transferred in each pass, that would take eight
    seconds or more, and the guest would never be stopped. Expects the move to end, and the memory to be right. Expects
    a device that only reads not to be slowed, as a device is that dirties much memory. Expects the list of the pages to
    go ahead while the guest runs."""
    flag = "/root/uses-little"
    gid = mover.gid(device, "RoCE v2", 4)
    program = f"/usr/bin/python3 {mover.programs}/much_memory.py {device} {gid.index} {flag} {use}"
    client = Detached(mover, program)
    client.await_file(flag)
    begin = len(home.script(LOG).stdout)
    move = mover.migrate(AWAY, "--bandwidth", "32")
    log = home.script(LOG).stdout[begin:]
    assert use == "writes" or SLOWED not in log
    rest, ahead = (int(number) for number in LEAVES.findall(log)[-1])
    assert rest < MUCH_STATE < ahead
    mover.run(f"rm {flag}")
    output = client.output().strip()
    measured.append(f"a guest with {output} of {use} by RDMA moved in {move['ram']['dirty-sync-count']} passes "
                    f"and {move['total-time']} ms; it stood still for {move['downtime']} ms, and {ahead} bytes of its "
                    f"device's state went ahead of {rest}")


def test_memory_that_is_written_fast(device, mover, guest1, away, measured):
    """Moves a guest by a slow channel, while its peer on the same host writes to 16 MiB of its memory again and again,
    faster than the channel takes it. Expects the device to be slowed until the move ends, and the peer to go on
    writing."""
    mover.migrate(AWAY)
    program = Program("ib_write_bw -F -u 18 -q 32 -t 2 -s 524288 --run_infinitely -D 1", device)
    port = next_port()
    server = Detached(mover, program.arguments(mover, port))
    await_listener(mover, port)
    client = guest1.start(f"{program.arguments(guest1, port)} {mover.name}")
    client.await_line(" 524288 ", TIMEOUT_S, "stdout")
    begin = len(away.script(LOG).stdout)
    move = mover.migrate(HOME, "--bandwidth", "8")
    assert SLOWED in away.script(LOG).stdout[begin:]
    assert server.goes_on()
    client.await_line(" 524288 ", TIMEOUT_S, "stdout", begin=len(client.lines("stdout")))
    client.kill()
    measured.append(f"a guest whose memory is written fast moved in {move['ram']['dirty-sync-count']} passes "
                    f"and {move['total-time']} ms; it stood still for {move['downtime']} ms")


def test_both_move(pingpong, lab, mover, guest1):
    """Moves two guests that talk, each to the other's host, at once; expects each message to arrive once."""
    server, client = pingpong(MESSAGES)
    for places in ((AWAY, HOME), (HOME, AWAY)):
        moves = [begin_move(lab, guest, host) for guest, host in zip((mover, guest1), places, strict=True)]
        for guest, move in zip((mover, guest1), moves, strict=True):
            move.wait(MOVE_TIMEOUT_S)
            guest.booted()  # connections to it end
        assert client.goes_on()
    for side in (client, server):
        side.output()
