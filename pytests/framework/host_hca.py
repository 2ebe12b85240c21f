# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Processes of a lab's host whose messages go by the host's own HCA: rxe on its interface, and a second vrdmad."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from .lab import GUEST_PROGRAMS, Guest, Place
from .mediator import vrdmad
from .native import Owner
from .process import Process
from .rxe import add_rxe, remove_rxe

DIRECTORY = "/run/vrdma"
CONFIG = f"{DIRECTORY}/host-hca.conf"
SOCKET = f"{DIRECTORY}/host-hca.sock"
# rxe pins what processes register.
MEDIATOR = f"prlimit --memlock=unlimited {vrdmad(CONFIG)}"
TEXT = """
mdev = false
[control]
socket = ""
[[uplink]]
interface = "{interface}"
hca = "verbs"
device = "{device}"
[[vfio_user]]
name = "process"
socket = "{socket}"
type = "medium"
uplink = "{interface}"
addresses = "10.0.0.0/8,fc00::/7"
clients = 8
mode = "0666"
"""


class Offloaded(Owner):
    """Processes of a host, which have its address, and whose driver is vrdma's."""

    def __init__(self, host: Guest) -> None:
        number = int(host.name.removeprefix("host")) + 1
        super().__init__(host.lab, host.name, {4: f"10.77.0.{number}"})
        self.host = host

    def watch(self, command: str) -> Process:
        return self.host.watch(f"vrdma-run --device {SOCKET} --address {self.addresses[4]} -- {command}")

    @cached_property
    def programs(self) -> str:
        return self.host.bring(GUEST_PROGRAMS)


def host_of(lab: Place, number: int) -> Guest:
    return Guest(lab, f"host{number}")


@contextmanager
def rxe_of(host: Guest) -> Iterator[str]:
    """rxe on the interface that has the host's address."""
    device = add_rxe(host)
    yield device
    remove_rxe(host)


@contextmanager
def mediator_of(host: Guest, device: str) -> Iterator[Process]:
    """Serves processes of the host by this device."""
    text = TEXT.format(interface=host.nic, device=device, socket=SOCKET)
    host.script(f"cat >{CONFIG} <<'END'\n{text}END\nchown vrdma: {DIRECTORY}")
    mediator = host.watch(MEDIATOR)
    mediator.await_line("serves vrdma", 30)
    yield mediator
    mediator.kill()
