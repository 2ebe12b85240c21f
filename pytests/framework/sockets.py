# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Guests whose devices are behind sockets of a vrdmad on this machine: two QEMUs beside it, without a host."""

import subprocess

from .health import Kernels
from .lab import PROJECT, Guest, Lab
from .native import Native, NativeHealth
from .process import Process, Record


PVRDMA_DEVICE = "vmw_pvrdma0"


def pvrdma_options() -> list[str]:
    """Options for a lab whose guests have VMware's device."""
    module = subprocess.run([PROJECT / "ci/pvrdma-module"], check=True, stdout=subprocess.PIPE, text=True)
    return ["--pvrdma", module.stdout.strip()]


class NoWires:
    """The guests have a network of their own, and their devices need none."""

    def up(self) -> None:
        pass

    def down(self) -> None:
        pass


class Sockets(Native):
    clients = 1
    addresses = {f"guest{number}": {4: f"10.77.1.{number + 1}", 6: f"fd77::1:{number + 1}"} for number in (0, 1)}

    def __init__(self, record: Record, options: list[str]) -> None:
        super().__init__(record, NoWires())
        self.lab = Lab(PROJECT / "build/lab/pytests-sockets", record, ours=True,
                       shape=("--sockets", self._directory.name, *options))

    def up(self) -> None:
        super().up()
        self.lab.down()  # left by a run that was interrupted
        self.lab.up()

    def down(self) -> None:
        self.lab.down()
        super().down()

    def start(self, title: str, *arguments: str) -> Process:
        return self.lab.start(title, *arguments)

    def guest(self, number: int) -> Guest:
        return Guest(self, f"guest{number}")

    def _allowed(self, _name: str) -> list[str]:
        """Any address, as tests give guests some."""
        return ["0.0.0.0/0", "::/0"]

    def _binding(self, name: str) -> str:
        """The MAC address of the guest's NIC."""
        return f'mac = "52:54:00:77:01:0{int(name.removeprefix("guest")) + 1}"\n'


class PvrdmaSockets(Sockets):
    """Their devices are VMware's. Linux's driver and Debian's provider are in the guests."""

    def __init__(self, record: Record, options: list[str]) -> None:
        super().__init__(record, [*pvrdma_options(), *options])

    def _binding(self, name: str) -> str:
        return f'{super()._binding(name)}personality = "pvrdma"\n'


class SocketsHealth(NativeHealth):
    """Watches vrdmad, and the kernels of the guests."""

    def __init__(self, place: Sockets, guests: list[Guest]) -> None:
        super().__init__(place)
        self._guests = guests
        self._kernels = Kernels()
        for guest in guests:
            guest.after_boot.append(self._kernels.follow)
            self._kernels.follow(guest)

    def begin(self) -> None:
        for guest in self._guests:
            if self._kernels.down(guest.name):
                guest.booted()

    def collect(self) -> None:
        super().collect()
        self.new |= self._kernels.new_lines()

    def complaints(self) -> list[str]:
        return [*super().complaints(), *self._kernels.complaints(self.new)]

    def close(self) -> None:
        self._kernels.close()
