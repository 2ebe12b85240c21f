# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The vrdmads that are measured, and how programs get their devices.

If there are as many cores as spinning threads, a poller has a core to itself, and is configured as vrdmad.conf(5)
recommends for such a host. This is `dedicated`. Its poller is pinned to the core that the benchmarks leave to pollers
and to baselines. `quiet` is a second one like it, for devices that must not share a poller. All other measurements use
`shared`, which has the defaults, because poller and programs then share the cores.
"""

import os
import select
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from . import machine
from .errors import BenchError
from .running import Running

START_S = 20.0
LOOK_S = 0.1  # between checks whether a vrdmad has ended
POLLER_CORE = 1  # as in bench/cores.h
POLLER_NAME = "vrdma-poll-"
# Long enough that a poller never sleeps between messages, and short enough to give the core to others in turns.
SPIN_US = 1000
DEDICATED = f"[soft]\nspin_min_us = {SPIN_US}\nspin_max_us = {SPIN_US}\n"
DEVICE = """
[[vfio_user]]
name = "{name}"
socket = "{socket}"
type = "large"
"""


def processes_of(vrdmad: int) -> list[int]:
    """vrdmad and its children, one of which may have the pollers."""
    tasks = Path(f"/proc/{vrdmad}/task").glob("*/children")
    return [vrdmad, *(int(child) for task in tasks for child in task.read_text().split())]


class Mediator:
    """A vrdmad with a device for each side. `config` is added to its file, and `device` gives an addition to the table
    of each device, by the device's number from 1."""

    def __init__(self, build: Path, directory: Path, name: str, config: str, *, sides: str = "ab",
                 device: Callable[[int], str] = lambda _number: "", within: tuple[str, ...] = (),
                 log_level: str = "warning") -> None:  # fmt: skip
        self.sockets = [directory / f"{name}-{side}.sock" for side in sides]
        file = directory / f"{name}.conf"
        tables = [DEVICE.format(name=path.stem, socket=path) + device(number)
                  for number, path in enumerate(self.sockets, 1)]  # fmt: skip
        file.write_text("".join([f'mdev = false\nlog_level = "{log_level}"\n', config, *tables]))
        self.log = directory / f"{name}.log"
        self._ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._ready.bind(address := str(directory / f"{name}.ready"))
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*within, str(build / "mediator/control/vrdmad"), "--config", str(file)],
                                            stdout=log, stderr=log,
                                            env=os.environ | {"NOTIFY_SOCKET": address})  # fmt: skip

    def await_ready(self) -> None:
        """Waits for sd_notify(3), as systemd does, because the sockets exist before vrdmad serves them."""
        deadline = time.monotonic() + START_S
        with self._ready:
            while not select.select([self._ready], [], [], LOOK_S)[0]:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise BenchError(f"vrdmad does not start:\n{self.log.read_text()}")

    def pin_poller(self, core: int) -> None:
        """Pins only the poller. On the poller's core the control thread would wait for the end of each spin."""
        os.sched_setaffinity(int(self._poller().name), {core})

    def poller_task(self) -> str:
        """The directory of the poller's thread in /proc."""
        return str(self._poller().relative_to("/proc"))

    def poller_seconds(self) -> float:
        """The processor time that the poller has used."""
        return int((self._poller() / "schedstat").read_text().split()[0]) / 1e9

    def _poller(self) -> Path:
        for process in processes_of(self.process.pid):
            for task in Path(f"/proc/{process}/task").iterdir():
                if (task / "comm").read_text().startswith(POLLER_NAME):
                    return task
        raise BenchError("vrdmad has no poller")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(START_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Devices(Running):
    """All vrdmads, which run while it is used as a context."""

    def __init__(self, build: Path) -> None:
        self._build = build
        self._mediators: dict[str, Mediator] = {}

    def _begin(self, directory: Path) -> None:
        directory.chmod(0o755)  # otherwise root's programs do not use it as XDG_RUNTIME_DIR
        for name, soft in (("dedicated", DEDICATED), ("quiet", DEDICATED), ("shared", "")):
            self._mediators[name] = Mediator(self._build, directory, name, soft)
        for mediator in self._mediators.values():
            mediator.await_ready()
        if machine.cores() > POLLER_CORE:
            for name in ("dedicated", "quiet"):
                self._mediators[name].pin_poller(POLLER_CORE)

    def _stop(self) -> None:
        for mediator in self._mediators.values():
            mediator.stop()

    def command(self, names: list[str], *argv: str) -> list[str]:
        """A command with the devices of these vrdmads, in their order; "shared/1" is only the second of a pair."""
        sockets = []
        for name in names:
            mediator, _, side = name.partition("/")
            both = self._mediators[mediator].sockets
            sockets += [both[int(side)]] if side else both
        options = [option for socket in sockets for option in ("--device", str(socket))]
        return [str(self._build / "providers/vrdma/vrdma-run"), *options, "--", *argv]

    def environment(self) -> dict[str, str]:
        return dict(os.environ, VRDMA_BENCH_MEDIATOR=str(self._mediators["shared"].process.pid),
                    XDG_RUNTIME_DIR=str(self.directory))  # fmt: skip
