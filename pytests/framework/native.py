# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Two devices behind sockets of a vrdmad on this machine, in the place of the lab's guests. Their network interfaces
are the ends of a veth pair.

VRDMA_BUILD  the build whose vrdmad and provider are used, build/release by default; it may be one with sanitizers
"""

import os
import signal
import socket
import subprocess
import tempfile
import time
from functools import cached_property
from pathlib import Path
from typing import Protocol

from .lab import PROJECT, TIMEOUT_S, Gid, Guest, Place
from .process import Failure, Process, Record
from .sanitizers import Sanitizers

BUILD = Path(os.environ.get("VRDMA_BUILD", PROJECT / "build/release"))
# By name; programs find their servers at that name. The GIDs of a device's address here follow the link-local ones.
ADDRESSES = {"127.0.0.1": "10.99.0.1", "127.0.0.2": "10.99.0.2"}
ADDRESSES_6 = {"127.0.0.1": "fd99::1", "127.0.0.2": "fd99::2"}
INDEXES = {"IB/RoCE v1": 2, "RoCE v2": 3}
DEVICE_TABLE = """
[[vfio_user]]
name = "{name}"
socket = "{socket}"
addresses = "{addresses}"
type = "medium"
clients = {clients}
window_gib = 64 # of each client; ThreadSanitizer leaves a program 1.5 TiB
"""


class Network:
    """An interface for each device, with its addresses. Its name contains the id of the process that made it."""

    def __init__(self) -> None:
        self._names = [f"vrdma-{os.getpid()}-{end}" for end in (0, 1)]  # the longest possible names

    def up(self) -> None:
        for _, left in socket.if_nameindex():  # of a run that was interrupted, in this network namespace
            if left.startswith("vrdma-") and left.endswith("-0") and not Path("/proc", left.split("-")[1]).exists():
                ip(f"link del {left}")
        ip(f"link add {self._names[0]} type veth peer name {self._names[1]}")
        for name, guest in zip(self._names, ADDRESSES, strict=True):
            # The suite of pyverbs uses the first address, which must be that of IPv4.
            ip(f"address add {ADDRESSES[guest]}/32 dev {name}",
               f"address add {ADDRESSES_6[guest]}/128 dev {name} nodad",
               f"link set {name} up")

    def down(self) -> None:
        ip(f"link del {self._names[0]}")


def ip(*commands: str) -> None:
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)


class Wires(Protocol):
    """The network of a place."""

    def up(self) -> None: ...

    def down(self) -> None: ...


class Native(Place):
    """The part of a lab that tests need: it starts commands, each with the device of one name."""

    ours = False
    clients = 8
    addresses = {name: {4: address, 6: ADDRESSES_6[name]} for name, address in ADDRESSES.items()}

    def __init__(self, record: Record, network: Wires | None = None) -> None:
        self.record = record
        self._directory = tempfile.TemporaryDirectory(prefix="vrdma-native-")
        self._network = network or Network()
        self.sanitizers = Sanitizers(BUILD, Path(self._directory.name))
        self.mediators: list[Process] = []
        self._commands: list[tuple[str, list[str]]] = []  # of each mediator
        self.configurations: list[Path] = []  # one for each mediator

    def socket(self, name: str) -> Path:
        return Path(self._directory.name) / f"{name}.sock"

    def up(self) -> None:
        self._network.up()
        self._start_mediator([*self.addresses])

    def guest(self, number: int) -> Guest:
        return NativeGuest(self, [*self.addresses][number])

    def _start_mediator(self, names: list[str], config: str = "", prefix: tuple[str, ...] = ()) -> None:
        """Starts one with devices of these names. `config` is added to its file."""
        path = Path(self._directory.name) / f"vrdmad-{len(self.mediators)}.conf"
        tables = [DEVICE_TABLE.format(name=name.replace(".", "-"), socket=self.socket(name),
                                      addresses=",".join(self._allowed(name)), clients=self.clients)
                  + self._binding(name)
                  for name in names]
        control = f'[control]\nsocket = "{self._control_socket(len(self.mediators))}"\n'
        path.write_text("mdev = false\n" + config + "".join(tables) + control)
        vrdmad = [*prefix, str(BUILD / "mediator/control/vrdmad"), "--config", str(path), "--forbidden-calls", "kill"]
        self._commands.append((" ".join(["vrdmad of", *names]), vrdmad))
        self.configurations.append(path)
        self.mediators.append(self._run_mediator(*self._commands[-1]))

    def _run_mediator(self, title: str, vrdmad: list[str]) -> Process:
        mediator = Process(title, vrdmad, self.sanitizers.ours())
        mediator.await_line(" vrdmad ", TIMEOUT_S)  # its sockets exist by then, and are served
        return mediator

    def stop_mediator(self) -> Process:
        """Asks the first vrdmad to end, as a restart does."""
        self.mediators[0].terminate()
        self.mediators[0].wait(TIMEOUT_S)
        return self.mediators[0]

    def crash_mediator(self, number: int = signal.SIGKILL) -> Process:
        """Ends the first vrdmad by a signal. Its engine process may live on for a moment."""
        crashed = self.mediators[0]
        deadline = time.monotonic() + TIMEOUT_S
        while crashed.running:  # vrdmad handles the first fault, and lets the second one end it
            assert time.monotonic() < deadline
            crashed.signal(number)
            time.sleep(0.001)
        assert crashed.await_end(TIMEOUT_S) == -number
        return crashed

    def start_mediator_again(self) -> Process:
        """Starts the next vrdmad, after the first one has ended."""
        self.mediators[0] = self._run_mediator(*self._commands[0])
        return self.mediators[0]

    def mediator_of(self, name: str) -> Process:
        """The vrdmad that serves the device of that name."""
        return next(mediator for mediator in self.mediators if name in mediator.title.split())

    def _control_socket(self, number: int) -> Path:
        return Path(self._directory.name) / f"control-{number}.sock"

    def control_of(self, name: str) -> Path:
        """The control socket of the vrdmad that serves the device of that name."""
        return self._control_socket(self.mediators.index(self.mediator_of(name)))

    def reconfigure(self, text: str, says: str = "read again") -> str:
        """Gives the first vrdmad this configuration. Returns the line of its log that reports the outcome."""
        self.configurations[0].write_text(text)
        return self.mediators[0].await_after(lambda: self.mediators[0].signal(signal.SIGHUP), says, TIMEOUT_S)

    def _allowed(self, name: str) -> list[str]:
        """Addresses that the device may have."""
        return [*self.addresses[name].values()]

    def _binding(self, _name: str) -> str:
        """What the device's table has besides."""
        return ""

    def down(self) -> None:
        """Expects each vrdmad to end on request. Sanitizers report leaks then."""
        for mediator in self.mediators:
            mediator.terminate()
        failed = [mediator for mediator in self.mediators if mediator.wait(TIMEOUT_S, check=False).status]
        complaints = self.sanitizers.complaints()
        self._network.down()
        self._directory.cleanup()
        if failed or complaints:
            raise Failure("\n".join([*complaints, *(mediator.report() for mediator in failed)]))

    def start(self, title: str, *arguments: str) -> Process:
        verb, name, *command = arguments
        assert verb == "exec"
        return Process(title, [*self._run(name), *command], self.sanitizers.foreign())

    def _run(self, name: str) -> list[str]:
        addresses = [word for address in self.addresses[name].values() for word in ("--address", address)]
        return [str(BUILD / "providers/vrdma/vrdma-run"), "--device", str(self.socket(name)), *addresses]

    def troubles(self) -> list[str]:
        """Errors that have occurred: reports of vrdmads that have ended, and of sanitizers."""
        ended = [mediator.report() for mediator in self.mediators if not mediator.running]
        return [*(f"vrdmad has ended\n{report}" for report in ended), *self.sanitizers.complaints()]


def gids_of(address: str) -> list[Gid]:
    """The GIDs of an address that was given to vrdma-run by --address."""
    one, two, three, four = (int(part) for part in address.split("."))
    text = f"0000:0000:0000:0000:0000:ffff:{one:02x}{two:02x}:{three:02x}{four:02x}"
    return [Gid(index, text, kind) for kind, index in INDEXES.items()]


class Owner(Guest):
    """A side of a connection without a kernel driver: processes that each have a driver of their own. The number of
    processes that can have the device at a time is its number of clients."""

    def __init__(self, place: Place, name: str, addresses: dict[int, str]) -> None:
        super().__init__(place, name)
        self.addresses = addresses  # by family

    @cached_property
    def gids(self) -> dict[str, list[Gid]]:
        return {"vrdma0": gids_of(self.addresses[4])}


class NativeGuest(Owner):
    """An owner on this machine."""

    def __init__(self, native: Native, name: str) -> None:
        super().__init__(native, name, native.addresses[name])

    def bring(self, source: Path) -> str:
        return str(source)


class NativeHealth:
    """Checks that vrdmad stays alive, whatever a test does, and that no sanitizer reports an error."""

    def __init__(self, native: Native) -> None:
        self._native = native
        self.new: dict[str, list[str]] = {}

    def begin(self) -> None:
        pass

    def restart_mediator(self) -> None:
        """Restarts the first vrdmad, and returns when it serves."""
        self._native.stop_mediator()
        self._native.start_mediator_again()

    def gone(self, _failed: bool) -> list[str]:
        return []

    def collect(self) -> None:
        self.new = {mediator.title: mediator.new_lines("stderr") for mediator in self._native.mediators}

    def complaints(self) -> list[str]:
        return self._native.troubles()

    def close(self) -> None:
        pass
