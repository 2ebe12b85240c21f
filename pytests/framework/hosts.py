# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Two hosts in the place of the lab's guests: network namespaces of this machine, joined by a veth pair. Each has a
vrdmad, whose device is bound to the interface and has its addresses. Traffic between them is RoCE packets.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .lab import TIMEOUT_S
from .native import Native, NativeGuest, ip
from .process import Failure, Process, Record

UPLINK = """
[[uplink]]
interface = "lan"
"""
BINDING = 'uplink = "lan"\n'
# The most common MTU: it makes the port's MTU 1024.
MTU = 1500
NAMESPACES = Path("/run/netns")


class Network:
    """A namespace for each host. Its name contains the id of the process that made it."""

    def __init__(self, addresses: dict[str, dict[int, str]]) -> None:
        self._addresses = addresses
        self.namespaces = {name: f"vrdma-{os.getpid()}-{name}" for name in addresses}
        self._index = 10

    def up(self) -> None:
        for left in NAMESPACES.glob("vrdma-*"):  # of a run that was interrupted
            if not Path("/proc", left.name.split("-")[1]).exists():
                ip(f"netns del {left.name}")
        here, there = self.namespaces.values()
        ip(*(f"netns add {namespace}" for namespace in (here, there)))
        for namespace in (here, there):  # so that ICMP shows each packet that a host's stack should not get
            subprocess.run(["ip", "netns", "exec", namespace, "tee", "/proc/sys/net/ipv4/icmp_ratelimit",
                            "/proc/sys/net/ipv6/icmp/ratelimit"], input="0", text=True, stdout=subprocess.DEVNULL,
                           check=True)
        self._lay()

    def _lay(self) -> None:
        here, there = self.namespaces.values()
        # With different indices the kernel reports a carrier at once, otherwise within a second.
        ip(f"link add lan index {self._index} netns {here} type veth peer name lan index {self._index + 1} netns "
           f"{there}")
        for name in self.namespaces:
            self._set_up(name)
        self._await_link()

    def lay_anew(self) -> None:
        """Replaces both interfaces by new ones of the same names, with the same addresses."""
        name, *_ = self.namespaces
        self.ip(name, "link del lan")
        self._index += 2  # the kernel distinguishes interfaces of one name by it
        self._lay()

    def ip(self, name: str, commands: str) -> None:
        subprocess.run(["ip", "-netns", self.namespaces[name], "-batch", "-"], check=True, text=True, input=commands)

    def restore(self, name: str) -> None:
        """Restores the interface's first state. Its IPv6 addresses are lost when it goes down."""
        self._set_up(name)
        self._await_link()

    def _await_link(self) -> None:
        """The kernel reports a carrier up to a second late, and sends nothing before that."""
        deadline = time.monotonic() + TIMEOUT_S
        while not all(self._link_up(namespace) for namespace in self.namespaces.values()):
            if time.monotonic() > deadline:
                raise Failure("the link does not come up")
            time.sleep(0.02)

    @staticmethod
    def _link_up(namespace: str) -> bool:
        shown = subprocess.run(["ip", "-netns", namespace, "link", "show", "lan"], check=True, text=True,
                               stdout=subprocess.PIPE).stdout
        return " state UP " in shown

    def _set_up(self, name: str) -> None:
        self.ip(name, f"""
            address replace {self._addresses[name][4]}/24 dev lan
            address replace {self._addresses[name][6]}/64 dev lan nodad
            link set lan mtu {MTU} up
            link set lo up
        """)

    def down(self) -> None:
        ip(*(f"netns del {namespace}" for namespace in self.namespaces.values()))


class Hosts(Native):
    """The hosts by their IPv4 addresses, at which programs find their servers."""

    addresses = {f"10.98.0.{number}": {4: f"10.98.0.{number}", 6: f"fd98::{number}"} for number in (1, 2)}

    def __init__(self, record: Record) -> None:
        network = Network(self.addresses)
        super().__init__(record, network)
        self._namespaces = network.namespaces
        self.ip = network.ip
        self.restore = network.restore
        self.lay_anew = network.lay_anew

    def up(self) -> None:
        self._network.up()
        for name in self.addresses:
            self.start_mediator(name)

    def start_mediator(self, name: str) -> None:
        self._start_mediator([name], self._uplink(name), self._within(name))

    def _uplink(self, _name: str) -> str:
        return UPLINK

    def _binding(self, _name: str) -> str:
        return BINDING

    def _within(self, name: str) -> tuple[str, ...]:
        return "ip", "netns", "exec", self._namespaces[name]

    def _run(self, name: str) -> list[str]:
        return [*self._within(name), *super()._run(name)]

    def tool(self, name: str, *command: str) -> Process:
        """Starts a program on that host, without a device."""
        return Process(f"{command[0]} of {name}", [*self._within(name), *command], dict(os.environ))

    def xdp(self, name: str) -> bool:
        """Whether the host's interface has a program that takes packets from the driver."""
        shown = subprocess.run([*self._within(name), "ip", "link", "show", "dev", "lan"], check=True, text=True,
                               stdout=subprocess.PIPE).stdout
        return " xdp " in shown

    def refusals(self) -> dict[str, int]:
        """By host, the number of ICMP messages that it has sent because a destination was unreachable."""
        return {name: self._refusals(name) for name in self.addresses}

    def _refusals(self, name: str) -> int:
        text = subprocess.run([*self._within(name), "nstat", "-asz", "IcmpOutDestUnreachs", "Icmp6OutDestUnreachs"],
                              check=True, text=True, stdout=subprocess.PIPE).stdout
        return sum(int(line.split()[1]) for line in text.splitlines() if not line.startswith("#"))


class NumberedHosts(Hosts):
    """Further hosts, which have a network of their own, given by their number."""

    def __init__(self, record: Record, number: int) -> None:
        self.addresses = {f"10.98.{number}.{host}": {4: f"10.98.{number}.{host}", 6: f"fd98:{number}::{host}"}
                          for host in (1, 2)}
        super().__init__(record)


@contextmanager
def serving(hosts: Hosts) -> Iterator[list[NativeGuest]]:
    """Runs the hosts and yields the owners of their devices. In the end nothing may be wrong with the hosts."""
    hosts.up()
    yield [NativeGuest(hosts, name) for name in hosts.addresses]
    troubles = hosts.troubles()
    hosts.down()
    assert troubles == []


class TransportHosts(NumberedHosts):
    """Hosts whose vrdmads use the given transports of an uplink."""

    def __init__(self, record: Record, number: int, transports: tuple[str, str]) -> None:
        super().__init__(record, number)
        self._transports = dict(zip(self.addresses, transports, strict=True))

    def _uplink(self, name: str) -> str:
        return f'{UPLINK}transport = "{self._transports[name]}"\n'


class PriorityHosts(NumberedHosts):
    """Hosts whose devices have traffic classes and service levels. The administrator assigns priorities to these."""

    def _uplink(self, _name: str) -> str:
        return f'{UPLINK}dscp_priorities = ["0:1", "26:4"]\nsl_priorities = ["3:6"]\n'

    def _binding(self, _name: str) -> str:
        return f'{BINDING}traffic_classes = ["26", "46"]\nservice_levels = ["3", "5"]\n'


class PartitionHosts(NumberedHosts):
    """Hosts whose devices are members of partitions, which differ between the hosts."""

    PKEYS = ((0xFFFF, 0x8001, 0x8002), (0x0001, 0xFFFF, 0x8003))

    def _binding(self, name: str) -> str:
        pkeys = self.PKEYS[[*self.addresses].index(name)]
        return f"{BINDING}pkeys = {[hex(pkey) for pkey in pkeys]}\n"
