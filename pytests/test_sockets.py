# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Guests of a QEMU that is a client of vrdmad's sockets: what differs from mediated devices."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.endpoint import Endpoint, connect
from framework.lab import TIMEOUT_S, Guest
from framework.process import Failure
from framework.sockets import Sockets
from framework.verbs import VerbsError

pytestmark = [pytest.mark.lab, pytest.mark.sockets]

AWAKE = "[soft]\nspin_min_us = 1000000\nspin_max_us = 1000000\n"
ACCESS = "vfio_user_region_rw"  # what QEMU calls an access to a register that it sends to vrdmad


def plug(lab: Sockets, guest: Guest, name: str) -> None:
    """Plugs in a second device, behind the socket of that name."""
    device = {"driver": "vfio-user-pci", "id": "second", "socket": {"type": "unix", "path": str(lab.socket(name))}}
    guest.monitor(json.dumps({"execute": "device_add", "arguments": device}))


def leave(side: Endpoint) -> None:
    """Ends the process of that side, whose device has failed."""
    side.device.session.kill()


@pytest.fixture
def boot_again(lab, guest0, guest1):
    """Boots new VMs in the place of those that have lost their vrdmad: QEMU does not connect again. QEMU 11.1.3 cannot
    unplug the device either, because it aborts (a failed assertion in memory_region_del_subregion)."""

    def both() -> None:
        lab.lab.renew()
        for guest in (guest0, guest1):
            guest.booted()

    return both


@pytest.fixture
def watched(endpoint, guest0, guest1) -> list[Endpoint]:
    """A process in each guest, connected to each other; each watches its device's async events."""
    sides = [endpoint(guest) for guest in (guest0, guest1)]
    connect(*sides)
    return sides


def client_memory(lab: Sockets) -> int:
    """The number of mappings that vrdmad has of the memory of guests."""
    return Path(f"/proc/{lab.mediators[0].pid}/maps").read_text().count("memfd:memory-backend-memfd")


def test_killed_qemu_leaves_nothing(lab, guest1, watched, works):
    """Kills the QEMU of a guest; expects vrdmad to have nothing of its memory, and its peer to be told. A new QEMU gets
    the device."""
    mapped = client_memory(lab)
    assert mapped > 0
    lab.mediators[0].await_after(guest1.kill, "its client is gone", TIMEOUT_S)
    assert client_memory(lab) == mapped / 2
    watched[0].send()
    assert watched[0].sent(timeout=50) == ["RETRY_EXC_ERR"]
    leave(watched[1])
    guest1.boot()
    works()


def test_planned_end_of_vrdmad(lab, watched, boot_again, works):
    """Ends vrdmad on request; expects DEVICE_FATAL in both guests although they do nothing, and errors from verbs.
    Starts the next vrdmad and new VMs; expects them to work."""
    lab.stop_mediator()
    for side in watched:
        side.device.await_event("DEVICE_FATAL", TIMEOUT_S)
        with pytest.raises(VerbsError):
            side.pd.mr(4096, ["LOCAL_WRITE"])
        leave(side)
    lab.start_mediator_again()
    boot_again()
    works()


def test_crash_of_vrdmad(lab, guest1, watched, boot_again, works):
    """Kills vrdmad; expects each guest to run on, and to learn of it with its next verb. Unloads the driver of one,
    which must not wait for the device. Starts the next vrdmad and new VMs; expects them to work."""
    lab.mediators[0].kill()
    for side in watched:
        with pytest.raises(VerbsError):
            side.pd.mr(4096, ["LOCAL_WRITE"])
        side.device.await_event("DEVICE_FATAL", TIMEOUT_S)
        leave(side)
    guest1.run("modprobe -r vrdma_ib")
    guest1.run("modprobe vrdma_ib")
    lab.start_mediator_again()
    boot_again()
    works()


def test_reset_by_the_guest(lab, guest0, works):
    """Reboots a guest; expects vrdmad to enable its device again for the same client."""
    told = lab.mediators[0].await_after(guest0.reboot, f"{guest0.name}: ", TIMEOUT_S)
    assert "enabled" in told
    works()


def test_missing_socket(lab, guest0, works):
    """Plugs in a second device, behind a socket that is missing; expects QEMU to refuse it, and both guests to keep
    their devices."""
    with pytest.raises(Failure, match="No such file or directory"):
        plug(lab, guest0, "nobody")
    works()


@pytest.fixture
def awake(lab, boot_again) -> Iterator[None]:
    """vrdmad with a poller that spins for a second before it sleeps, as on a host with a spare core for it."""
    before = lab.configurations[0].read_text()

    def restart(text: str) -> None:
        lab.stop_mediator()
        lab.configurations[0].write_text(text)
        lab.start_mediator_again()
        boot_again()

    restart(before.replace("mdev = false\n", f"mdev = false\n{AWAKE}"))
    yield
    restart(before)


def accesses(guest: Guest) -> int:
    """The number of accesses that QEMU has sent to vrdmad."""
    return guest.lab.do("logs", guest.name).stdout.count(ACCESS)


def test_no_exits(awake, pair, guest1, measured):
    """Runs 1,000 and 10,000 WRITEs while the poller is awake; expects QEMU to send no more accesses to registers for
    the latter. Those of the program's start and end are the same."""
    few, many = 1_000, 10_000
    guest1.monitor(f"trace-event {ACCESS} on")
    sent = []
    for count in (few, many):
        before = accesses(guest1)
        pair(f"ib_write_bw -F -s 64 -n {count}")
        sent.append(accesses(guest1) - before)
    guest1.monitor(f"trace-event {ACCESS} off")
    measured.append(f"accesses that QEMU sent to vrdmad for {few} and {many} WRITEs: {sent}")
    assert sent[0] > 0
    assert sent[1] - sent[0] < (many - few) / 100
