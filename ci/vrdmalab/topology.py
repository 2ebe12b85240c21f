# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Names and addresses of a lab's VMs, all of which follow from its shape."""

import os
import uuid
from dataclasses import dataclass

from .errors import LabError

MAX_HOSTS = 8
MAX_GUESTS = 32
# A host's interface; eth0 is where its commands come from.
FIRST_CABLE = "eth1"
_UUIDS = uuid.UUID("6a1b0d9e-7d0c-4c6e-9d39-76726d610000")


@dataclass(frozen=True)
class Shape:
    """What `up` was asked for; a lab that is up is reused only by the same request."""

    hosts: int = 1
    guests: int = 2
    packages: tuple[str, ...] = ()
    guest_cpus: int = 1
    guest_memory: int = 768
    host_cpus: int | None = None
    type: str = "medium"
    host_kernel: str | None = None  # directories (kernels.py); without one, the image's
    guest_kernel: str | None = None
    movable: bool = False  # from host to host, which a newer QEMU can

    @property
    def cpus_of_host(self) -> int:
        """All hosts together as many as there are, so that the host's scheduler is the only one that chooses who runs: of
        more emulated processors than real ones, one that is woken waits until the machine's next tick puts it on a core
        (2 to 4 ms), and two hosts with two on two cores took twice as long to boot and half again as long for a message."""
        return self.host_cpus or max(1, min(4, (os.cpu_count() or 1) // self.hosts))

    @property
    def host_memory(self) -> int:
        """MiB: the host's own needs, and each guest's RAM with QEMU around it. A kernel that is not the image's lies in
        RAM with its modules, and one for debugging has a shadow of the rest."""
        guests = self.guests * (self.hosts if self.movable else 1)
        needs = 1536 + guests * (self.guest_memory + 192)
        return needs + 1024 if self.host_kernel or self.guest_kernel else needs


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


@dataclass(frozen=True)
class Guest:
    index: int
    host: Host

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

    @property
    def cid(self) -> int:
        """The address of its agent on the host's vsock; 0 to 2 are reserved."""
        return 100 + self.index

    @property
    def uuid(self) -> str:
        """Of its mdev: the same in every lab, so that commands can be repeated from a note."""
        return str(uuid.uuid5(_UUIDS, self.name))


def hosts(shape: Shape) -> list[Host]:
    return [Host(index) for index in range(shape.hosts)]


def guests(shape: Shape) -> list[Guest]:
    """Where they boot."""
    return [Guest(index, Host(index // shape.guests)) for index in range(shape.hosts * shape.guests)]


def hosts_file(shape: Shape) -> str:
    """The text of /etc/hosts in every VM."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    for vm in [*hosts(shape), *guests(shape)]:
        lines += [f"{vm.ipv4} {vm.name}", f"{vm.ipv6} {vm.name}"]
    return "\n".join(lines) + "\n"


def mediator_config(shape: Shape) -> str:
    """The text of vrdmad.conf on every host, or nothing for the one that is installed. Two hosts have one cable, and their
    devices talk through it; of several cables none leads to all the others."""
    if shape.hosts != 2:
        return ""
    vlans = 'vlans = ["1-4094"]\n'
    return f'[[uplink]]\ninterface = "{FIRST_CABLE}"\n{vlans}\n[types.{shape.type}]\nuplink = "{FIRST_CABLE}"\n{vlans}'


def addresses_on_uplink(shape: Shape) -> str:
    """What devices may have there: any private address, as tests give guests some. Without uplinks nothing needs to be said."""
    return "10.0.0.0/8,fc00::/7" if mediator_config(shape) else ""
