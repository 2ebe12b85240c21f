# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The lab, used through its command line as people use it."""

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from .attached import AttachedProcess
from .process import Failure, Process, Record, Result

PROJECT = Path(__file__).resolve().parents[2]
GUEST_PROGRAMS = PROJECT / "pytests/guest"
UP_TIMEOUT_S = 1400  # for three tries, if one hangs
# For an emulated machine under load. A command that takes longer than this has hung.
TIMEOUT_S = 120.0
ANSWER_S = 20.0
MOVE_TIMEOUT_S = 300.0
BOOT_TIMEOUT_S = 300.0
PREFIX = {4: ":ffff:", 6: "fd77:"}  # of GIDs
LIST_GIDS = """
cd /sys/class/infiniband
grep -Hs '[1-9a-f]' */ports/1/gids/* || :
grep -Hs . */ports/1/gid_attrs/types/* || :
"""


class Place:
    """Where a test's sides are: it starts commands there."""

    record: Record

    def start(self, title: str, *arguments: str) -> Process:
        """Starts a command of ci/lab, or what takes its place."""
        raise NotImplementedError

    def do(self, *arguments: str, timeout: float = TIMEOUT_S) -> Result:
        """Runs a command of ci/lab to its end."""
        return self.record.add(self.start("ci/lab " + shlex.join(arguments), *arguments)).wait(timeout)


class Lab(Place):
    """A lab in a directory of its own, or the one that is up already and stays up."""

    def __init__(self, directory: Path, record: Record, ours: bool, shape: tuple[str, ...] = ()) -> None:
        self.record = record
        self.ours = ours
        self._shape = shape  # options of `ci/lab up`
        self.environment = {**os.environ, "VRDMA_LAB_DIR": str(directory)}

    def up(self) -> None:
        """Boots the lab. If that fails, the run ends."""
        try:
            subprocess.run([PROJECT / "ci/lab", "up", *self._shape], env=self.environment, check=True,
                           timeout=UP_TIMEOUT_S)
        except subprocess.SubprocessError as error:
            pytest.exit(f"no lab: {error}", pytest.ExitCode.TESTS_FAILED)

    def down(self) -> None:
        subprocess.run([PROJECT / "ci/lab", "down"], env=self.environment, check=True, timeout=TIMEOUT_S)

    def renew(self) -> None:
        """Boots all VMs again, whatever state they are in."""
        self.down()
        self.up()

    def guest(self, number: int) -> "Guest":
        return Guest(self, f"guest{number}")

    def describe(self, name: str) -> dict:
        """The lab's description of a VM."""
        (vm,) = [vm for vm in json.loads(self.do("status", "--json").stdout)["vms"] if vm["name"] == name]
        return vm

    def console(self, name: str) -> str:
        """The console output of a VM; empty for a guest whose host does not answer."""
        return self.start(f"ci/lab logs {name}", "logs", name).wait(TIMEOUT_S, check=False).stdout

    def start(self, title: str, *arguments: str) -> Process:
        if arguments[0] == "exec":
            name, _, *command = arguments[1:]
            return AttachedProcess(title, [name, *command], self.environment)
        return Process(title, [str(PROJECT / "ci/lab"), *arguments], self.environment)


class Machine:
    """A VM of the lab."""

    def __init__(self, lab: Place, name: str) -> None:
        self.lab = lab
        self.name = name

    def start(self, command: str) -> Process:
        """Starts a command, without a shell."""
        return self.lab.record.add(self.watch(command))

    def watch(self, command: str) -> Process:
        """Starts a command that belongs to no test."""
        return self.lab.start(f"{self.name}: {command}", "exec", self.name, "--", *shlex.split(command))

    def run(self, command: str, timeout: float = TIMEOUT_S, check: bool = True) -> Result:
        return self.start(command).wait(timeout, check)

    def script(self, text: str, timeout: float = TIMEOUT_S, check: bool = True) -> Result:
        """Runs a shell script."""
        return self.run(shlex.join(["sh", "-euc", text]), timeout, check)

    def boot_id(self) -> str:
        """The identity of this boot of its system; empty if it does not answer."""
        try:
            return self.run("cat /proc/sys/kernel/random/boot_id", ANSWER_S, check=False).stdout
        except Failure:
            return ""

    def answers(self, script: str) -> bool:
        """Whether it executes this shell script."""
        try:
            return self.script(script, ANSWER_S, check=False).status == 0
        except Failure:
            return False

    def read(self, path: str) -> str:
        return self.run(f"cat {path}").stdout

    def copy(self, source: Path, destination: str) -> None:
        self.lab.do("cp", str(source), f"{self.name}:{destination}")

    def bring(self, source: Path) -> str:
        """Copies a file to it. Returns its path there, which is valid until a reboot."""
        self.copy(source, "/root/")
        return f"/root/{source.name}"

    @cached_property
    def programs(self) -> str:
        """The directory of pytests/guest there."""
        return self.bring(GUEST_PROGRAMS)


@dataclass(frozen=True)
class Gid:
    index: int
    address: str
    type: str


class Guest(Machine):
    """A guest. Cached facts about its system are dropped when it reboots."""

    def __init__(self, lab: Place, name: str) -> None:
        super().__init__(lab, name)
        self.after_boot: list = []  # callables that are called after each boot

    @cached_property
    def gids(self) -> dict[str, list[Gid]]:
        """The GID tables of its RDMA devices."""
        text = self.script(LIST_GIDS).stdout
        values = dict(line.split(":", 1) for line in text.splitlines())
        tables: dict[str, list[Gid]] = {}
        for path, address in values.items():
            match = re.fullmatch(r"(\w+)/ports/1/gids/(\d+)", path)
            if match:
                device, index = match[1], int(match[2])
                kind = values[f"{device}/ports/1/gid_attrs/types/{index}"]
                tables.setdefault(device, []).append(Gid(index, address, kind))
        return {device: sorted(table, key=lambda gid: gid.index) for device, table in tables.items()}

    def gid(self, device: str, kind: str = "RoCE v2", family: int = 4) -> Gid:
        """The GID of its IPv4 or IPv6 address."""
        (gid,) = [gid for gid in self.gids[device] if gid.type == kind and PREFIX[family] in gid.address]
        return gid

    @cached_property
    def nic(self) -> str:
        """The network device that has the guest's address in the lab."""
        return self.script("ip -o -4 address show to 10.77.0.0/16 | cut -d' ' -f2").stdout.strip()

    @cached_property
    def mac(self) -> str:
        return self.read(f"/sys/class/net/{self.nic}/address").strip()

    @cached_property
    def function(self) -> str:
        """The directory of its vrdma function in sysfs."""
        return self.script("grep -l 0x7276 /sys/bus/pci/devices/*/vendor").stdout.strip().removesuffix("/vendor")

    def await_device(self, device: str, timeout: float = TIMEOUT_S) -> None:
        """Waits until the device is there and has the GID of its IPv4 address."""
        self.script(f"until grep -qs :ffff: /sys/class/infiniband/{device}/ports/1/gids/*; do sleep 0.05; done",
                    timeout)
        self.forget("gids")

    def monitor(self, command: str, timeout: float = TIMEOUT_S) -> str:
        """The answer of its QEMU's human monitor."""
        return self.lab.do("monitor", "--timeout", str(timeout), self.name, "--", command,
                           timeout=timeout + ANSWER_S).stdout

    def reboot(self) -> None:
        self.lab.do("reboot", self.name, timeout=BOOT_TIMEOUT_S)
        self.booted()

    def kill(self) -> None:
        """Ends the guest's QEMU, like a crash."""
        self.lab.do("kill", self.name)

    def boot(self) -> None:
        self.lab.do("start", self.name, timeout=BOOT_TIMEOUT_S)
        self.booted()

    def await_boot(self, other_than: str = "") -> None:
        """Waits until the guest answers, in a boot other than the given one, that the lab has not begun."""
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while self.boot_id() in ("", other_than):
            if time.monotonic() > deadline:
                raise Failure(f"{self.name} does not answer")
            time.sleep(0.2)
        self.booted()

    def forget(self, *names: str) -> None:
        """Drops cached properties, so that their next use determines them again."""
        for name in names:
            self.__dict__.pop(name, None)

    def migrate(self, host: str, *options: str) -> dict:
        """Moves the guest to another host while it runs, and returns the report of its monitor. The guest's system
        notices nothing, but connections to it end, because vsock connections cannot move."""
        answer = json.loads(self.lab.do("migrate", self.name, host, *options, timeout=MOVE_TIMEOUT_S).stdout)
        self.booted()
        return answer

    def has_moved_to(self, host: str) -> None:
        """Another program than the lab has moved the guest to that host."""
        self.lab.do("note-move", self.name, host)
        self.booted()

    def save(self) -> None:
        """Saves the guest to a file of its host, and ends its QEMU."""
        self.lab.do("save", self.name, timeout=MOVE_TIMEOUT_S)

    def restore(self) -> None:
        """Continues the saved guest. If it was stopped before, it is stopped then."""
        if self.lab.do("restore", self.name, timeout=MOVE_TIMEOUT_S).stdout.strip() == "running":
            self.booted()

    def resume(self) -> None:
        """Continues a guest that is stopped."""
        self.monitor("cont")
        self.booted()

    def booted(self) -> None:
        """The guest has booted again: cached facts no longer hold."""
        self.forget("programs", "gids", "function")
        for notify in self.after_boot:
            notify(self)


@contextmanager
def kept(prepare: Callable[[Guest], None], guest: Guest) -> Iterator[None]:
    """Prepares the guest, and prepares it again after each reboot."""
    prepare(guest)
    guest.after_boot.append(prepare)
    yield
    guest.after_boot.remove(prepare)
