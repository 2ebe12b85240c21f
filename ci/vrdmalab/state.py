# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The state of a lab that is up, kept in the lab's directory for later commands."""

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from . import topology
from .errors import LabError
from .paths import PROJECT
from .process import Process
from .remote import Address
from .topology import Guest, Host, Shape

CACHE = PROJECT / "build/lab/cache"


def lab_directory() -> Path:
    return Path(os.environ.get("VRDMA_LAB_DIR") or PROJECT / "build/lab/default").absolute()


def stage_directory() -> Path:
    return Path(os.environ.get("VRDMA_STAGE") or PROJECT / "build/stage").absolute()


@dataclass
class State:
    """Written before each VM starts, so that `down` finds the VMs of an `up` that was killed."""

    directory: Path
    shape: Shape
    token: str
    image: str
    with_vrdma: bool = False
    ready: bool = False
    processes: dict[Host, Process] = field(default_factory=dict)
    ports: dict[Host, int] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)  # guests that are not on the host where they booted first

    @property
    def share(self) -> Path:
        return self.directory / "share"

    @property
    def hosts(self) -> list[Host]:
        return topology.hosts(self.shape)

    @property
    def guests(self) -> list[Guest]:
        return [Guest(guest.index, Host(self.moved.get(guest.index, guest.host.index)))
                for guest in topology.guests(self.shape)]

    def find(self, name: str) -> Host | Guest:
        vms: list[Host | Guest] = [*self.hosts, *self.guests]
        for vm in vms:
            if vm.name == name:
                return vm
        raise LabError(f"there is no {name} in this lab; see: ci/lab status")

    def address(self, vm: Host | Guest) -> Address:
        host, cid = (vm.host, vm.cid) if isinstance(vm, Guest) else (vm, None)
        if not self.ports.get(host):
            raise LabError(f"{host.name} did not come up; see: ci/lab logs {host.name}")
        return Address(self.ports[host], self.token, cid)

    def save(self) -> None:
        document = {
            "shape": dataclasses.asdict(self.shape), "token": self.token, "image": self.image,
            "vrdma": self.with_vrdma, "ready": self.ready, "moved": list(self.moved.items()),
            "hosts": [{**dataclasses.asdict(process), "port": self.ports.get(host, 0)}
                      for host, process in self.processes.items()],
        }  # fmt: skip
        fresh = self.directory / "state.new"
        fresh.write_text(json.dumps(document, indent=1), encoding="ascii")
        fresh.chmod(0o600)
        fresh.rename(self.directory / "state.json")


def load(directory: Path) -> State | None:
    """None if no lab is up there."""
    try:
        document = json.loads((directory / "state.json").read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    fields = document["shape"]
    for name in ("packages", "guest_releases"):
        fields[name] = tuple(fields[name])
    shape = Shape(**fields)
    state = State(directory, shape, document["token"], document["image"], document["vrdma"], document["ready"])
    state.moved = dict(document["moved"])
    for index, entry in enumerate(document["hosts"]):
        host = state.hosts[index]
        state.processes[host] = Process(entry["pid"], entry["started"])
        state.ports[host] = entry["port"]
    return state


def current() -> State:
    state = load(lab_directory())
    if not state:
        raise LabError("the lab is not up; start it with: ci/lab up")
    return state
