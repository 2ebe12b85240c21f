# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A device moves from one mdev to another, by VFIO's migration protocol, between a VM monitor of our own and vrdmad."""

import errno
import json
import uuid

import pytest

from framework.lab import GUEST_PROGRAMS
from framework.mdev import Mdev, MdevType

pytestmark = pytest.mark.lab

MAC = "52:54:00:77:00:01"
ERROR, RUNNING, RESUMING = 0, 2, 4


@pytest.fixture
def move(host):
    """Moves a device from one of two new mdevs with one MAC to the other, which may have another type. The device has
    protection domain 1."""
    programs = host.bring(GUEST_PROGRAMS)
    source, target = (Mdev(host, str(uuid.uuid4())) for _ in range(2))

    def create(device: Mdev, kind: str) -> None:
        MdevType(host, kind).create(device.uuid)
        host.script(f"echo {MAC} >{device.path}/mac")

    def run(how: str, kind: str = "small") -> dict:
        create(source, "small")
        create(target, kind)
        program = f"{programs}/moving_device.py"
        return json.loads(host.run(f"/usr/bin/python3 {program} {source.uuid} {target.uuid} {how}").stdout)

    yield run
    for device in (source, target):
        device.remove()


@pytest.mark.parametrize("how", ["whole", "announced"])
def test_a_device_goes_on_where_it_is_moved_to(move, how):
    """Saves a device and loads it, also by way of PRE_COPY; expects the next protection domain to be 2, and 1 to exist.
    """
    moved = move(how)
    assert moved.pop("bytes") > 32
    assert moved == {"first": 1, "error": 0, "state": RUNNING, "next": 2, "freed": 0}


@pytest.mark.parametrize("how, state", [("cut", ERROR), ("changed", RESUMING), ("longer", RESUMING)])
def test_what_is_not_whole_is_refused(move, how, state):
    """Loads a state with a byte less, which is detected at its end, and with a changed or an additional byte, which are
    detected when they are written. Expects EINVAL, and a device that a reset makes ready."""
    moved = move(how)
    assert moved.pop("bytes") > 32
    # vrdmad has reset the device that it did not restore, so the device is not FATAL.
    assert moved == {"first": 1, "error": errno.EINVAL, "state": state, "fatal": False}


def test_a_type_that_does_not_fit(move):
    """Announces a device to one of another type; expects EINVAL, and a source that goes on: its next protection domain
    is 2."""
    assert move("unfit", "medium") == {"first": 1, "error": errno.EINVAL, "state": RUNNING, "next": 2}


def test_a_cancelled_migration(move):
    """Closes the file of a state that was not read, and resumes the device; expects its next protection domain to be 2.
    """
    assert move("cancelled") == {"first": 1, "state": RUNNING, "next": 2}
