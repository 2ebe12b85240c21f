# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Hosts of a fabric that find each other only by a directory in etcd."""

import os
import signal
from collections.abc import Iterator

import pytest

from framework import programs
from framework.children import runs
from framework.connections import PINGS, rounds, rping, start_pair
from framework.directory import DirectoryHosts, until
from framework.lab import TIMEOUT_S
from framework.native import NativeGuest
from framework.process import Record

pytestmark = pytest.mark.fabric

LEASE_S = 10
MANY = 1_000_000
HELPERS = ("vrdma-directory", "vrdma-handshake")


@pytest.fixture(scope="module")
def hosts(record: Record) -> Iterator[DirectoryHosts]:
    here = DirectoryHosts(record)
    try:
        here.up()
        yield here
    finally:
        here.down()


@pytest.fixture(scope="module")
def names(hosts) -> list[str]:
    return [*hosts.addresses]


@pytest.fixture(scope="module")
def guests(hosts, names) -> list[NativeGuest]:
    return [NativeGuest(hosts, name) for name in names]


@pytest.fixture(autouse=True)
def healthy(hosts, names) -> Iterator[None]:
    """Each test begins with both hosts in the directory."""
    until(lambda: {*names} <= {*hosts.etcd.hosts()}, "both hosts are in the directory")
    yield
    assert not hosts.troubles()


@pytest.fixture
def talk(guests):
    """Asserts that programs on both hosts can connect in both directions."""

    def check() -> None:
        for server, client in (guests, guests[::-1]):
            assert rounds(*start_pair(server, client, *rping(server, 4))) == PINGS

    return check


@pytest.fixture
def move(hosts, names, guests):
    """Moves an address back and forth, and asserts that it is found each time."""

    def check() -> None:
        for here, there in ((0, 1), (1, 0), (0, 1)):
            hosts.has_moving = names[here]
            listen, call = rping(guests[here], 4)
            call = call.replace(guests[here].addresses[4], hosts.moving)
            assert rounds(*start_pair(guests[here], guests[there], listen, call)) == PINGS
        hosts.has_moving = None

    return check


def await_log(hosts: DirectoryHosts, name: str, text: str, what: str) -> None:
    """Returns when the vrdmad of that name has logged the text."""
    until(lambda: text in hosts.log(name), what)


@pytest.mark.parametrize("family", [4, 6])
def test_rping(guests, family):
    """Connects by IPv4 and IPv6; expects every round to succeed."""
    assert rounds(*start_pair(guests[0], guests[1], *rping(guests[0], family))) == PINGS


@pytest.fixture
def kept_addresses(guests) -> Iterator[None]:
    """Programs that have the guests' addresses, so that other programs' addresses do not come and go with them."""
    keeping = [guest.start("ibv_asyncwatch -d vrdma0") for guest in guests]
    yield
    for program in keeping:
        program.kill()


def test_pingpong(kept_addresses, guests):
    """Sends 200 messages each way by RC, and then by UD; expects all to arrive intact. A host learns the other's
    addresses a moment after they have come. Until then messages are lost, of which only RC sends some again."""
    for kind in ("rc", "ud"):
        for result in programs.run(programs.Program(f"ibv_{kind}_pingpong -c -n 200", "vrdma0"), *guests):
            assert "200 iters in" in result.stdout
            assert "invalid data" not in result.stdout


def test_addresses_come_and_go(hosts, names, guests):
    """Starts a program and ends it; expects the directory to have its addresses meanwhile, so that peers find it."""
    address = guests[0].addresses[4]
    until(lambda: not hosts.gids(names[0]), "it has none")
    server, client = start_pair(guests[0], guests[1], *rping(guests[0], 4, f"-C {MANY}"))
    until(lambda: address in hosts.gids(names[0]), "it is there")
    client.kill()
    server.kill()
    until(lambda: address not in hosts.gids(names[0]), "it is gone")


def test_an_address_moves(move):
    """Moves an address from host to host while a program on the other host talks to it; expects it to be found each
    time."""
    move()


def test_etcd_comes_and_goes(hosts, names, guests, talk):
    """Stops etcd for longer than a lease while messages are sent. Starts it with its data, and then without. Expects
    the messages to continue, and both hosts to be in the directory again."""
    server, client = start_pair(guests[0], guests[1], *rping(guests[0], 4, f"-C {MANY}"))
    client.next_line(LEASE_S * 6)
    hosts.etcd.stop()
    until(lambda: all("cannot be kept in the directory" in hosts.log(name) for name in names), "they notice")
    client.new_lines()
    with pytest.raises(AssertionError):
        client.wait(LEASE_S + 2)  # the lease, which ends meanwhile
    assert len(client.new_lines()) > PINGS
    server.kill()
    hosts.etcd.start()
    talk()
    hosts.etcd.stop()
    hosts.etcd.forget()
    hosts.etcd.start()
    until(lambda: {*names} == {*hosts.etcd.hosts()}, "they register again")
    talk()


def test_a_killed_vrdmad(hosts, names, talk):
    """Kills a vrdmad; expects its helpers to end, its entry to end with its lease, and a new vrdmad to be found."""
    processes = [process for program in HELPERS for process in hosts.helper_processes(names[1], program)]
    hosts.kill_mediator(names[1])
    until(lambda: not any(runs(process) for process in processes), "they have ended")
    until(lambda: names[1] not in hosts.etcd.hosts(), "its entry is gone")
    until(lambda: f"{names[1]} is not in the directory any more" in hosts.log(names[0]), "the other has seen it")
    hosts.start_mediator(names[1])
    until(lambda: names[1] in hosts.etcd.hosts(), "it is there again")
    talk()


def test_a_killed_worker(hosts, names, talk, move):
    """Kills the processes that read the directory, like a crash of their parsers; expects connections to continue, and
    an address that moves to be found."""
    for name in names:
        *_, worker = hosts.helper_processes(name, "vrdma-directory")
        os.kill(worker, signal.SIGKILL)
    talk()
    for name in names:
        await_log(hosts, name, "has restarted", "another")
    move()


def test_a_killed_maker_of_handshakes(hosts, names, talk):
    """Kills the processes that make handshakes, like a crash of their parsers; expects connections to continue, and a
    new connection after the connection is cut."""
    for name in names:
        *_, worker = hosts.helper_processes(name, "vrdma-handshake")
        os.kill(worker, signal.SIGKILL)
    talk()
    for name in names:
        await_log(hosts, name, "vrdma-handshake has restarted", "another")
    before = hosts.log(names[0]).count("connected with")
    assert hosts.cut(names[0])
    until(lambda: hosts.log(names[0]).count("connected with") > before, "a new connection")
    talk()


def test_entries_that_make_no_sense(hosts, names, talk):
    """Writes invalid entries into the directory, also for a host; expects log lines that name them, and no harm."""
    for key in ("evil", "a/b"):
        hosts.etcd.put(f"/vrdma/hosts/{key}", '{"address": "everywhere"}')
    for name in names:
        for key in ("evil", "a/b"):
            await_log(hosts, name, f"/vrdma/hosts/{key} is ignored", "a log")
    talk()
    for key in ("evil", "a/b", names[0]):
        hosts.etcd.delete(f"/vrdma/hosts/{key}")
    until(lambda: names[0] in hosts.etcd.hosts(), "it registers again")
    talk()


@pytest.mark.parametrize("name", ["0-stranger", "stranger"])
def test_a_stranger(hosts, names, talk, name):
    """Registers a host with a certificate of another authority, which connects or is connected to by its name. Expects
    the host that connects to refuse the other, and the hosts to stay connected."""
    hosts.start_stranger(name, names[1])
    connects, connected_to = (name, names[0]) if name < names[0] else (names[0], name)
    until(lambda: f"{connected_to} at 10.98.1." in hosts.log(connects), "it is refused")
    assert "is refused: it has a certificate that is not good" in hosts.log(connects)
    talk()
    for host in (name, *names):
        assert f"connected with {name if host in names else ''}" not in hosts.log(host)
    hosts.end_mediator(name)
    until(lambda: name not in hosts.etcd.hosts(), "it takes its entry along")


def test_vrdmad_restarts(hosts, names, guests):
    """Restarts the vrdmad of the server in the middle of a ping-pong; expects the ping-pong to go on when the hosts
    have found each other anew."""
    program = programs.Program("ib_send_lat -F -D 8 -u 18", "vrdma0")
    server, port = programs.start_server(program, guests[0])
    client = guests[1].start(f"{program.arguments(guests[1], port)} {names[0]}")
    programs.await_condition(guests[0], f"ss -tnH state established 'sport = :{port}' | grep -q .")
    hosts.stop_mediator()
    hosts.start_mediator_again()
    await_log(hosts, names[0], "connected with", "they have found each other")
    assert client.running
    client.wait(TIMEOUT_S)
    server.wait(TIMEOUT_S)
