# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Names and addresses of a lab's VMs, all derived from its shape."""

import os
import uuid
from dataclasses import dataclass
from string import ascii_lowercase

from . import releases
from .releases import RELEASES

MAX_HOSTS = 8
MAX_GUESTS = 32
# A host's first interface to other hosts, and the one that joins all of them; eth0 is for its commands.
FIRST_CABLE = "eth1"
ALL_CABLES = "cables"
# The system of guests with VMware's device.
PVRDMA = "pvrdma"
_UUIDS = uuid.UUID("6a1b0d9e-7d0c-4c6e-9d39-76726d610000")


@dataclass(frozen=True)
class Shape:
    """The options of `up`. A lab that is up is used again only for the same options."""

    hosts: int = 1
    guests: int = 2
    packages: tuple[str, ...] = ()
    guest_cpus: int = 1
    guest_memory: int = 768
    host_cpus: int | None = None
    type: str = "medium"
    host_kernel: str | None = None  # a directory (kernels.py), or None for the image's
    guest_kernel: str | None = None
    host_release: str = releases.OWN
    guest_releases: tuple[str, ...] = (releases.OWN,)  # of guest0, guest1 and so on, and again from the first
    movable: bool = False  # guests can move between hosts, which needs a newer QEMU
    sockets: str | None = None  # the directory of the sockets of guests without hosts
    pvrdma: str | None = None  # their devices are VMware's, and this is the driver (ci/pvrdma-module)
    pvrdma_guests: int | None = None  # only those of so many guests, from guest0 on
    iommufd: bool = False  # the guests' monitors open devices by /dev/iommu, which the hosts' kernel must have

    @property
    def cpus_of_host(self) -> int:
        """All hosts together have as many processors as the machine, so that only the machine's scheduler decides which
        one runs. If there are more emulated processors than real ones, one that is woken waits until the machine's next
        tick puts it on a core (2 to 4 ms). Two hosts with two processors on two cores took twice as long to boot, and
        one and a half times as long for a message."""
        return self.host_cpus or max(1, min(4, (os.cpu_count() or 1) // self.hosts))

    @property
    def host_memory(self) -> int:
        """In MiB: the host's own needs, and each guest's RAM and QEMU. A kernel that is not the image's is in RAM with
        its modules, and a debugging kernel has a shadow of the rest."""
        guests = self.guests * (self.hosts if self.movable else 1)
        needs = 1536 + guests * (self.guest_memory + 192)
        return needs if self.kernels_of_image else needs + 1024

    def memory_of(self, vm: "Host") -> int:
        return self.guest_memory if isinstance(vm, SocketGuest) else self.host_memory

    @property
    def kernels_of_image(self) -> bool:
        own = {self.host_release, *self.guest_releases} == {releases.OWN}
        return own and not self.host_kernel and not self.guest_kernel

    @property
    def userlands(self) -> list[str]:
        """The releases whose disks a host has: its own, and those of its guests."""
        return list(dict.fromkeys(RELEASES[release].userland for release in (self.host_release, *self.guest_releases)))

    def disk(self, release: str) -> str:
        """The host's device with the disk of guests of the release. It may be the host's own disk."""
        return "/dev/vd" + ascii_lowercase[self.userlands.index(RELEASES[release].userland)]

    def release(self, guest: "GuestNames") -> str:
        return self.guest_releases[guest.index % len(self.guest_releases)]

    def has_pvrdma(self, guest: "GuestNames") -> bool:
        return self.pvrdma is not None and (self.pvrdma_guests is None or guest.index < self.pvrdma_guests)

    def type_of(self, guest: "GuestNames") -> str:
        return f"pvrdma-{self.type}" if self.has_pvrdma(guest) else self.type

    def system(self, guest: "GuestNames") -> str:
        """What the guest boots: its release, or one without anything of vrdma's."""
        return PVRDMA if self.has_pvrdma(guest) else self.release(guest)


@dataclass(frozen=True)
class Host:
    index: int

    @property
    def name(self) -> str:
        return f"host{self.index}"

    @property
    def mac(self) -> str:
        return f"52:54:00:77:00:{self.index + 1:02x}"

    @property
    def ipv4(self) -> str:
        return f"10.77.0.{self.index + 1}"

    @property
    def ipv6(self) -> str:
        return f"fd77::{self.index + 1:x}"


class GuestNames:
    """The name and the addresses of a guest, wherever it runs."""

    index: int

    @property
    def name(self) -> str:
        return f"guest{self.index}"

    @property
    def mac(self) -> str:
        return f"52:54:00:77:01:{self.index + 1:02x}"

    @property
    def ipv4(self) -> str:
        return f"10.77.1.{self.index + 1}"

    @property
    def ipv6(self) -> str:
        return f"fd77::1:{self.index + 1:x}"


@dataclass(frozen=True)
class Guest(GuestNames):
    index: int
    host: Host

    @property
    def cid(self) -> int:
        """The address of its agent on the host's vsock; 0 to 2 are reserved."""
        return 100 + self.index

    @property
    def uuid(self) -> str:
        """The UUID of its mdev: the same in every lab, so that commands can be repeated from a note."""
        return str(uuid.uuid5(_UUIDS, self.name))


@dataclass(frozen=True)
class SocketGuest(GuestNames, Host):
    """A guest that runs as hosts do, as a process of this machine. Its device is behind a socket."""


def hosts(shape: Shape) -> list[Host]:
    """The VMs that are processes of this machine."""
    if shape.sockets:
        return [SocketGuest(index) for index in range(shape.guests)]
    return [Host(index) for index in range(shape.hosts)]


def guests(shape: Shape) -> list[Guest]:
    """The guests, on the hosts where they boot."""
    if shape.sockets:
        return []
    return [Guest(index, Host(index // shape.guests)) for index in range(shape.hosts * shape.guests)]


def hosts_file(shape: Shape) -> str:
    """The text of /etc/hosts in every VM."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    vms: list[Host | Guest] = [*hosts(shape), *guests(shape)]
    for vm in vms:
        lines += [f"{vm.ipv4} {vm.name}", f"{vm.ipv6} {vm.name}"]
    return "\n".join(lines) + "\n"


def uplink(shape: Shape) -> str:
    """The interface of a host that leads to all others; empty without others."""
    return ["", "", FIRST_CABLE, ALL_CABLES][min(shape.hosts, 3)]


def mediator_config(shape: Shape) -> str:
    """The text of vrdmad.conf on every host, or nothing to keep the installed one."""
    interface = uplink(shape)
    if not interface:
        return ""
    vlans = 'vlans = ["1-4094"]\n'
    types = dict.fromkeys(shape.type_of(guest) for guest in guests(shape))
    bindings = [f'\n[types.{name}]\nuplink = "{interface}"\n{vlans}' for name in types]
    return f'[[uplink]]\ninterface = "{interface}"\n{vlans}{"".join(bindings)}'


def addresses_on_uplink(shape: Shape) -> str:
    """The addresses that devices may have there: any private address, because tests give guests some. Without uplinks
    there is no restriction."""
    return "10.0.0.0/8,fc00::/7" if mediator_config(shape) else ""
