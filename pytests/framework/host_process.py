# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Processes of the host that have a mediated device, in the place of guests."""

import shlex
from functools import cached_property

from .lab import GUEST_PROGRAMS, Gid, Guest, Machine
from .mdev import Mdev
from .native import gids_of
from .process import Process


class HostProcess(Guest):
    """A side of a conversation, by the name of its address. Only one process at a time can have its device."""

    def __init__(self, host: Machine, mdev: Mdev, address: str) -> None:
        super().__init__(host.lab, address)
        self.host = host
        self.mdev = mdev
        self.run_as = ""  # a command that executes another

    def watch(self, command: str) -> Process:
        run = f"vrdma-run --device {self.mdev.path} --address {self.name} -- {command}"
        return self.host.watch(f"{self.run_as} {run}")

    @cached_property
    def programs(self) -> str:
        self.host.copy(GUEST_PROGRAMS, "/root/")
        return "/root/guest"

    @cached_property
    def gids(self) -> dict[str, list[Gid]]:
        return {"vrdma0": gids_of(self.name)}

    @cached_property
    def group(self) -> str:
        """The file that VFIO has of the device: who may open it may use the device."""
        return "/dev/vfio/" + self.host.script(f"basename $(readlink {self.mdev.path}/iommu_group)").stdout.strip()

    def tries(self, run_as: str = "", path: str = "") -> str:
        """What a program says that tries to open the device and cannot."""
        command = ["vrdma-run", "--device", path or self.mdev.path, "ibv_devinfo"]
        result = self.host.run(f"{run_as} {shlex.join(command)}", check=False)
        assert result.status != 0
        return result.stderr
