# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A vrdmad that stalls or dies: no program hangs, and the devices come back by themselves."""

import time

import pytest

from framework.endpoint import connect
from framework.lab import Machine
from framework.mdev import DEVICE_ADD, MdevType, mdev_of
from framework.verbs import VerbsError

pytestmark = pytest.mark.lab

# A VM that waits for vrdmad would take longer; the commands of this lab take a fraction of this time.
DRIVER_S = 40.0  # The guest's driver waits 20 s for a command, and 5 s for a reset.
PROMPT_S = 5.0


@pytest.fixture
def pid(health) -> int:
    """vrdmad's process id."""
    return health.mediator_pid


class Stopped:
    """Stops the processes to which a command sends its signals, for the duration of a `with`. So a failing test does
    not leave them stopped."""

    def __init__(self, host: Machine, command: str) -> None:
        self.host = host
        self.command = command

    def __enter__(self) -> None:
        self.host.run(self.command.format("STOP"))

    def __exit__(self, *_) -> None:
        self.host.run(self.command.format("CONT"))


@pytest.fixture
def stopped(host):
    """Stops all processes of vrdmad."""
    return Stopped(host, "systemctl kill --signal={} vrdmad")


@pytest.fixture
def without_control(host, pid):
    """Stops the process of the control thread only."""
    return Stopped(host, f"kill -{{}} {pid}")


def promptly(action) -> None:
    begin = time.monotonic()
    action()
    assert time.monotonic() - begin < PROMPT_S


def test_stopped_while_a_verb_waits(host, guest0, open_device, stopped, works):
    """Stops vrdmad while a guest creates a queue; expects monitor, guest and host to answer, and the verb to succeed
    later."""
    opened = open_device(guest0)
    with stopped:
        creating = opened.begin("cq", 16)
        promptly(lambda: guest0.monitor("info status", timeout=PROMPT_S))
        promptly(lambda: guest0.run("true", timeout=PROMPT_S))
        promptly(lambda: host.run("true", timeout=PROMPT_S))
    assert creating().depth >= 16
    works()


def test_plugged_in_before_vrdmad_knows(host, guest1, device, stopped, works):
    """Makes a device and plugs it in while vrdmad is stopped; expects the driver to wait for vrdmad, and to have the
    device afterwards."""
    mdev = mdev_of(host, guest1)
    mac = mdev.mac
    mdev.remove(timeout=60)
    guest1.script(f"while [ -e /sys/class/infiniband/{device} ]; do sleep 0.05; done")
    guest1.forget("function")
    with stopped:
        MdevType(host, "medium").create(mdev.uuid)
        host.script(f"echo {mac} >{mdev.path}/mac")
        guest1.monitor(DEVICE_ADD.format(mdev.uuid))
        guest1.script("until dmesg | grep -q 'no registers of a supported version'; do sleep 0.05; done")
    works()


def test_stopped_during_traffic(connected, stopped):
    """Stops vrdmad, posts a send, and lets vrdmad continue; expects the send to arrive then."""
    left, right = connected()
    right.receive()
    with stopped:
        left.send()
        assert left.sent(1, timeout=0.5) == []
    assert left.sent() == ["SUCCESS"]
    assert right.received() == ["SUCCESS"]


def test_traffic_without_the_control_thread(connected, without_control):
    """Stops the process of the control thread, and posts a send; expects it to arrive meanwhile."""
    left, right = connected()
    right.receive()
    with without_control:
        left.send()
        assert left.sent() == ["SUCCESS"]


def test_stopped_while_a_guest_resets(guest0, stopped, works):
    """Stops vrdmad while a guest unbinds its driver, which resets the device; expects the guest to wait no longer than
    for the timeouts of a command and of the reset."""
    function = guest0.function.rsplit("/", 1)[1]
    with stopped:
        guest0.script(f"echo {function} >{guest0.function}/driver/unbind", timeout=DRIVER_S)
        promptly(lambda: guest0.monitor("info status", timeout=PROMPT_S))
    guest0.script(f"echo {function} >/sys/bus/pci/drivers/vrdma_ib/bind")
    works()


def test_comes_back(guest0, guest1, endpoint, health, works):
    """Kills both processes of vrdmad under two connected processes; expects DEVICE_FATAL, errors, and working devices
    afterwards."""
    left, right = endpoint(guest0), endpoint(guest1)
    connect(left, right)
    before = health.mediator_pid
    health.kill_mediator_and_engine()
    for side, guest in ((left, guest0), (right, guest1)):
        assert "DEVICE_FATAL" in side.device.await_event("DEVICE_FATAL", 20)
        with pytest.raises(VerbsError):
            side.pd.mr(4096, ["LOCAL_WRITE"])
        promptly(lambda: guest.monitor("info status", timeout=PROMPT_S))
        guest.run(f"kill -9 {side.device.session.pid}")
        side.device.session.await_end()
    health.watch_mediator()
    assert health.mediator_pid != before
    works()


def test_guest_boots_without_mediator(host, guest1, device, health, works):
    """Boots a guest while vrdmad is stopped by the operator, then starts it; expects the guest to get its device
    then."""
    host.run("systemctl stop vrdmad")
    guest1.run("modprobe -r vrdma_ib")
    guest1.run("modprobe vrdma_ib")
    assert guest1.run(f"test -e /sys/class/infiniband/{device}", check=False).status != 0
    host.run("systemctl start vrdmad")
    health.watch_mediator()
    works()


def test_idle_sleeps(host, pid):
    """Measures vrdmad's CPU time over two seconds in which no guest does anything; expects less than a tenth of one
    CPU."""

    def ticks() -> int:
        stats = host.script(f"cat /proc/{pid}/stat; for child in $(pgrep -P {pid}); do cat /proc/$child/stat; done")
        fields = [line.rpartition(")")[2].split() for line in stats.stdout.splitlines()]
        return sum(int(times[11]) + int(times[12]) for times in fields)

    before = ticks()
    host.run("sleep 2")
    assert ticks() - before < 20
