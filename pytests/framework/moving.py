# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Fixtures for virtual machines that move between the two hosts of a lab."""

from collections.abc import Callable, Iterator

import pytest

from .detached import Detached
from .lab import Guest, Lab, Machine
from .process import Process
from .programs import Program, await_listener, next_port

HOME, AWAY, THIRD = "host0", "host1", "host2"


def described(guest: Guest) -> dict:
    """The lab's description of a guest, as it is now."""
    assert isinstance(guest.lab, Lab)
    return guest.lab.describe(guest.name)


def host_of(guest: Guest) -> str:
    return str(described(guest)["host"])


def begin_move(lab: Lab, guest: Guest, host: str, *options: str) -> Process:
    return lab.start(f"ci/lab migrate {guest.name}", "migrate", guest.name, host, *options)


def stop(*guests: Guest) -> None:
    """Stops guests together, so that none looks in vain for its peer."""
    for guest in guests:
        guest.monitor("stop")


def resume(*guests: Guest) -> None:
    for guest in guests:
        guest.resume()


def save(*guests: Guest) -> None:
    for guest in guests:
        guest.save()


def restore(*guests: Guest) -> None:
    for guest in guests:
        guest.restore()


def start_detached(command: str, device: str, server: Guest, client: Guest) -> tuple[Detached, Detached]:
    """Starts both sides of a program, neither of which depends on a connection to its guest."""
    program, port = Program(command, device), next_port()
    waiting = Detached(server, program.arguments(server, port))
    await_listener(server, port)
    return waiting, Detached(client, f"{program.arguments(client, port)} {server.name}")


@pytest.fixture
def home(lab: Lab) -> Machine:
    return Machine(lab, HOME)


@pytest.fixture
def away(lab: Lab) -> Machine:
    return Machine(lab, AWAY)


@pytest.fixture
def mover(lab: Lab, guest0: Guest, guest1: Guest) -> Iterator[Guest]:
    """A guest that a test moves. After the test, it and its peer are moved back to their own hosts."""
    yield guest0
    for guest, host in ((guest0, HOME), (guest1, AWAY)):
        if host_of(guest) != host:
            guest.migrate(host)


@pytest.fixture
def pingpong(device: str, mover: Guest, guest1: Guest) -> Callable[[int], tuple[Detached, Detached]]:
    """Starts a ping-pong between the guest that moves and the other one, with the usual timeout. Returns both sides."""

    return lambda messages: start_detached(f"ib_send_lat -e -F -n {messages}", device, guest1, mover)
