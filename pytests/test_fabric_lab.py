# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Guests on two hosts between which there is no RoCE: the same programs as with RoCE, and messages while the connection
breaks. The vrdmads reach each other by libfabric's tcp provider.
"""

import ipaddress
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import astuple
from pathlib import Path

import pytest

from framework.authority import Authority, Credentials
from framework.connections import address
from framework.fabric import CONNECTIONS, fabric_config
from framework.lab import TIMEOUT_S, Guest, Machine, kept
from test_across_hosts_lab import (  # noqa: F401 (these tests use the peer defined here, and their fixtures)
    Side,
    some_talks,
    talks,
    test_bandwidth,
    test_datagrams,
    test_large_messages,
    test_messages,
    test_pingpong,
    test_rping,
    user_access,
)
from test_bad_network_lab import ROOM, hosts, meet, open_side  # noqa: F401 (fixtures)
from test_performance import CONFIGURATION

pytestmark = pytest.mark.lab_hosts

DEVICE = "vrdma0"
CREDENTIALS = Credentials(*(Path(f"/run/vrdma-fabric.{kind}") for kind in ("crt", "key", "ca")))
ESTABLISHED = f"state established '{CONNECTIONS}'"
BINDING = '[types.medium]\nuplink = "wan"\n'
COUNT, PIECES, SEED = 60, 3, 11
CUTS = 3


def gids_of(guest: Guest) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The addresses of its device."""
    gids = {ipaddress.IPv6Address(gid.address) for gid in guest.gids[DEVICE]}
    return {gid.ipv4_mapped or gid for gid in gids}


def configure(host: Machine, guest: Guest, config: str) -> None:
    host.script(f"cat >{CONFIGURATION} <<'END'\n{config}END\nsystemctl restart vrdmad", TIMEOUT_S)
    guest.await_device(DEVICE)


def certify(host: Machine, authority: Authority) -> None:
    """Makes a certificate for the host's address, which is its name in the fabric."""
    issued = authority.issue(address(host, 4))
    for here, there in zip(astuple(issued), astuple(CREDENTIALS), strict=True):
        host.copy(here, str(there))
    host.script(f"chmod 600 {CREDENTIALS.key}\nchown vrdma {' '.join(map(str, astuple(CREDENTIALS)))}")


def by_fabric(host: Machine, peer_host: Machine, peer_guest: Guest) -> Callable[[Guest], None]:
    """Binds the device of the host's guest to the fabric."""
    config = fabric_config(address(host, 4), address(peer_host, 4), CREDENTIALS, gids_of(peer_guest)) + BINDING
    return lambda guest: configure(host, guest, config)


@pytest.fixture(scope="module")
def peer(hosts, guest0, guest1):  # noqa: F811
    """guest1's device, when the vrdmads of both hosts are connected."""
    sides = list(zip(hosts, (guest0, guest1), strict=True))
    before = [host.read(CONFIGURATION) for host in hosts]
    with ExitStack() as stack:
        authority = Authority(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        for host in hosts:
            certify(host, authority)
        for (host, guest), other in zip(sides, reversed(sides), strict=True):
            stack.enter_context(kept(by_fabric(host, *other), guest))
        hosts[0].script(f"until ss -tnH {ESTABLISHED} | grep -q .; do sleep 0.05; done", TIMEOUT_S)
        yield Side(guest1, DEVICE)
    for side, config in zip(sides, before, strict=True):
        configure(*side, config)


def cut(host: Machine) -> int:
    """Resets the existing connections of the fabric, as a middlebox may. Returns their number."""
    return len(host.script(f"ss -KtnH {ESTABLISHED}").stdout.splitlines())


def test_cut_and_restored(meet, hosts):  # noqa: F811
    """Resets the connection again and again while messages are sent; expects each to arrive once and intact."""
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
