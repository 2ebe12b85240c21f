# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Mediated devices on the host, through sysfs."""

from dataclasses import dataclass
from functools import cached_property

from .lab import TIMEOUT_S, Guest, Machine

TYPES = "/sys/class/mdev_bus/vrdma/mdev_supported_types"
DEVICES = "/sys/bus/mdev/devices"
DEVICE_ADD = "device_add vfio-pci,id=vrdma,sysfsdev=/sys/bus/mdev/devices/{}"  # to QEMU's monitor


@dataclass(frozen=True)
class MdevType:
    host: Machine
    name: str

    @property
    def path(self) -> str:
        return f"{TYPES}/vrdma-{self.name}"

    def attribute(self, name: str) -> str:
        return self.host.read(f"{self.path}/{name}").strip()

    @property
    def available(self) -> int:
        return int(self.attribute("available_instances"))

    def create(self, uuid: str, check: bool = True):
        return self.host.script(f"echo {uuid} >{self.path}/create", check=check)


@dataclass(frozen=True)
class Mdev:
    host: Machine
    uuid: str

    @property
    def path(self) -> str:
        return f"{DEVICES}/{self.uuid}"

    @property
    def exists(self) -> bool:
        return self.host.run(f"test -e {self.path}", check=False).status == 0

    @property
    def pinned(self) -> int:
        """Bytes of the guest's memory that are pinned."""
        return int(self.host.read(f"{self.path}/pinned"))

    def await_unpinned(self) -> None:
        self.host.script(f"until [ $(cat {self.path}/pinned) = 0 ]; do sleep 0.05; done", timeout=TIMEOUT_S)

    @cached_property
    def mac(self) -> str:
        return self.host.read(f"{self.path}/mac").strip()

    def make_again(self, host: Machine) -> None:
        """Makes one with the same UUID, type and attributes on another host, as its administrator would."""
        kind = self.host.run(f"readlink {self.path}/mdev_type").stdout.strip().rpartition("vrdma-")[2]
        MdevType(host, kind).create(self.uuid)
        for attribute in ("mac", "addresses"):
            value = self.host.read(f"{self.path}/{attribute}").strip()
            host.script(f"echo '{value}' >{DEVICES}/{self.uuid}/{attribute}")

    def remove(self, timeout: float = TIMEOUT_S) -> None:
        self.host.script(f"echo 1 >{self.path}/remove", timeout)


def mdev_of(host: Machine, guest: Guest) -> Mdev:
    """The device that carries the MAC of the guest's NIC."""
    found = host.script(f"grep -l '^{guest.mac}$' {DEVICES}/*/mac").stdout.split()
    assert len(found) == 1, found
    return Mdev(host, found[0].split("/")[-2])
