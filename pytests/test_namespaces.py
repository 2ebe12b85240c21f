# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Network namespaces in a guest: an address in a namespace is reached there, and nowhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address

import pytest

from framework.connections import PINGS, address, pings, rping, run_pair
from framework.lab import TIMEOUT_S, Guest, Machine
from framework.process import Process

pytestmark = pytest.mark.lab

FAMILIES = [4, 6]
# The mode of ipvlan in which a link answers requests for its address.
KINDS = {"macvlan": "macvlan", "ipvlan": "ipvlan mode l2"}
PORT = 18598
LISTEN = "until [ $(rdma resource show cm_id | grep -c ':{port} ') -eq {count} ]; do sleep 0.02; done"
CONFIGURE = """
ip link set lo up
ip link set {link} up
ip address add {ipv4}/16 dev {link}
ip address add {ipv6}/64 dev {link} nodad
for gid in {gids}; do until grep -qsx $gid {table}; do sleep 0.05; done; done
"""
# The mode is refused while namespaces exist. They disappear some time after they were deleted.
SET_MODE = "until rdma system set netns {mode}; do sleep 0.1; done"
AWAIT_LINK = "until ip link show dev {link}; do sleep 0.1; done"


class Namespace(Machine):
    """Commands in a network namespace of a guest."""

    def __init__(self, guest: Guest, name: str) -> None:
        super().__init__(guest.lab, guest.name)
        self.namespace = name

    def watch(self, command: str) -> Process:
        return super().watch(f"ip netns exec {self.namespace} {command}")


def configure(machine: Machine, device: str, link: str, ipv4: str, ipv6: str) -> None:
    """Gives the link addresses; returns when they are GIDs."""
    gids = " ".join(IPv6Address(text).exploded for text in (f"::ffff:{ipv4}", ipv6))
    table = f"/sys/class/infiniband/{device}/ports/1/gids/*"
    machine.script(CONFIGURE.format(link=link, ipv4=ipv4, ipv6=ipv6, gids=gids, table=table))


@pytest.fixture
def tenant(device, guest0: Guest, guest1: Guest) -> Iterator[Callable[[str], Namespace]]:
    """Makes a namespace in guest0 with a link of that kind on its NIC."""
    made: list[Namespace] = []
    # rdma_cm ends a connection if the neighbour's MAC changes, as if an earlier test has used the same address.
    guest1.run("ip neigh flush all")

    def make(kind: str) -> Namespace:
        number = len(made) + 1
        name = f"tenant{number}"
        guest0.script(f"ip netns add {name}")
        made.append(Namespace(guest0, name))
        guest0.script(f"ip link add link {guest0.nic} name {name} netns {name} type {KINDS[kind]}")
        configure(made[-1], device, name, f"10.77.3.{number}", f"fd77::3:{number:x}")
        return made[-1]

    yield make
    for namespace in made:
        guest0.script(f"ip netns pids {namespace.namespace} | xargs -r kill; ip netns delete {namespace.namespace}")
    guest0.script(f"while grep -qs ffff:0a4d:03 /sys/class/infiniband/{device}/ports/1/gids/*; do sleep 0.05; done")


@contextmanager
def moved(guest: Guest, device: str, mode: str) -> Iterator[Namespace]:
    """Moves the guest's NIC to a namespace, and with mode `exclusive` the device too. Its end brings them back."""
    nic, ipv4, ipv6 = guest.nic, address(guest, 4), address(guest, 6)
    guest.script(SET_MODE.format(mode=mode))
    guest.script(f"ip netns add tenant; ip link set {nic} netns tenant")
    if mode == "exclusive":
        guest.script(f"rdma dev set {device} netns tenant")
    namespace = Namespace(guest, "tenant")
    try:
        configure(namespace, device, nic, ipv4, ipv6)
        yield namespace
    finally:
        guest.script("ip netns pids tenant | xargs -r kill; ip netns delete tenant")
        guest.script(SET_MODE.format(mode="shared"))
        guest.script(AWAIT_LINK.format(link=nic))
        configure(guest, device, nic, ipv4, ipv6)
        guest.forget("gids")


def assert_ping(server: Machine, client: Machine, family: int) -> None:
    _, result = run_pair(server, client, *rping(server, family))
    assert pings(result) == PINGS


def start_listeners(guest: Guest, machines: list[Machine]) -> list[Process]:
    """Starts a server in each machine, on the same port of any address. All machines belong to the guest."""
    processes = [machine.start(rping(machine, 4)[0].format(port=PORT)) for machine in machines]
    guest.script(LISTEN.format(port=PORT, count=len(processes)))
    return processes


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
def test_connections(tenant, guest1, kind, family):
    """Connects from the other guest to a process in a namespace, and the other way round; expects both to work."""
    inside = tenant(kind)
    assert_ping(inside, guest1, family)
    assert_ping(guest1, inside, family)


def test_same_port(tenant, guest0, guest1):
    """Has a process in each of two namespaces and one outside listen on the same port of any address. Connects to each
    by its address; expects each to serve one connection."""
    servers = [guest0, tenant("macvlan"), tenant("macvlan")]
    for server, process in zip(servers, start_listeners(guest0, servers), strict=True):
        _, client = rping(server, 4)
        assert pings(guest1.run(client.format(port=PORT))) == PINGS
        process.wait(TIMEOUT_S)


def test_apart(tenant, guest0, guest1):
    """Connects to an address in a namespace, with a listener on any address only outside, and the reverse; expects to
    be rejected each time."""
    inside = tenant("macvlan")
    for listener, other in ((guest0, inside), (inside, guest0)):
        (process,) = start_listeners(guest0, [listener])
        _, client = rping(other, 4)
        result = guest1.run(client.format(port=PORT), check=False)
        assert result.status
        assert "REJECTED" in result.stdout + result.stderr
        process.kill()


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_moved_nic(device, guest0, guest1, mode):
    """Moves the NIC to a namespace and back, and also the device if namespaces have their own devices. Expects the
    guest to be reached where the NIC is, and the device to be seen in all namespaces, or only in that one."""
    with moved(guest0, device, mode) as inside:
        assert_ping(inside, guest1, 4)
        assert_ping(guest1, inside, 6)
        assert device in inside.run("rdma dev").stdout
        assert (device in guest0.run("rdma dev").stdout) == (mode == "shared")
    assert_ping(guest0, guest1, 4)
