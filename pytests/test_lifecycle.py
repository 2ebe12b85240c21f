# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Processes, drivers, guests and devices that go and come back. What has gone must leave no resources, and the others
must continue."""

import json

import pytest

from framework.endpoint import connect
from framework.lab import TIMEOUT_S
from framework.mdev import DEVICE_ADD, MdevType, mdev_of
from framework.programs import Program, run, start_server
from framework.sockets import PVRDMA_DEVICE
from framework.verbs import VerbsError

pytestmark = pytest.mark.lab

MIB = 1 << 20
OTHER_PROCESS = 9


def resources(guest, device: str) -> dict[str, int]:
    """The number of objects of each kind that the guest's kernel counts."""
    (entry,) = [entry for entry in json.loads(guest.run("rdma -j resource show").stdout) if entry["ifname"] == device]
    return {kind: entry[kind] for kind in ("pd", "cq", "qp", "mr", "ctx")}


def busy(endpoint, guest0, guest1):
    """A busy process in guest0: its sends wait, receives are posted, and it has a large region."""
    victim, peer = endpoint(guest0, process=OTHER_PROCESS, buffer=32 * MIB, events=True), endpoint(guest1)
    connect(victim, peer)
    victim.mr.fill(seed=1, length=4 * MIB)
    for number in range(8):
        victim.receive(wr_id=number)
        victim.send(wr_id=number)  # the peer has posted no receive
    return victim, peer


def test_killed_process_releases_all(device, guest0, guest1, endpoint):
    """Kills a process with outstanding work; expects the guest's kernel to keep no object of it, and its peer to be
    told."""
    before = resources(guest0, device)
    victim, peer = busy(endpoint, guest0, guest1)
    assert resources(guest0, device)["qp"] == before["qp"] + 1
    guest0.run(f"kill -9 {victim.device.session.pid}")
    victim.device.session.await_end()
    assert resources(guest0, device) == before
    peer.receive()
    peer.qp.modify(qp_state="SQD")
    peer.qp.modify(qp_state="RTS")
    peer.send()
    assert peer.sent() == ["RETRY_EXC_ERR"]


def test_memory_is_unpinned(host, guest0, guest1, endpoint):
    """Writes 32 MiB and deregisters both regions; expects the host to have pinned that much, and to unpin it."""
    device = mdev_of(host, guest0)
    before = device.pinned
    left, right = endpoint(guest0, buffer=32 * MIB), endpoint(guest1, buffer=32 * MIB)
    connect(left, right)
    left.send("RDMA_WRITE", length=32 * MIB, target=right.target())
    assert left.sent(timeout=50) == ["SUCCESS"]
    assert device.pinned >= 32 * MIB
    left.device.close()
    assert device.pinned < before + 4 * MIB


def test_module_reload(guest0, device, works):
    """Unloads the guest's driver and loads it again; expects the device to go and to come back."""
    driver = "vmw_pvrdma" if device == PVRDMA_DEVICE else "vrdma_ib"
    guest0.run(f"modprobe -r {driver}")
    assert device not in guest0.run("ls /sys/class/infiniband").stdout
    guest0.run(f"modprobe {driver}")
    works()


def test_function_reset(guest0, guest1, endpoint, works):
    """Resets the function under a busy process by sysfs; expects a reset by PCI Express (FLR), DEVICE_FATAL, and a new
    device from the driver without further action."""
    victim, _ = busy(endpoint, guest0, guest1)
    assert guest0.read(f"{guest0.function}/reset_method").split() == ["flr"]
    guest0.script(f"echo 1 >{guest0.function}/reset")
    assert "DEVICE_FATAL" in victim.device.await_event("DEVICE_FATAL", TIMEOUT_S)
    guest0.run(f"kill -9 {victim.device.session.pid}")
    victim.device.session.await_end()
    works()


def test_bus_master_is_cleared(host, guest0, guest1, endpoint, works):
    """Clears Bus Master of a busy device, as a kernel does before it hands over to another. Expects the host to unpin
    all memory of the guest at once, DEVICE_FATAL, and a new device once Bus Master is set."""

    def command(byte: str) -> None:
        guest0.script(f"printf '{byte}' | dd of={guest0.function}/config bs=1 seek=4 count=1 conv=notrunc status=none")

    victim, _ = busy(endpoint, guest0, guest1)
    assert mdev_of(host, guest0).pinned > 0
    command("\\002")  # only memory space
    assert mdev_of(host, guest0).pinned == 0
    assert "DEVICE_FATAL" in victim.device.await_event("DEVICE_FATAL", TIMEOUT_S)
    guest0.run(f"kill -9 {victim.device.session.pid}")
    victim.device.session.await_end()
    assert mdev_of(host, guest0).pinned == 0
    command("\\006")
    works()


@pytest.mark.parametrize("leave, come_back", [
    ("echo {name} >/sys/bus/pci/drivers/vrdma_ib/unbind", "echo {name} >/sys/bus/pci/drivers/vrdma_ib/bind"),
    ("modprobe -r vrdma_ib", "modprobe vrdma_ib"),
], ids=["unbind", "unload"])  # fmt: skip
def test_driver_leaves_in_use(guest0, guest1, endpoint, works, leave, come_back):
    """Unbinds the driver under a busy process and brings it back; expects DEVICE_FATAL, errors, and a new device."""
    name = guest0.function.rsplit("/", 1)[1]
    victim, _ = busy(endpoint, guest0, guest1)
    try:
        guest0.script(leave.format(name=name))
        assert "DEVICE_FATAL" in victim.device.await_event("DEVICE_FATAL", 10)
        with pytest.raises(VerbsError):
            victim.pd.mr(4096, ["LOCAL_WRITE"])
    finally:
        guest0.script(come_back.format(name=name))
    works()
    guest0.run(f"kill -9 {victim.device.session.pid}")
    victim.device.session.await_end()


def test_guest_reboot(guest0, guest1, endpoint, works):
    """Reboots a guest whose process is busy; expects its peer to be told, and the device to work after the boot."""
    _, peer = busy(endpoint, guest0, guest1)
    guest0.reboot()
    peer.send()
    assert peer.sent() == ["RETRY_EXC_ERR"]
    works()


def test_qemu_is_killed(host, guest0, guest1, device, works):
    """Kills the QEMU of a guest during a transfer; expects no memory of it pinned, and the other guest to continue."""
    bandwidth = Program(f"ib_write_bw -F -s {4 * MIB} -n 1000000", device)  # takes hours if not interrupted
    server, port = start_server(bandwidth, guest0)
    client = guest1.start(f"{bandwidth.arguments(guest1, port)} guest0")
    dead = mdev_of(host, guest1)
    host.script(f"until [ $(cat {dead.path}/pinned) -gt {MIB} ]; do sleep 0.05; done")
    guest1.kill()
    dead.await_unpinned()
    assert client.wait(TIMEOUT_S, check=False).status != 0
    server.kill()
    for result in run(Program("ibv_rc_pingpong -c -e -n 20", device), guest0, guest0):
        assert "20 iters in" in result.stdout
    guest1.boot()
    works()


def test_hot_unplug(host, guest0, guest1, endpoint, device, works):
    """Unplugs the device by QEMU's monitor under a busy process and plugs it in again; expects DEVICE_FATAL and a new
    device."""
    victim, peer = busy(endpoint, guest1, guest0)
    mdev = mdev_of(host, guest1)
    guest1.monitor("device_del vrdma")
    assert "DEVICE_FATAL" in victim.device.await_event("DEVICE_FATAL", 20)
    guest1.script(f"while [ -e /sys/class/infiniband/{device} ]; do sleep 0.05; done")
    mdev.await_unpinned()
    peer.send()
    assert peer.sent() == ["RETRY_EXC_ERR"]
    guest1.forget("function")
    guest1.monitor(DEVICE_ADD.format(mdev.uuid))
    works()


def test_removed_in_use(host, guest0, guest1, device, works):
    """Removes the mdev by sysfs while a VM has it; expects QEMU to release it on request, and a new one to be
    usable."""
    mdev = mdev_of(host, guest1)
    mac = mdev.mac
    mdev.remove(timeout=60)
    assert not mdev.exists
    guest1.script(f"while [ -e /sys/class/infiniband/{device} ]; do sleep 0.05; done")
    guest1.forget("function")
    MdevType(host, "medium").create(mdev.uuid)
    host.script(f"echo {mac} >{mdev.path}/mac")
    guest1.monitor(DEVICE_ADD.format(mdev.uuid))
    works()
