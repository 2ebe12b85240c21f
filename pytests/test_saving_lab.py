# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Virtual machines that are saved to files and restored later, by QEMU's migration to a file."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from framework.detached import Detached
from framework.lab import MOVE_TIMEOUT_S, Guest, Machine
from framework.moving import host_of, restore, resume, save, start_detached, stop

pytestmark = pytest.mark.lab_hosts

# Retries of this timeout last for eight seconds.
PATIENT = "-u 18"
MESSAGES = 4000
SAVED = "/var/lib/vrdma-lab/{guest}.saved"
IMAGE = "/var/lib/vrdma-lab/{guest}.qcow2"
SNAPSHOT = "at-rest"
# So ib_write_bw reports IBV_WC_RETRY_EXC_ERR.
LOST = "status 12"


@pytest.fixture
def start(guest0, guest1, device) -> Callable[[str], tuple[Detached, Detached]]:
    """Starts a program's server in one guest and its client in the other."""

    return lambda command: start_detached(f"{command} {PATIENT}", device, guest1, guest0)


def machine_of(guest: Guest) -> Machine:
    return Machine(guest.lab, host_of(guest))


@pytest.fixture
def image(guest0: Guest, guest1: Guest, tmp_path: Path) -> Iterator[None]:
    """An empty image for snapshots, which each guest's QEMU has open."""
    empty = tmp_path / "empty.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", empty, "4G"], check=True)
    for guest in (guest0, guest1):
        file = IMAGE.format(guest=guest.name)
        machine_of(guest).copy(empty, file)
        guest.monitor(f"drive_add 0 if=none,id=snapshots,format=qcow2,file={file}")
    yield
    for guest in (guest0, guest1):
        guest.monitor("drive_del snapshots")
        machine_of(guest).run(f"rm {IMAGE.format(guest=guest.name)}")


def test_together(start, guest0, guest1, health):
    """Stops two guests in the middle of READs, saves both, and restores both on vrdmads that have started meanwhile;
    expects all to be carried out. test_mediators_restart says why these are no SENDs."""
    server, client = start(f"ib_read_lat -e -F -n {MESSAGES}")
    stop(guest0, guest1)
    save(guest0, guest1)
    health.restart_mediators()
    restore(guest0, guest1)
    resume(guest0, guest1)
    assert client.goes_on()
    client.output()
    server.output()


def test_hosts_reboot(lab, start, guest0, guest1, health, tmp_path):
    """The same, but the hosts reboot between. The files are kept elsewhere, as a host's disk is in its memory."""
    server, client = start(f"ib_read_lat -e -F -n {MESSAGES}")
    stop(guest0, guest1)
    for guest in (guest0, guest1):
        guest.save()
        host, file = machine_of(guest), SAVED.format(guest=guest.name)
        lab.do("cp", f"{host.name}:{file}", str(tmp_path / guest.name), timeout=MOVE_TIMEOUT_S)
        lab.do("reboot", host.name, timeout=MOVE_TIMEOUT_S)
        assert host.run(f"test -e {file}", check=False).status != 0
        host.copy(tmp_path / guest.name, file)
    restore(guest0, guest1)
    resume(guest0, guest1)
    health.renew()
    assert client.goes_on()
    client.output()
    server.output()


def test_snapshot(start, guest0, guest1, image):
    """Takes a snapshot of two guests at rest, in the middle of READs, which are then carried out. Goes back to the
    snapshots; expects the READs to be carried out from there once more."""
    server, client = start(f"ib_read_lat -e -F -n {MESSAGES}")
    stop(guest0, guest1)
    for guest in (guest0, guest1):
        assert not guest.monitor(f"savevm {SNAPSHOT}", MOVE_TIMEOUT_S)
    resume(guest0, guest1)
    client.output()
    server.output()
    stop(guest0, guest1)
    for guest in (guest0, guest1):
        assert not guest.monitor(f"loadvm {SNAPSHOT}", MOVE_TIMEOUT_S)
    resume(guest0, guest1)
    assert client.goes_on()
    client.output()
    server.output()


def test_alone(start, guest0, guest1, works):
    """Saves a guest in the middle of WRITEs, ends its peer, and restores the guest; expects its QP to find its peer
    lost, and new connections to work."""
    _, client = start(f"ib_write_bw -F -s 4096 -n {100 * MESSAGES}")
    guest0.save()
    guest1.run("pkill ib_write_bw")
    guest0.restore()
    assert client.status() != 0
    assert LOST in guest0.read("/root/output")
    works()
