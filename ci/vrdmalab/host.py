# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The host VMs: processes of this machine, each with the hypervisor and the mediator under test inside."""

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import remote
from .common import COMMON_KERNEL_ARGUMENTS, boot_id, script
from .errors import LabError, VmError
from .kernels import Kernel
from .newer_qemu import Qemu
from .process import Process
from .qmp import Qmp
from .remote import Address
from .topology import Host, Shape

BOOT_S = 300.0
# Units that a lab does not need. Each process that starts costs tens of milliseconds.
MASKED = (
    "dev-hugepages.mount", "dev-mqueue.mount", "getty-static.service", "getty@tty1.service",
    "kmod-static-nodes.service", "modprobe@configfs.service", "modprobe@dm_mod.service", "modprobe@drm.service",
    "modprobe@efi_pstore.service", "modprobe@fuse.service", "modprobe@loop.service",
    "proc-sys-fs-binfmt_misc.automount", "serial-getty@ttyS0.service", "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount", "sys-kernel-tracing.mount", "systemd-binfmt.service",
    "systemd-journal-flush.service", "systemd-random-seed.service", "systemd-remount-fs.service",
    "systemd-sysctl.service", "systemd-sysusers.service", "systemd-tmpfiles-setup-dev.service",
    "systemd-udev-trigger.service", "systemd-update-utmp.service", "systemd-user-sessions.service",
)  # fmt: skip
KERNEL_ARGUMENTS = (
    f"{COMMON_KERNEL_ARGUMENTS} loglevel=5 lab.init=/usr/lib/systemd/systemd systemd.show_status=false "
    "systemd.wants=vrdma-lab.service " + " ".join(f"systemd.mask={unit}" for unit in MASKED)
)
ACCELERATORS = {
    "kvm": ["-accel", "kvm", "-cpu", "host"],
    # Page tables of five levels would make each walk longer, and a nested walk by half. The emulator moves strings by
    # the byte if a program chooses these instructions for speed (erms, fsrm): zeroing memory takes six times as long.
    # Switches of access to users' memory (smap, pku) end a translated block. Without all these Python starts in two
    # thirds of the time.
    "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max,la57=off,erms=off,fsrm=off,smap=off,pku=off"],
}


def console(directory: Path, host: Host) -> Path:
    return directory / f"{host.name}.console"


def processor_log(directory: Path, host: Host) -> Path:
    """QEMU's log of the host's emulated processors: their state at each reset. The first reset begins the log."""
    return directory / f"{host.name}.processors"


def last_words(directory: Path, host: Host) -> str:
    """The console. After a triple fault, which a kernel cannot report, also the state of the processors."""
    said = console(directory, host).read_text(errors="replace")
    log = processor_log(directory, host)
    _, fault, state = (log.read_text(errors="replace") if log.exists() else "").partition("Triple fault")
    return f"{said}\n{fault}{state}" if fault else said


def cables(shape: Shape) -> dict[Host, list[socket.socket]]:
    """A socket pair for each pair of hosts: a full mesh, so that no host carries the others' traffic.

    The sockets are local datagram sockets: they keep the borders of frames, and need no acknowledgements.
    """
    ends: dict[Host, list[socket.socket]] = {Host(index): [] for index in range(shape.hosts)}
    for left in ends:
        for right in ends:
            if left.index < right.index:
                pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
                ends[left].append(pair[0])
                ends[right].append(pair[1])
    return ends


def common_arguments(directory: Path, host: Host, accelerator: str) -> list[str]:
    """What all VMs have that are processes of this machine: console, monitor, and a door for commands."""
    return [
        "-nodefaults", "-no-user-config", "-display", "none", *ACCELERATORS[accelerator],
        "-chardev", f"file,id=console,path={console(directory, host).name},append=on", "-serial", "chardev:console",
        "-qmp", f"unix:{host.name}.qmp,server=on,wait=off",
        "-netdev", f"user,id=door,ipv6=off,restrict=on,hostfwd=tcp:127.0.0.1:0-10.0.2.15:{remote.AGENT_PORT}",
        "-device", "virtio-net-pci,netdev=door,romfile=",
        "-device", "pvpanic-pci", "-action", "panic=exit-failure",
    ]  # fmt: skip


def launch(directory: Path, host: Host, command: list[str], fds: Sequence[int] = (),
           environment: dict[str, str] | None = None) -> subprocess.Popen:
    """Starts QEMU in the lab's directory. QEMU continues to run after this process."""
    console(directory, host).unlink(missing_ok=True)
    with open(console(directory, host), "ab") as log:
        return subprocess.Popen(command, cwd=directory, env={**os.environ, **(environment or {})}, pass_fds=fds,
                                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def start(directory: Path, host: Host, shape: Shape, kernel: Kernel, disks: list[Path], qemu: Qemu, accelerator: str,
          ends: list[socket.socket]) -> subprocess.Popen:
    arguments = f"{KERNEL_ARGUMENTS} lab.name={host.name} systemd.hostname={host.name}"
    command = [
        *qemu.command, "-name", f"vrdma-{host.name}", *common_arguments(directory, host, accelerator),
        "-no-reboot", "-smp", str(shape.cpus_of_host), "-m", str(shape.host_memory),
        "-kernel", str(kernel.vmlinux), "-initrd", str(kernel.initrd), "-append", arguments,
        "-fsdev", "local,id=lab,path=share,security_model=none,readonly=on",
        "-device", "virtio-9p-pci,fsdev=lab,mount_tag=lab",
        "-d", "cpu_reset", "-D", processor_log(directory, host).name,
    ]  # fmt: skip
    for number, disk in enumerate(disks):
        command += ["-drive", f"if=none,id=disk{number},file={disk},format=raw,readonly=on"]
        command += ["-device", f"virtio-blk-pci,drive=disk{number}"]
    for number, end in enumerate(ends):
        mac = f"52:54:00:77:{0x10 + host.index:02x}:{number:02x}"
        command += ["-netdev", f"dgram,id=cable{number},local.type=fd,local.str={end.fileno()}"]
        command += ["-device", f"virtio-net-pci,netdev=cable{number},mac={mac},romfile="]
    return launch(directory, host, command, [end.fileno() for end in ends], qemu.environment)


@contextmanager
def monitor(directory: Path, host: Host, timeout: float = 10.0) -> Iterator[Qmp]:
    """A connection to the host's QEMU. The path uses a descriptor, because socket paths have at most 107 bytes."""
    base = os.open(directory, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(timeout)
            sock.connect(f"/proc/self/fd/{base}/{host.name}.qmp")
            yield Qmp(sock, timeout)
    finally:
        os.close(base)


def allow_reboot(directory: Path, host: Host) -> None:
    """Lets the host reboot instead of ending its QEMU, as it should if a fault resets it."""
    with monitor(directory, host) as qmp:
        qmp.execute("set-action", reboot="reset")


def wait_for_port(directory: Path, host: Host, process: Process) -> int:
    """The port that QEMU has chosen for the host's agent."""
    deadline = time.monotonic() + 20
    while True:
        try:
            with monitor(directory, host) as qmp:
                networks = qmp.human("info usernet")
            break
        except OSError:
            _check_alive(directory, host, process, deadline, "QEMU does not open its monitor")
            time.sleep(0.02)
    match = re.search(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)", networks)
    if not match:
        raise LabError(f"{host.name}: QEMU forwards no port:\n{networks}")
    return int(match[1])


def wait_for_boot(directory: Path, host: Host, process: Process, address: Address, other_than: str = "") -> None:
    """Waits until the agent answers in a boot other than the given one."""
    deadline = time.monotonic() + BOOT_S
    while True:
        try:
            if boot_id(address) != other_than:
                return
            reason = "it does not go down"
        except remote.Unreachable as error:
            reason = str(error)
        _check_alive(directory, host, process, deadline, f"not up after {BOOT_S:.0f} s ({reason})")
        time.sleep(0.25)


def _check_alive(directory: Path, host: Host, process: Process, deadline: float, complaint: str) -> None:
    if not process.alive():
        raise VmError(host.name, "QEMU has died", last_words(directory, host))
    if time.monotonic() > deadline:
        raise VmError(host.name, complaint, last_words(directory, host))


PREPARE = """
vendor=$(grep -qw svm /proc/cpuinfo && echo amd || echo intel)
modprobe -a "kvm-$vendor" vhost_net vhost_vsock tun bridge vfio vfio_iommu_type1 mdev irqbypass
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
ip link add br0 address "$MAC" type bridge forward_delay 0 mcast_snooping 0
if [ -n "$UPLINK" ] && [ ! -e /sys/class/net/"$UPLINK" ]; then
    # It sends by all cables. What came by one cable never leaves by another, so the mesh has no loops.
    modprobe bonding max_bonds=0
    ip link add "$UPLINK" type bond mode broadcast
    for nic in /sys/class/net/eth*; do
        nic=${nic##*/}
        [ "$nic" = eth0 ] || ip link set "$nic" down master "$UPLINK"
    done
fi
[ -z "$UPLINK" ] || ip link set "$UPLINK" master br0 up
for tap in $TAPS; do
    ip tuntap add "$tap" mode tap vnet_hdr
    ip link set "$tap" master br0 up
done
ip address add "$IPV4/16" dev br0
ip address add "$IPV6/64" dev br0
ip link set br0 up
mkdir -p /run/vrdma-lab
"""

START_MEDIATOR = """
systemd-sysusers
if systemctl start vrdmad; then
    set -- /sys/class/mdev_bus/*/mdev_supported_types/vrdma-"$TYPE"
    [ ! -d "$1" ] || exit 0
fi
echo "no mdev type *-$TYPE appears under /sys/class/mdev_bus; vrdmad and the kernel say:" >&2
journalctl -q --no-pager -n 30 -u vrdmad >&2
dmesg | tail -n 15 >&2
exit 1
"""


def prepare(host: Host, address: Address, taps: list[str], uplink: str) -> None:
    """Loads the hypervisor and sets up the virtual Ethernet. The uplink is the interface to other hosts, if any."""
    script(host.name, address, PREPARE, "prepare", MAC=host.mac, IPV4=host.ipv4, IPV6=host.ipv6, TAPS=" ".join(taps),
           UPLINK=uplink)


def start_mediator(host: Host, address: Address, mdev_type: str) -> None:
    script(host.name, address, START_MEDIATOR, "start vrdmad", TYPE=mdev_type)
