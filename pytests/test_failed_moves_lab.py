# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Virtual machines whose migration fails or is disturbed, while a program in them talks to the guest of the other host.
"""

import shlex
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from framework.detached import TIMEOUT_S
from framework.lab import Guest, Machine
from framework.mdev import Mdev, MdevType
from framework.moving import AWAY, HOME, begin_move, described, host_of
from framework.process import Failure, Process
from framework.programs import await_condition

pytestmark = pytest.mark.lab_hosts

LOG = "journalctl -q -o cat -u vrdmad"
MESSAGES = 2500  # more than a move takes
# A minute or more, of which a test needs a part.
SLOWLY = ("--bandwidth", "1")
MOVE_PORT = 4444  # guest0's, as ci/vrdmalab/migration.py has it


def has_not_stopped(move: Process) -> bool:
    """Whether a move has failed without a stop of the guest."""
    return "did not stop" in move.wait(TIMEOUT_S, check=False).stderr


def beside(guest: Guest, host: Machine, command: str) -> str:
    """The answer of its QEMU's monitor, while the lab uses the other one to move it."""
    socket = f"{described(guest)['directory']}/hmp"
    return host.run(f"/usr/bin/python3 {host.programs}/monitor.py {socket} {shlex.quote(command)}").stdout


def await_status(guest: Guest, host: Machine, status: str) -> None:
    """Waits until QEMU says that the migration of a guest is in this state."""
    deadline = time.monotonic() + TIMEOUT_S
    while f"Migration status: {status}" not in (answer := beside(guest, host, "info migrate")):
        if time.monotonic() > deadline:
            raise Failure(f"not {status}: {answer}")


@pytest.fixture
def stays(pingpong, mover, lab) -> Iterator[Callable[[], Process]]:
    """Starts to move a guest that talks to another; expects that to fail, and the guest and its ping-pong to continue
    on its own host."""
    server, client = pingpong(MESSAGES)
    moves = []

    def start(*options: str) -> Process:
        moves.append(begin_move(lab, mover, AWAY, *options))
        return moves[0]

    yield start
    assert moves[0].wait(TIMEOUT_S, check=False).status != 0
    assert host_of(mover) == HOME
    client.output()
    server.output()


def test_destination_dies(stays, mover, away):
    """Kills the monitor at the destination during the move."""
    move = stays()
    await_condition(away, f"systemctl is-active --quiet {mover.name}")
    away.run(f"systemctl kill --signal=KILL {mover.name}")
    move.wait(TIMEOUT_S, check=False)


def test_destination_is_smaller(stays, mover, away):
    """Has a device of a smaller type at the destination, whose BARs are shorter; expects a reason in its log, and a
    guest that does not stop."""
    smaller = Mdev(away, described(mover)["uuid"])
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
    bare = Mdev(away, described(mover)["uuid"])
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
    away.script(f"echo {described(mover)['mac']} >{other.path}/mac")
    holder = away.start(f"/usr/bin/python3 {away.programs}/held_device.py {other.uuid}")
    assert holder.next_line(TIMEOUT_S) == "held\n"
    begin = len(away.script(LOG).stdout)
    assert has_not_stopped(stays())
    assert "refuses the saved state: Address already in use" in away.script(LOG).stdout[begin:]
    holder.kill()
    other.remove()


def test_cancelled(stays, mover, home):
    """Cancels a move while the VM runs."""
    move = stays(*SLOWLY)
    await_status(mover, home, "active")
    beside(mover, home, "migrate_cancel")
    assert "the migration has cancelled" in move.wait(TIMEOUT_S, check=False).stderr


def test_cancelled_when_stopped(stays, mover, home):
    """Cancels a move when the VM has stopped, and its device's state is about to be transferred."""
    mover.monitor("migrate_set_capability pause-before-switchover on")
    move = stays()
    await_status(mover, home, "pre-switchover")
    beside(mover, home, "migrate_cancel")
    assert "the migration has cancelled" in move.wait(TIMEOUT_S, check=False).stderr
    mover.monitor("migrate_set_capability pause-before-switchover off")


def test_channel_is_cut(stays, mover, home):
    """Cuts the connection between the two monitors."""
    move = stays(*SLOWLY)
    await_status(mover, home, "active")
    home.run(f"ss -K dst {AWAY} dport = {MOVE_PORT}")
    assert has_not_stopped(move)


def test_vrdmad_restarts(stays, mover, home, health):
    """Restarts the vrdmad of the source, which forgets the transfer."""
    move = stays(*SLOWLY)
    await_status(mover, home, "active")
    health.restart_mediators()
    beside(mover, home, "migrate_set_parameter max-bandwidth 128M")
    move.wait(TIMEOUT_S, check=False)


def test_source_dies(lab, mover, home, works):
    """Kills the monitor of the source during a move; expects the guest to boot and to work, in both places."""
    move = begin_move(lab, mover, AWAY, *SLOWLY)
    await_status(mover, home, "active")
    mover.kill()
    assert move.wait(TIMEOUT_S, check=False).status != 0
    mover.boot()
    works()
    mover.migrate(AWAY)
    works()


@pytest.mark.parametrize("cause", ["system_reset", "reboot"])
def test_reset(lab, mover, home, works, cause):
    """Resets a guest while it moves, or reboots its system. A reset ends the transfer of a device (VFIO's protocol), so
    expects the guest to stay; and then to work, and to move."""
    before = mover.boot_id()
    move = begin_move(lab, mover, AWAY, *SLOWLY)
    await_status(mover, home, "active")
    if cause == "reboot":
        mover.start(cause)
    else:
        beside(mover, home, cause)
    # The guest cannot mount the lab's files before the move has ended.
    beside(mover, home, "migrate_set_parameter max-bandwidth 128M")
    assert has_not_stopped(move)
    mover.await_boot(before)
    works()
    mover.migrate(AWAY)
    works()
