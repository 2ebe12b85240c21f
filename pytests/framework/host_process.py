# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Processes of the host that have a mediated device, in the place of guests."""

import shlex
from functools import cached_property

from .lab import GUEST_PROGRAMS, Machine
from .mdev import Mdev
from .native import Owner
from .process import Process


class HostProcess(Owner):
    """A process of the lab's host, named by its IPv4 address; its IPv6 address ends with the same number."""

    def __init__(self, host: Machine, mdev: Mdev, address: str) -> None:
        super().__init__(host.lab, address, {4: address, 6: f"fd77::{int(address.split('.')[-1]):x}"})
        self.host = host
        self.mdev = mdev
        self.run_as = ""  # a command that executes another

    def watch(self, command: str) -> Process:
        addresses = " ".join(f"--address {address}" for address in self.addresses.values())
        run = f"vrdma-run --device {self.mdev.path} {addresses} -- {command}"
        return self.host.watch(f"{self.run_as} {run}")

    @cached_property
    def programs(self) -> str:
        return self.host.bring(GUEST_PROGRAMS)

    @cached_property
    def group(self) -> str:
        """VFIO's file of the device: a user that may open it may use the device."""
        return "/dev/vfio/" + self.host.script(f"basename $(readlink {self.mdev.path}/iommu_group)").stdout.strip()

    def tries(self, run_as: str = "", path: str = "") -> str:
        """The error message of a program that tries to open the device and fails."""
        command = ["vrdma-run", "--device", path or self.mdev.path, "ibv_devinfo"]
        result = self.host.run(f"{run_as} {shlex.join(command)}", check=False)
        assert result.status != 0
        return result.stderr
