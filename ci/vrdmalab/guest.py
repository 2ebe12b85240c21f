# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The guests: KVM VMs that run inside a host VM as systemd units of it, one QEMU each."""

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager

from . import releases, remote
from .common import COMMON_KERNEL_ARGUMENTS, boot_id, script
from .errors import LabError, VmError
from .images import NEWER_ROOT
from .qmp import Qmp
from .releases import RELEASES
from .remote import Address
from .topology import Guest, GuestNames, Shape, addresses_on_uplink

# Three guests of a host with one processor and Linux 7.3 took 290 s.
BOOT_S = 450.0
# The longest time for which the death of a booting guest goes unnoticed.
PATIENCE_S = 5
# On the host, with a directory for each release of guests.
PRELOAD = "/usr/lib/vrdma-lab/kvm_run.so"
SHARES = "/var/lib/vrdma-lab/share"
KERNEL_ARGUMENTS = f"{COMMON_KERNEL_ARGUMENTS} loglevel=4 lab.init=/usr/lib/vrdma-lab/init"

START = """
mkdir -p "$DIRECTORY"
if ! [ -e "/sys/class/net/tap-$NAME" ]; then
    ip tuntap add "tap-$NAME" mode tap vnet_hdr
    ip link set "tap-$NAME" master br0 up
fi
rm -f "$DIRECTORY/qmp"
systemd-run --quiet --collect --unit="$NAME" -p StandardOutput=append:"$DIRECTORY/console" \
    -p StandardError=append:"$DIRECTORY/console" -p LimitMEMLOCK=infinity -E LD_PRELOAD="$PRELOAD" "$@"
until [ -S "$DIRECTORY/qmp" ] || ! systemctl is-active --quiet "$NAME"; do sleep 0.02; done
"""

KILL = """
systemctl kill --signal=KILL "$NAME.service"
while systemctl is-active --quiet "$NAME"; do sleep 0.05; done
"""

CREATE_MDEV = """
device=/sys/bus/mdev/devices/$UUID
[ -d "$device" ] || echo "$UUID" >"$(echo /sys/class/mdev_bus/*/mdev_supported_types/vrdma-"$TYPE")/create"
echo "$MAC" >"$device/mac"
echo "$ADDRESSES" >"$device/addresses"
"""

AWAIT_DEVICE = """
modprobe "$DRIVER"
for try in $(seq 300); do
    [ ! -d "/sys/class/infiniband/$DEVICE" ] || exit 0
    sleep 0.1
done
echo "no $DEVICE under /sys/class/infiniband; the kernel says:" >&2
dmesg | tail -n 30 >&2
exit 1
"""


# PVRDMA's driver looks for the NIC in function 0 of its own slot.
NIC_SLOT = "10.0"
PVRDMA_SLOT = "10.1"


def nic(guest: GuestNames, shape: Shape) -> str:
    return f"vmxnet3,addr={NIC_SLOT},multifunction=on" if shape.has_pvrdma(guest) else "virtio-net-pci"


def directory(guest: Guest) -> str:
    """The directory on its host for the sockets of its monitors and its console."""
    return f"/run/vrdma-lab/{guest.name}"


def kernel_arguments(guest: GuestNames) -> str:
    return f"{KERNEL_ARGUMENTS} lab.name={guest.name} lab.ipv4={guest.ipv4}/16 lab.ipv6={guest.ipv6}/64"


def _monitor(shape: Shape) -> str:
    beside = RELEASES[shape.host_release].newer_monitor or shape.movable and shape.host_release == releases.OWN
    return f"/{NEWER_ROOT}/usr/bin/qemu-system-x86_64" if beside else "qemu-system-x86_64"


def _qemu(guest: Guest, shape: Shape, with_vrdma: bool, incoming: bool) -> list[str]:
    where, system = directory(guest), shape.system(guest)
    vhost = "off" if shape.has_pvrdma(guest) else "on"
    command = [
        _monitor(shape), "-name", guest.name, "-nodefaults", "-no-user-config", "-display", "none",
        # A host's HCA can register only memory that is a file.
        "-object", f"memory-backend-memfd,id=ram,size={shape.guest_memory}M,share=on", "-m", str(shape.guest_memory),
        "-machine", "pc,memory-backend=ram", "-accel", "kvm", "-cpu", "host", "-smp", str(shape.guest_cpus),
        "-kernel", f"/boot/{system}/vmlinux", "-initrd", f"/boot/{system}/initrd.img",
        "-append", kernel_arguments(guest),
        "-serial", "stdio",
        "-qmp", f"unix:{where}/qmp,server=on,wait=off",
        "-monitor", f"unix:{where}/hmp,server=on,wait=off",
        "-drive", f"if=none,id=root,file={shape.disk(shape.release(guest))},format=raw,readonly=on",
        "-device", "virtio-blk-pci,drive=root",
        "-fsdev", f"local,id=lab,path={SHARES}/{system},security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=lab,mount_tag=lab",
        "-netdev", f"tap,id=lan,ifname=tap-{guest.name},script=no,downscript=no,vhost={vhost}",
        "-device", f"{nic(guest, shape)},netdev=lan,mac={guest.mac},romfile=",
        "-device", f"vhost-vsock-pci,guest-cid={guest.cid}",
        "-device", "pvpanic-pci", "-action", "panic=exit-failure",
    ]  # fmt: skip
    if with_vrdma:
        device = f"vfio-pci,id=vrdma,sysfsdev=/sys/bus/mdev/devices/{guest.uuid}"
        device += f",addr={PVRDMA_SLOT}" if shape.has_pvrdma(guest) else ""
        device += ",enable-migration=on" if shape.movable else ""
        if shape.iommufd:
            command += ["-object", "iommufd,id=iommufd"]
            device += ",iommufd=iommufd"
        command += ["-device", device]
    if incoming:
        command += ["-incoming", "defer"]
    return command


def _create_mdev(guest: Guest, host: Address, shape: Shape) -> None:
    """Creates an mdev as an operator would, unless it exists. It gets the MAC of the guest's NIC, to pair the two."""
    script(guest.host.name, host, CREATE_MDEV, f"create {guest.name}'s mdev", TYPE=shape.type_of(guest),
           UUID=guest.uuid, MAC=guest.mac, ADDRESSES=addresses_on_uplink(shape))


def remove_mdev(guest: Guest, host: Address) -> None:
    """Removes the mdev of a guest that has moved away and taken its addresses along."""
    script(guest.host.name, host, 'echo 1 >"/sys/bus/mdev/devices/$UUID/remove"', f"remove {guest.name}'s mdev",
           UUID=guest.uuid)


def start(guest: Guest, host: Address, shape: Shape, with_vrdma: bool, incoming: bool = False) -> None:
    """Starts a guest. With `incoming` it waits for the state of a guest that runs elsewhere."""
    if running(guest, host):
        raise LabError(f"{guest.name} is running")
    if with_vrdma:
        _create_mdev(guest, host, shape)
    text = f"set -- {shlex.join(_qemu(guest, shape, with_vrdma, incoming))}\n{START}"
    script(guest.host.name, host, text, f"start {guest.name}", NAME=guest.name, DIRECTORY=directory(guest),
           PRELOAD=PRELOAD if RELEASES[shape.host_release].newer_monitor else "")


@contextmanager
def monitor(guest: Guest, host: Address, timeout: float) -> Iterator[Qmp]:
    with host.connect_unix(f"{directory(guest)}/qmp", timeout) as sock:
        yield Qmp(sock, timeout)


def kill(guest: Guest, host: Address) -> None:
    """Kills its QEMU, like a crash: QEMU cannot clean up."""
    if not running(guest, host):
        raise LabError(f"{guest.name} is not running")
    script(guest.host.name, host, KILL, f"kill {guest.name}", NAME=guest.name)


def running(guest: Guest, host: Address) -> bool:
    return remote.run(host, ["systemctl", "is-active", "--quiet", guest.name]).returncode == 0


def console(guest: Guest, host: Address) -> str:
    return remote.run(host, ["cat", f"{directory(guest)}/console"]).stdout.decode(errors="replace")


def wait_for_boot(guest: Guest, host: Address, address: Address, other_than: str = "") -> None:
    """Waits until the agent answers in a boot other than the given one."""
    deadline = time.monotonic() + BOOT_S
    while True:
        try:
            if boot_id(address, PATIENCE_S) != other_than:
                return
            reason = "it does not go down"
            time.sleep(0.2)
        except remote.Unreachable as error:
            reason = str(error)
        if not running(guest, host):
            raise VmError(guest.name, "QEMU has died", console(guest, host))
        if time.monotonic() > deadline:
            raise VmError(guest.name, f"not up after {BOOT_S:.0f} s: {reason}", console(guest, host))


def wait_for_device(guest: GuestNames, address: Address, shape: Shape) -> None:
    driver, device = ("vmw_pvrdma", "vmw_pvrdma0") if shape.has_pvrdma(guest) else ("vrdma_ib", "vrdma0")
    script(guest.name, address, AWAIT_DEVICE, "find its device", DRIVER=driver, DEVICE=device)
