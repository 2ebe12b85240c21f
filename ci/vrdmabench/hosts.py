# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Two hosts on this machine: network namespaces with a vrdmad each, whose device is bound to the interface between
them.

The interfaces are the ends of a veth pair. For losses there are two pairs, with a third namespace between them that
forwards packets and drops some: a filter of classic BPF selects the packets to forward by a random number. This works
with kernels without netem, and for all kinds of sockets and XDP alike. Senders get no error.
"""

import json
import os
import subprocess
import time
from functools import partial
from pathlib import Path

from .devices import Mediator
from .errors import BenchError
from .running import Running

ADDRESSES = ("10.98.1.1", "10.98.1.2")
GID_INDEX = 3  # of that address with RoCE v2, after the link-local GIDs and RoCE v1
MTU = 1500
NAMESPACES = Path("/run/netns")
PREFIX = "vrdma-"  # followed by the id of the process that made them, as in the end-to-end tests
CABLE = "cable"
LINK_TIMEOUT_S = 30.0
UPLINK = '[[uplink]]\ninterface = "lan"\ntransport = "{transport}"\n'
DEVICE = 'uplink = "lan"\naddresses = "10.98.{number}.{host}"\n'  # the first one has ADDRESSES, and the interface's MAC
MAC = 'mac = "02:98:00:00:{number:02}:{host:02}"\n'
# ld rand; jge #lost, take; ret #0; take: ret #-1
FILTER = "4,32 0 0 4294963256,53 1 0 {lost},6 0 0 0,6 0 0 4294967295"


class Hosts(Running):
    """Both hosts, which exist while it is used as a context."""

    def __init__(self, build: Path, *, lossy: bool = False, transport: str = "auto", config: str = "", sides: str = "a",
                 mtu: int = MTU, log_level: str = "warning") -> None:  # fmt: skip
        self._log_level = log_level
        self._build = build
        self._config = config + UPLINK.format(transport=transport)
        self._sides = sides
        self._mtu = mtu
        self._lossy = lossy
        self._namespaces = [f"{PREFIX}{os.getpid()}-bench-{name}" for name in ("0", "1", CABLE)[: 3 if lossy else 2]]
        self.mediators: list[Mediator] = []

    def _begin(self, directory: Path) -> None:
        self._lay()
        for number, _ in enumerate(ADDRESSES):
            self._start(number)
        for mediator in self.mediators:
            mediator.await_ready()

    def _stop(self) -> None:
        for mediator in self.mediators:
            mediator.stop()
        for namespace in self._namespaces:
            if (NAMESPACES / namespace).exists():
                _run("ip", "netns", "del", namespace)

    def _start(self, number: int) -> Mediator:
        mediator = Mediator(self._build, self.directory, str(len(self.mediators)), self._config,
                            sides=self._sides, device=partial(_device, number + 1), within=self.within(number),
                            log_level=self._log_level)  # fmt: skip
        self.mediators.append(mediator)
        return mediator

    def another(self, number: int) -> Mediator:
        """Starts another vrdmad with the same devices on this host."""
        mediator = self._start(number)
        mediator.await_ready()
        return mediator

    def within(self, number: int) -> tuple[str, ...]:
        return "ip", "netns", "exec", self._namespaces[number]

    def command(self, number: int, *argv: str) -> list[str]:
        """A command that has this host's device."""
        run = str(self._build / "providers/vrdma/vrdma-run")
        (socket,) = self.mediators[number].sockets
        return [*self.within(number), run, "--device", str(socket), "--address", ADDRESSES[number], "--", *argv]

    def poller_seconds(self) -> float:
        """The processor time that the pollers of both hosts have used."""
        return sum(mediator.poller_seconds() for mediator in self.mediators)

    def _link(self, number: int) -> dict:
        (link,) = json.loads(_run("ip", "-netns", self._namespaces[number], "-json", "link", "show", "lan"))
        return link

    def _await_link(self) -> None:
        """The kernel reports a carrier up to a second late, and until then ports are down."""
        deadline = time.monotonic() + LINK_TIMEOUT_S
        while any(self._link(number)["operstate"] != "UP" for number, _ in enumerate(ADDRESSES)):
            if time.monotonic() > deadline:
                raise BenchError("the link between the namespaces does not come up")
            time.sleep(0.02)

    def lose(self, part: float) -> None:
        """Loses this part of all packets, in both directions."""
        lost = FILTER.format(lost=int(part * (1 << 32)))
        for one, other in (("0", "1"), ("1", "0")):
            _run("tc", "-netns", self._namespaces[2], "filter", "replace", "dev", one, "ingress", "prio", "1", "handle",
                 "1", "bpf",
                 "bytecode", lost, "action", "mirred", "egress", "redirect", "dev", other)  # fmt: skip

    def _lay(self) -> None:
        for left in NAMESPACES.glob(f"{PREFIX}*"):  # of a run that was interrupted
            if not Path("/proc", left.name.split("-")[1]).exists():
                _run("ip", "netns", "del", left.name)
        for namespace in self._namespaces:
            _run("ip", "netns", "add", namespace)
        self._join()
        for address, namespace in zip(ADDRESSES, self._namespaces, strict=False):
            _run("ip", "-netns", namespace, "-batch", "-", text=f"""
                address add {address}/24 dev lan
                link set lan mtu {self._mtu} up
                link set lo up
            """)
        self._await_link()

    def _join(self) -> None:
        here, there, *cable = self._namespaces
        if not cable:
            _run("ip", "link", "add", "lan", "netns", here, "type", "veth", "peer", "name", "lan", "netns", there)
            return
        for name, namespace in (("0", here), ("1", there)):
            _run("ip", "link", "add", "lan", "netns", namespace, "type", "veth", "peer", "name", name, "netns", *cable)
            # A loss hits one packet. With segmentation by the interface, it would hit many packets at once.
            _run("ip", "netns", "exec", namespace, "ethtool", "-K", "lan", "tso", "off", "tx-udp-segmentation", "off")
            _run("ip", "-netns", *cable, "link", "set", name, "mtu", str(MTU), "up")
            _run("tc", "-netns", *cable, "qdisc", "add", "dev", name, "clsact")
        self.lose(0)


def _device(host: int, number: int) -> str:
    return (DEVICE if number == 1 else DEVICE + MAC).format(host=host, number=number)


def _run(*command: str, text: str = "") -> str:
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
