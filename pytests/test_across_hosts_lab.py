# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Guests on two hosts, whose packets go by a virtual cable: stock programs between two vrdma devices, and between one
and Linux's rxe on the other guest's own NIC. rxe is an independent implementation. It knows only RoCE v2.

Each side is a server for the other at the same time. Programs sleep while they wait if they can, because processors of
spinning guests share two real ones in turns of milliseconds.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from framework import connections
from framework.connections import PINGS, address, allow_users, pings, rping
from framework.lab import TIMEOUT_S, Guest, kept
from framework.process import Process, Result
from framework.programs import Program, bandwidths, latencies, start_server
from framework.rxe import add_rxe, remove_rxe
from test_perftest import OPERATIONS
from test_pingpong import PROGRAMS, assert_done
from test_rdma_cm import ANY

pytestmark = pytest.mark.lab_hosts

# perftest asks its device for as many outstanding READs and atomics as the peer's device accepts. rxe accepts 128, but
# a vrdma device has at most 16 (like ConnectX).
OPTIONS = {"write": "", "send": "-e", "read": "-e -o 16", "atomic": "-e -o 16"}
# Lasts longer than two restarts of vrdmad.
LONG = 3000


@dataclass(frozen=True)
class Side:
    guest: Guest
    device: str


@dataclass(frozen=True)
class Talk:
    """A server, its client, and the version of IP between them."""

    server: Side
    client: Side
    family: int

    def connected(self, listen: str, call: str, port: int | None = None) -> tuple[Process, Process]:
        """Starts programs that connect by rdma_cm."""
        return connections.start_pair(self.server.guest, self.client.guest, listen, call, port)

    def verbs(self, command: str) -> tuple[Process, Process]:
        """Starts programs that exchange their parameters by TCP."""
        serving, calling = (Program(command, side.device, family=self.family) for side in (self.server, self.client))
        server, port = start_server(serving, self.server.guest)
        name = self.server.guest.name
        return server, self.client.guest.start(f"{calling.arguments(self.client.guest, port)} {name}")


def use_rxe(guest: Guest) -> None:
    guest.run("modprobe -r vrdma_ib")
    add_rxe(guest)


@contextmanager
def rxe_instead(guest: Guest) -> Iterator[Side]:
    """rxe in the place of the guest's vrdma device, because both would have the same addresses."""
    with kept(use_rxe, guest):
        yield Side(guest, "rxe0")
    remove_rxe(guest)
    guest.run("modprobe vrdma_ib")
    guest.await_device("vrdma0")


@pytest.fixture(scope="module", autouse=True)
def user_access(guest0, guest1):
    with kept(allow_users, guest0), kept(allow_users, guest1):
        yield


@pytest.fixture(scope="module", params=["same", "rxe0"])
def peer(request, guest1, device):
    """The peer in guest1: the device under test, or rxe."""
    if request.param == "rxe0":
        with rxe_instead(guest1) as side:
            yield side
    else:
        yield Side(guest1, device)


@pytest.fixture
def talks(guest0, device, peer) -> list[Talk]:
    """Both directions, by IPv4 and by IPv6."""
    here = Side(guest0, device)
    return [Talk(*sides, family) for sides in ((here, peer), (peer, here)) for family in (4, 6)]


@pytest.fixture
def some_talks(talks) -> list[Talk]:
    """Both directions, one by IPv4 and the other by IPv6: for tests that need not try all combinations."""
    return [talks[0], talks[-1]]


def carry_out(talks: list[Talk], start: Callable[[Talk], tuple[Process, Process]]) -> list[tuple[Result, Result]]:
    """Runs all at once; returns the output of servers and clients."""
    running = [start(talk) for talk in talks]
    return [(server.wait(TIMEOUT_S), client.wait(TIMEOUT_S)) for server, client in running]


@pytest.mark.parametrize("program", PROGRAMS)
def test_pingpong(talks, program):
    """Sends 20 messages each way; expects all to arrive intact."""
    for results in carry_out(talks, lambda talk: talk.verbs(f"{program} -c -e -n 20")):
        for result in results:
            assert_done(result.stdout, 20)


def test_large_messages(some_talks):
    """Sends 5 messages of 1 MB each way, with a thousand packets each; expects all to arrive intact."""
    for results in carry_out(some_talks, lambda talk: talk.verbs("ibv_rc_pingpong -c -e -n 5 -s 1048576")):
        for result in results:
            assert_done(result.stdout, 5)


@pytest.mark.parametrize("operation, kind", OPERATIONS)
def test_latency(some_talks, operation, kind):
    """Runs 20 operations of 8 bytes, one at a time; expects all to be carried out."""
    command = f"ib_{operation}_lat -F -c {kind} -s 8 -n 20 {OPTIONS[operation]}"
    for _, client in carry_out(some_talks, lambda talk: talk.verbs(command)):
        (line,) = latencies(client)
        assert (line.size, line.iterations) == (8, 20)


@pytest.mark.parametrize("operation, kind", OPERATIONS)
def test_bandwidth(some_talks, operation, kind):
    """Runs 50 operations at once; expects all to be carried out. They have several packets if lost packets are
    retransmitted."""
    size = 8 if operation == "atomic" else 16384 if kind == "RC" else 1024
    command = f"ib_{operation}_bw -F -c {kind} -s {size} -n 50 {OPTIONS[operation]}"
    for _, client in carry_out(some_talks, lambda talk: talk.verbs(command)):
        (line,) = bandwidths(client)
        assert (line.size, line.iterations) == (size, 50)


def test_rping(talks):
    """Connects, and has the server READ and WRITE buffers that the client verifies; expects every round to succeed."""
    for _, client in carry_out(talks, lambda talk: talk.connected(*rping(talk.server.guest, talk.family, "-S 10000"))):
        assert pings(client) == PINGS


def test_mediators_restart(some_talks, health):
    """Restarts vrdmad on both hosts, one after the other, during READs whose retries last for eight seconds; expects
    all to be carried out. With SENDs, an answer may come before the acknowledgement is repeated. ib_send_lat -e takes
    the one's event for the other's, and then has no room for the next SEND."""
    running = [talk.verbs(f"ib_read_lat {OPTIONS['read']} -F -u 18 -n {LONG}") for talk in some_talks]
    health.restart_mediators()
    assert all(client.running for _, client in running)
    for server, client in running:
        client.wait(TIMEOUT_S)
        server.wait(TIMEOUT_S)


def test_messages(some_talks):
    """Makes 3 connections and exchanges messages; expects all sides to report success."""
    command = "ucmatose -p {port} -c 3 -C 10 -S 512"
    for results in carry_out(some_talks, lambda talk: talk.connected(
            f"{command} {ANY[talk.family]}", f"{command} -s {address(talk.server.guest, talk.family)}")):
        for result in results:
            assert "return status 0" in result.stdout


def test_datagrams(some_talks):
    """Resolves 3 datagram services and exchanges messages; expects all sides to report success."""
    command = "udaddy -c 3 -C 10 -S 512"
    for results in carry_out(some_talks, lambda talk: talk.connected(
            f"{command} {ANY[talk.family]}", f"{command} -s {address(talk.server.guest, talk.family)}", port=7174)):
        for result in results:
            assert "return status 0" in result.stdout
