# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Guests whose devices are behind sockets."""

import socket
from pathlib import Path

import pytest
from vrdmalab import socket_guest
from vrdmalab.errors import LabError
from vrdmalab.topology import Shape


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """A directory with the sockets of two guests."""
    for index in (0, 1):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / f"guest{index}.sock"))
    return str(tmp_path)


def test_two_guests_have_their_sockets(directory: str) -> None:
    socket_guest.check(Shape(sockets=directory))


@pytest.mark.parametrize("shape", [{"guests": 3}, {"hosts": 2}, {"movable": True}], ids=str)
def test_other_shapes_are_refused(directory: str, shape: dict) -> None:
    with pytest.raises(LabError, match="--sockets takes"):
        socket_guest.check(Shape(sockets=directory, **shape))


def test_devices_may_be_vmwares(directory: str) -> None:
    socket_guest.check(Shape(sockets=directory, pvrdma="/lib/vmw_pvrdma.ko"))
    socket_guest.check(Shape(pvrdma="/lib/vmw_pvrdma.ko"))
    with pytest.raises(LabError, match="--pvrdma-guests needs --pvrdma"):
        socket_guest.check(Shape(sockets=directory, pvrdma_guests=1))


def test_a_missing_socket_is_named(directory: str) -> None:
    path = Path(directory, "guest1.sock")
    path.unlink()
    with pytest.raises(LabError, match=str(path)):
        socket_guest.check(Shape(sockets=directory))
