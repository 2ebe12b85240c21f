# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Guests on two hosts between which there is no RoCE: the same programs as with it, by vrdmads that reach each other by
libfabric's tcp provider, and what becomes of messages when their connection breaks.
"""

import ipaddress
import os
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from framework.lab import TIMEOUT_S, Guest, Machine, kept
from test_across_hosts_lab import (  # noqa: F401 (these tests with the peer of here, and their fixtures)
    Side,
    some_talks,
    talks,
    test_bandwidth,
    test_datagrams,
    test_large_messages,
    test_latency,
    test_messages,
    test_pingpong,
    test_rping,
    user_access,
)
from test_bad_network_lab import ROOM, hosts, meet, open_side  # noqa: F401 (fixtures)
from test_performance import CONFIGURATION

pytestmark = pytest.mark.lab_hosts

DEVICE = "vrdma0"
KEY_FILE, KEY = "/run/vrdma-fabric.key", os.urandom(32).hex()
PORT = 7471
CONNECTIONS = f"state established '( sport = :{PORT} or dport = :{PORT} )'"
CONFIG = """
[[fabric]]
name = "wan"
host = "{name}"
listen = "{address}:{port}"
key_file = "{key_file}"

[[fabric.peer]]
name = "{peer}"
address = "{peer_address}:{port}"
gids = [{gids}]

[types.medium]
uplink = "wan"
"""
COUNT, PIECES, SEED = 60, 3, 11
CUTS = 3


def host_of(guest: Guest) -> Machine:
    return Machine(guest.lab, guest.name.replace("guest", "host"))


def address_of(host: Machine) -> str:
    return host.script("ip -o -4 address show to 10.77.0.0/24 | awk '{ print $4 }' | cut -d/ -f1").stdout.strip()


def listed(guest: Guest) -> str:
    """The addresses of its device."""
    gids = {ipaddress.IPv6Address(gid.address) for gid in guest.gids[DEVICE]}
    return ", ".join(f'"{gid.ipv4_mapped or gid}"' for gid in gids)


def configure(guest: Guest, config: str) -> None:
    host = host_of(guest)
    host.script(f"umask 077; echo {KEY} >{KEY_FILE}; cat >{CONFIGURATION} <<'END'\n{config}END\nsystemctl restart vrdmad", TIMEOUT_S)
    guest.await_device(DEVICE)


def by_fabric(guest: Guest, peer: Guest) -> Callable[[Guest], None]:
    """Binds the guest's device to the fabric."""
    own, other = host_of(guest), host_of(peer)
    config = CONFIG.format(name=own.name, address=address_of(own), port=PORT, key_file=KEY_FILE, peer=other.name,
                           peer_address=address_of(other), gids=listed(peer))
    return lambda guest: configure(guest, config)


@pytest.fixture(scope="module")
def peer(guest0, guest1):
    """guest1's device, when the vrdmads of both hosts are connected."""
    before = {guest: host_of(guest).read(CONFIGURATION) for guest in (guest0, guest1)}
    with ExitStack() as stack:
        for prepare, guest in [(by_fabric(guest0, guest1), guest0), (by_fabric(guest1, guest0), guest1)]:
            stack.enter_context(kept(prepare, guest))
        host_of(guest0).script(f"until ss -tnH {CONNECTIONS} | grep -q .; do sleep 0.05; done", TIMEOUT_S)
        yield Side(guest1, DEVICE)
    for guest, config in before.items():
        configure(guest, config)


def cut(host: Machine) -> int:
    """Resets the connections of the fabric there are, as a middlebox may. Returns how many."""
    return len(host.script(f"ss -KtnH {CONNECTIONS}").stdout.splitlines())


def test_cut_and_restored(meet, hosts):  # noqa: F811
    """Resets the connection again and again while messages are sent; expects each to come once, as it was sent."""
    left, right = meet(ROOM)
    receiving = right.qp.begin("receive_messages", right.recv_cq, right.mr, SEED, COUNT, PIECES)
    sending = left.qp.begin("send_messages", left.send_cq, left.mr, SEED, COUNT, PIECES)
    cuts = 0
    deadline = time.monotonic() + TIMEOUT_S
    while cuts < CUTS and time.monotonic() < deadline:
        cuts += cut(hosts[0])
    sending()
    assert receiving() == ""
    assert cuts >= CUTS
