# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A virtual machine of libvirt 9.0, as Debian 12 has it. A domain with the same device replaces a guest of the lab.
Its QEMU does not run as root, and has the device file and the limit of locked memory from libvirt."""

import subprocess
import uuid
from collections.abc import Iterator

import pytest

from framework.detached import Detached, EndlessRping
from framework.lab import MOVE_TIMEOUT_S, Guest, Machine
from framework.libvirt import EMULATOR, NEWER_EMULATOR, Domain, Libvirt
from framework.mdev import Mdev
from framework.programs import Program, start_server

pytestmark = pytest.mark.lab_hosts

PARENT, TYPE = "vrdma", "vrdma-small"
MAC = "52:54:00:00:00:77"
# They last longer than what comes between them, and no longer than some seconds.
MESSAGES = 4000
DISK = "/var/lib/vrdma-lab/disk.qcow2"


@pytest.fixture(scope="module")
def domain(request, lab, guest1: Guest) -> Iterator[Domain]:
    made = Domain(Machine(lab, "host1"), guest1)
    yield made
    # Spares the guest's boot if the lab goes down next.
    if not lab.ours or request.session.items[-1].path != request.path:
        made.give_back()


def node_device(name: str) -> str:
    """libvirt's name of a mediated device."""
    return f"mdev_{name.replace('-', '_')}_{PARENT}"


def test_domain(domain, works):
    """Starts a domain with the device; expects it to talk to the other guest. Takes the device away from it, and saves
    the domain; expects to be refused, because it is in use, and because QEMU 7.2 cannot save such devices."""
    domain.run(EMULATOR)
    works()
    name = node_device(domain.device.uuid)
    assert name in domain.virsh("nodedev-list --cap mdev").stdout.split()
    assert "device in use" in domain.refusal(f"nodedev-destroy {name}")
    assert "VFIO device doesn't support migration" in domain.refusal(f"save {domain.guest.name} /run/saved")


def test_reset(domain, works):
    """Resets the domain; expects it to boot again and to talk again."""
    domain.run(EMULATOR)
    before = domain.guest.boot_id()
    domain.virsh(f"reset {domain.guest.name}")
    domain.await_boot(other_than=before)
    works()


def test_save(domain, device, guest0, guest1):
    """Destroys the domain, which leaves nothing pinned, and starts it with QEMU 10.0. Saves and restores it in the
    middle of READs, by its name (managedsave, start) and by a file; expects all READs to be carried out. They wait for
    the domain as long as it takes, because only the domain's side repeats."""
    domain.run(NEWER_EMULATOR)
    guest1.await_device(device)
    program = Program(f"ib_read_lat -F -n {MESSAGES}", device)
    server, port = start_server(program, guest0)
    client = Detached(guest1, f"{program.arguments(guest1, port)} {guest0.name}")
    for away, back in ((f"managedsave {guest1.name}", f"start {guest1.name}"),
                       (f"save {guest1.name} /run/saved", "restore /run/saved")):
        assert client.goes_on()
        domain.virsh(away)
        assert "shut off" in domain.virsh(f"domstate {guest1.name}").stdout
        domain.virsh(back)
        domain.await_boot()
    assert f" {MESSAGES} " in client.output()
    server.wait(60)


def test_migrate(lab, domain, device, guest0, guest1, tmp_path):
    """Migrates the domain to its peer's host and back during rping, which READs, WRITEs and compares without an end;
    expects it to go on. The domain's own disk is on both hosts. On the way back it has another one, which libvirt
    copies; expects the same contents. Before, the other host has no device for the domain; expects a refusal."""
    domain.run(NEWER_EMULATOR)
    guest1.await_device(device)
    here, there = (Libvirt(Machine(lab, name)) for name in ("host1", "host0"))
    there.start()
    assert f"'{domain.device.uuid}' not found" in domain.refusal(domain.migration(there))
    rping = EndlessRping(guest0, guest1)

    domain.migrate(there)
    rping.await_more()
    disk = tmp_path / "disk.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", disk, "64M"], check=True)
    for host in (here.host, there.host):
        host.copy(disk, DISK)
    domain.virsh(f"attach-disk {guest1.name} {DISK} vdb --driver qemu --subdriver qcow2")
    guest1.script(f"until test -b /dev/vdb; do sleep 0.05; done; echo {MAC} | dd of=/dev/vdb conv=fsync,sync")

    domain.migrate(here, "--copy-storage-all")
    rping.await_more()
    assert MAC in guest1.script("dd if=/dev/vdb iflag=direct count=1 | tr -d '\\0'").stdout
    rping.stop()


def test_snapshot(domain, device, guest1, works):
    """Takes a snapshot of the domain while it runs, to which it goes back; expects a file to be gone that was made
    meanwhile, and new connections to work."""
    domain.virsh(f"snapshot-create-as {guest1.name} before", timeout=MOVE_TIMEOUT_S)
    guest1.run("touch /root/made-afterwards")
    domain.virsh(f"snapshot-revert {guest1.name} before", timeout=MOVE_TIMEOUT_S)
    domain.await_boot()
    assert guest1.run("test -e /root/made-afterwards", check=False).status != 0
    works()
    domain.virsh(f"snapshot-delete {guest1.name} before")


def test_node_device(lab):
    """Defines a device with mdevctl, as libvirt cannot: it does not know the parent. Expects libvirt to list the device
    with its attributes, and to start, autostart, stop and undefine it."""
    host = Machine(lab, "host1")
    libvirt = Libvirt(host)
    libvirt.start()
    mdev = Mdev(host, str(uuid.uuid4()))
    name = node_device(mdev.uuid)
    host.run(f"mdevctl define -u {mdev.uuid} -p {PARENT} -t {TYPE}")
    host.run(f"mdevctl modify -u {mdev.uuid} --addattr mac --value {MAC}")
    # libvirt sees the change of the file some time later.
    host.script(f"until virsh nodedev-dumpxml {name} | grep -q {MAC}; do sleep 0.05; done 2>/dev/null")
    libvirt.virsh(f"nodedev-start {name}")
    assert mdev.mac == MAC
    libvirt.virsh(f"nodedev-autostart {name}")
    assert f"{mdev.uuid} {PARENT} {TYPE} auto (active)" in host.run("mdevctl list -d").stdout
    libvirt.virsh(f"nodedev-destroy {name}")
    assert not mdev.exists
    libvirt.virsh(f"nodedev-undefine {name}")
    assert mdev.uuid not in host.run("mdevctl list -d").stdout
