# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Processes and guests of a lab's host whose messages go by the host's own HCA: rxe on its interface, and a second
vrdmad."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from .lab import GUEST_PROGRAMS, PREFIX, TIMEOUT_S, Gid, Guest, Place
from .mdev import DEVICES, Mdev
from .mediator import vrdmad
from .native import Owner
from .process import Process
from .rxe import add_rxe, remove_rxe

DIRECTORY = "/run/vrdma"
CONFIG = f"{DIRECTORY}/host-hca.conf"
SOCKET = f"{DIRECTORY}/host-hca.sock"
# rxe pins what processes register.
MEDIATOR = f"prlimit --memlock=unlimited {vrdmad(CONFIG)}"
FIRST_CABLE = "eth1"
PARENT = "hosthca"
TYPE = f"/sys/class/mdev_bus/{PARENT}/mdev_supported_types/vrdma-medium"
TEXT = f"""
name = "{PARENT}"
[control]
socket = ""
[[uplink]]
interface = "{{interface}}"
hca = "verbs"
device = "{{device}}"
[types.medium]
uplink = "{{interface}}"
[[vfio_user]]
name = "process"
socket = "{SOCKET}"
type = "medium"
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


class Host(Guest):
    """A host, whose HCA also has the addresses of its guests."""

    def gid(self, device: str, kind: str = "RoCE v2", family: int = 4) -> Gid:
        guests = ":ffff:0a4d:01"
        (gid,) = [gid for gid in self.gids[device]
                  if gid.type == kind and PREFIX[family] in gid.address and guests not in gid.address]  # fmt: skip
        return gid


def host_of(lab: Place, number: int) -> Host:
    return Host(lab, f"host{number}")


@contextmanager
def rxe_of(host: Guest) -> Iterator[str]:
    """rxe on the interface that has the host's address."""
    device = add_rxe(host)
    yield device
    remove_rxe(host)


@contextmanager
def mediator_of(host: Guest, device: str) -> Iterator[Process]:
    """Serves processes of the host by this device."""
    text = TEXT.format(interface=host.nic, device=device)
    host.script(f"cat >{CONFIG} <<'END'\n{text}END\nchown vrdma: {DIRECTORY}")
    mediator = host.watch(MEDIATOR)
    mediator.await_line(f"serves {PARENT}", 30)
    yield mediator
    mediator.kill()


# As vrdmad.conf(5) says: the HCA has a GID of the guest's address. The host takes the packets of
# RoCE to this address. The guest gets all others, also the questions for its Ethernet address.
SHARE_ADDRESS = """
ip address add {address}/32 dev {nic} noprefixroute
ip route del local {address} table local
ip route add local {address} dev {nic} table 4791
ip rule add to {address} ipproto udp dport 4791 lookup 4791
tc qdisc add dev {port} clsact || :
tc filter add dev {port} ingress pref 1 protocol ip flower dst_ip {address} ip_proto udp dst_port 4791 \\
    action pedit ex munge eth dst set $(cat /sys/class/net/{nic}/address)
"""
UNSHARE_ADDRESS = """
tc filter del dev {port} ingress pref 1
ip rule del to {address} ipproto udp dport 4791 lookup 4791
ip route flush table 4791
ip address del {address}/32 dev {nic}
"""
MAKE_DEVICE = """
echo {mdev.uuid} >{TYPE}/create
echo {mac} >{mdev.path}/mac
echo {address} >{mdev.path}/addresses
"""


@contextmanager
def device_of(guest: Guest, host: Guest) -> Iterator[str]:
    """Gives a guest of the host a mediated device of mediator_of(), as its second device. The host's interface is a
    bridge, whose first cable leads to the peers."""
    number = int(guest.name.removeprefix("guest")) + 1
    where = {"address": f"10.77.1.{number}", "nic": host.nic, "port": FIRST_CABLE}
    mdev = Mdev(host, str(uuid.uuid4()))
    host.script(SHARE_ADDRESS.format(**where))
    host.script(MAKE_DEVICE.format(**where, mdev=mdev, mac=guest.mac, TYPE=TYPE))
    guest.monitor(f"device_add vfio-pci,id=hosthca,sysfsdev={DEVICES}/{mdev.uuid}")
    guest.await_device("vrdma1")
    yield "vrdma1"
    guest.monitor("device_del hosthca")
    guest.script("while [ -e /sys/class/infiniband/vrdma1 ]; do sleep 0.05; done", TIMEOUT_S)
    guest.forget("gids")
    mdev.remove()
    host.script(UNSHARE_ADDRESS.format(**where))
