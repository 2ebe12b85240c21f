# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""vrdmad's package is upgraded while guests and processes use its devices: its script restarts vrdmad, unless
the kernel module that is loaded does not fit."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from framework.health import Health
from framework.lab import Machine
from framework.process import Process, Result
from framework.programs import await_condition, bandwidths, next_port
from test_performance import CONFIGURATION

pytestmark = pytest.mark.lab

SCRIPT = Path(__file__).parents[1] / "debian/vrdmad.postinst"
INTERFACE = "/sys/class/misc/vrdma_mdev/abi_version"
SOCKETS = '[[vfio_user]]\nname = "left"\n\n[[vfio_user]]\nname = "right"\n'
# It sends until it is killed, and says each second how much. Without stdbuf these lines would wait in a buffer.
PROGRAM = "stdbuf -oL ib_send_bw -F --run_infinitely -D 1 -s 64 -u 18 -d vrdma0 -x 3"
TIMEOUT_S = 120.0


@pytest.fixture
def upgrade(host: Machine) -> Callable[[], Result]:
    """Does what dpkg does after it has unpacked a newer package."""
    host.copy(SCRIPT, "/root/")
    return lambda: host.script("systemctl reset-failed vrdmad; sh /root/vrdmad.postinst configure 0.0.1")


@pytest.fixture
def other_module(host: Machine) -> Iterator[None]:
    """The loaded module has, so it seems, another interface."""
    host.script(f"echo 4000 >/run/abi_version && mount --bind /run/abi_version {INTERFACE}")
    yield
    host.run(f"umount {INTERFACE}")


@pytest.fixture
def sockets(host: Machine, health: Health) -> Iterator[None]:
    """The unit's vrdmad serves two sockets as well."""
    before = host.read(CONFIGURATION)
    host.script(f"cat >{CONFIGURATION} <<'END'\n{before}{SOCKETS}END")
    health.restart_mediator()
    yield
    host.script(f"cat >{CONFIGURATION} <<'END'\n{before}END")
    health.restart_mediator()


def await_report(sender: Process) -> None:
    """Waits until perftest says how much it sent in a second."""
    while not any(report.message_rate > 0 for report in bandwidths(Result(0, sender.next_line(TIMEOUT_S), ""))):
        pass


def test_guests(connected, health, upgrade):
    """Upgrades vrdmad under connected guests; expects another vrdmad, and the connection to work on."""
    left, right = connected()
    before = health.mediator_pid
    assert upgrade().stderr == ""
    health.watch_mediator()
    assert health.mediator_pid != before
    left.send("RDMA_WRITE", length=8, target=right.target())
    assert left.sent() == ["SUCCESS"]


def test_processes(host, health, sockets, upgrade):
    """Upgrades vrdmad under processes that use its sockets; expects their program to send on."""
    port = next_port()
    server, client = (f"vrdma-run --device /run/vrdma/{name}.sock --address 10.0.77.{number} -- {PROGRAM} -p {port}"
                      for number, name in enumerate(("left", "right"), 1))
    receiver = host.start(server)
    await_condition(host, f"ss -ltnH 'sport = :{port}' | grep -q .")
    sender = host.start(f"{client} localhost")
    await_report(sender)
    upgrade()
    health.watch_mediator()
    sender.new_lines()
    for _ in range(2):  # the first second may have begun before
        await_report(sender)
    assert receiver.running
    for program in (sender, receiver):
        program.kill()


def test_module_of_another_release(host, health, other_module, upgrade, works):
    """Upgrades vrdmad where the loaded module has another interface; expects a message that tells what to do, and the
    vrdmad of before to serve on."""
    message = upgrade().stderr
    assert "interface version 4000" in message
    assert "vrdma-host-dkms" in message
    assert "vrdmad was not restarted" in message
    assert host.script("systemctl show --property MainPID --value vrdmad").stdout.strip() == str(health.mediator_pid)
    works()


def test_start_with_module_of_another_release(host, other_module):
    """Starts another vrdmad there; expects the same message, not a number of errno."""
    result = host.run("vrdmad", check=False)
    assert result.status == 1
    assert "interface version 4000" in result.stderr
