# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The saved state of a lab."""

from pathlib import Path

import pytest
from vrdmalab.errors import LabError
from vrdmalab.process import Process
from vrdmalab.state import State, load
from vrdmalab.topology import Guest, Host, Shape, SocketGuest


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path, Shape(hosts=2, guests=1, guest_releases=("sid", "trixie"), movable=True), "token", "image")


def test_an_unknown_name_is_an_error(state: State) -> None:
    with pytest.raises(LabError, match="guest2"):
        state.find("guest2")


def test_guests_are_where_they_booted(state: State) -> None:
    assert state.find("guest1") == Guest(1, Host(1))


def test_a_guest_that_has_moved_is_found_where_it_is(state: State) -> None:
    """Moves guest0 to the other host, and loads the saved state; expects it there, and the other guest where it was."""
    state.moved[0] = 1
    state.save()
    again = load(state.directory)
    assert again
    assert again.guests == [Guest(0, Host(1)), Guest(1, Host(1))]
    assert again.shape == state.shape


def test_guests_behind_sockets_are_found_again(tmp_path: Path) -> None:
    """Saves a lab without hosts; expects its guest to have its process and port, and an address of its own."""
    state = State(tmp_path, Shape(guests=1, sockets="/run/vrdma"), "token", "image")
    guest = SocketGuest(0)
    state.processes[guest], state.ports[guest] = Process(1, 2), 4000
    state.save()
    again = load(tmp_path)
    assert again
    assert again.find("guest0") == guest
    assert again.processes == {guest: Process(1, 2)}
    assert (again.address(guest).port, again.address(guest).cid) == (4000, None)
