# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Guests without a host of the lab: processes of this machine, beside a vrdmad that somebody else runs.

Each has a device behind a socket of that vrdmad.
"""

import json
import subprocess
from pathlib import Path

from . import guest as guests
from . import host as hosts
from .errors import LabError
from .kernels import Kernel
from .newer_qemu import NEWER
from .topology import Shape, SocketGuest

# The guests' Ethernet is one cable.
MAX_GUESTS = 2
DOOR = "eth1"


def check(shape: Shape) -> None:
    if shape.pvrdma_guests is not None and not shape.pvrdma:
        raise LabError("--pvrdma-guests needs --pvrdma")
    if not shape.sockets:
        return
    if shape.guests > MAX_GUESTS or shape.hosts > 1 or shape.movable:
        raise LabError(f"--sockets takes at most {MAX_GUESTS} --guests, and neither --hosts nor --movable")
    for index in range(shape.guests):
        path = Path(socket(shape, SocketGuest(index)))
        if not path.is_socket():
            raise LabError(f"--sockets: {path} is no socket; a vrdmad has to serve it before the lab comes up")


def socket(shape: Shape, guest: SocketGuest) -> str:
    return f"{shape.sockets}/{guest.name}.sock"


def _cable(guest: SocketGuest) -> str:
    """The guest's end of the cable, and the other guest's."""
    ends = [f"{end}.type=unix,{end}.path=guest{index}.cable"
            for end, index in (("local", guest.index), ("remote", 1 - guest.index))]
    return f"dgram,id=lan,{','.join(ends)}"


def _nic(guest: SocketGuest, shape: Shape) -> str:
    return f"{guests.nic(guest, shape)},netdev=lan,mac={guest.mac},romfile="


def _device(guest: SocketGuest, shape: Shape) -> str:
    device: dict[str, object] = {"driver": "vfio-user-pci", "id": "vrdma",
                                 "socket": {"type": "unix", "path": socket(shape, guest)}}
    if shape.has_pvrdma(guest):
        device |= {"addr": guests.PVRDMA_SLOT, "x-no-posted-writes": True}
    return json.dumps(device)


def start(directory: Path, guest: SocketGuest, shape: Shape, kernel: Kernel, disk: Path, accelerator: str,
          with_vrdma: bool) -> subprocess.Popen:
    """Starts QEMU in the lab's directory. The device reaches only memory that QEMU shares.

    If the VM could have one processor only, QEMU's emulator would execute locked instructions as ordinary ones. They
    are the driver's fences, and vrdmad is on another processor: a kick would be lost now and then.
    """
    command = [
        *NEWER.command, "-name", f"vrdma-{guest.name}", "-machine", "pc,memory-backend=ram",
        "-object", f"memory-backend-memfd,id=ram,size={shape.guest_memory}M,share=on", "-m", str(shape.guest_memory),
        "-smp", f"{shape.guest_cpus},maxcpus={shape.guest_cpus + 1}",
        "-kernel", str(kernel.vmlinux), "-initrd", str(kernel.initrd),
        "-append", f"{guests.kernel_arguments(guest)} lab.door={DOOR}",
        "-drive", f"if=none,id=root,file={disk},format=raw,readonly=on", "-device", "virtio-blk-pci,drive=root",
        "-fsdev",
        f"local,id=lab,path=share/guests/{shape.system(guest)},security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=lab,mount_tag=lab",
        "-netdev", _cable(guest), "-device", _nic(guest, shape),
        *hosts.common_arguments(directory, guest, accelerator),
    ]  # fmt: skip
    if with_vrdma:
        command += ["-device", _device(guest, shape)]
    return hosts.launch(directory, guest, command, environment=NEWER.environment)
