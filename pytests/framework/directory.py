# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Two hosts that find each other only by a directory, which is in an etcd on the first host."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from .authority import Authority
from .children import children_of, command_of
from .etcd import Etcd
from .fabric import PORT, FabricHosts
from .hosts import Hosts
from .lab import TIMEOUT_S
from .process import Failure, Process, Record

FABRIC = """
[[fabric]]
name = "wan"
host = "{host}"
listen = "{address}:{port}"
certificate_file = "{credentials.certificate}"
private_key_file = "{credentials.key}"
ca_file = "{credentials.ca}"
[fabric.directory]
endpoints = ["{etcd}"]
"""


def until(so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not so():
        if time.monotonic() > deadline:
            raise Failure(f"not within {TIMEOUT_S:.0f} s: {what}")
        time.sleep(0.1)


class DirectoryHosts(FabricHosts):
    """Hosts that have their own addresses. Each may also have an address that moves between them."""

    addresses = {f"10.98.1.{number}": {4: f"10.98.1.{number}", 6: f"fd98:1::{number}"} for number in (1, 2)}
    moving = "10.98.1.50"

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        first = next(iter(self.addresses))
        self.etcd = Etcd(first, self._within(first))
        self.has_moving: str | None = None
        self._log: dict[str, list[str]] = {}

    def _uplink(self, name: str) -> str:
        return FABRIC.format(host=name, address=name, port=PORT, credentials=self._authority.issue(name),
                             etcd=self.etcd.url)

    def _allowed(self, name: str) -> list[str]:
        return [*super()._allowed(name), self.moving]

    def _run(self, name: str) -> list[str]:
        return [*super()._run(name), *(("--address", self.moving) if self.has_moving == name else ())]

    def up(self) -> None:
        """Starts etcd after the hosts."""
        Hosts.up(self)
        self.etcd.start()
        self.await_connections()

    def down(self) -> None:
        super().down()
        self.etcd.down()

    def kill_mediator(self, name: str) -> None:
        mediator = self.mediator_of(name)
        mediator.kill()
        self.mediators.remove(mediator)
        self.socket(name).unlink(missing_ok=True)  # its heir has removed it, if it had time

    def helper_processes(self, name: str, program: str) -> list[int]:
        """The helpers of that vrdmad: a supervisor and its worker. Waits until both have started."""
        processes: list[int] = []

        def begun() -> bool:
            supervisors = [child for child in children_of(self.mediator_of(name).pid) if command_of(child) == program]
            processes[:] = [*supervisors, *(worker for supervisor in supervisors for worker in children_of(supervisor))]
            return len(processes) == 2

        until(begun, "a supervisor and a worker")
        return processes

    def start_stranger(self, host: str, at: str) -> None:
        """Starts a vrdmad that registers itself at a host's address, with a certificate of its own authority."""
        folder = Path(self._certificates.name) / host
        folder.mkdir()
        config = FABRIC.format(host=host, address=at, port=PORT + 1, credentials=Authority(folder).issue(host),
                               etcd=self.etcd.url)
        self._start_mediator([], config, prefix=self._within(at))
        self.mediators[-1].title += f" {host}"

    def end_mediator(self, name: str) -> None:
        mediator = self.mediator_of(name)
        self.mediators.remove(mediator)
        mediator.terminate()
        mediator.wait(TIMEOUT_S)

    def mediator_of(self, name: str) -> Process:
        return next(mediator for mediator in self.mediators if mediator.title == f"vrdmad of {name}")

    def log(self, name: str) -> str:
        """All log lines of that vrdmad."""
        lines = self._log.setdefault(name, [])
        lines += self.mediator_of(name).new_lines("stderr")
        return "".join(lines)

    def gids(self, name: str) -> set[str]:
        """The GIDs that the directory has for a host."""
        return set(json.loads(self.etcd.hosts().get(name, '{"gids": {}}'))["gids"])
