# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A device that is VMware's to its guest (personality = "pvrdma"), behind a socket of a vrdmad of the test's own.

A model of Linux's driver plays the guest.
"""

import contextlib
import json
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.control import Control, public_directory, running
from framework.lab import TIMEOUT_S
from framework.native import ADDRESSES, BUILD, Native
from framework.process import Process, Record
from framework.programs import LISTENING, next_port
from framework.pvrdma import CONFIG, Bus, Driver

pytestmark = [pytest.mark.native, pytest.mark.together]

RECV = 0x80
MAC = "52:54:00:77:01:01"
DEVICES = """
[[vfio_user]]
name = "pv"
socket = "{directory}/pv.sock"
personality = "pvrdma"
mac = "{mac}"
window_gib = 1
[[vfio_user]]
name = "ours"
socket = "{directory}/ours.sock"
window_gib = 64
"""


@pytest.fixture
def control(lab: Native, directory: Path) -> Iterator[Control]:
    with running(directory, lab.sanitizers.ours(), DEVICES.format(directory=directory, mac=MAC)) as control:
        yield control


@pytest.fixture
def other_control(lab: Native) -> Iterator[Control]:
    """Another vrdmad, with the same devices."""
    with public_directory() as directory:
        text = DEVICES.format(directory=directory, mac=MAC)
        with running(directory, lab.sanitizers.ours(), text) as control:
            yield control


def path_of(control: Control, name: str = "pv") -> Path:
    return control.directory / f"{name}.sock"


def plug_in(control: Control, name: str = "pv") -> contextlib.closing[Bus]:
    return contextlib.closing(Bus(path_of(control, name)))


def restart(control: Control, bus: Bus) -> None:
    """Restarts vrdmad under a client that keeps its device meanwhile."""
    control.vrdmad.terminate()
    bus.await_request(TIMEOUT_S)
    state = bus.take_away()
    control.vrdmad.wait(TIMEOUT_S)
    control.start_again()
    bus.bring_back(path_of(control), state)


def gid_of(address: str) -> bytes:
    return bytes(10) + b"\xff\xff" + socket.inet_aton(address)


def play(driver: Driver, number: int, size: int) -> None:
    """Sends a message, and receives one."""
    driver.post_recv(number, size)
    driver.post_send(1 << 40 | number, size)
    done: set[int] = set()
    end = time.monotonic() + TIMEOUT_S
    while len(done) < 2:
        completion = driver.poll()
        if completion:
            wr_id, qp, opcode, status = completion
            assert (qp, status) == (driver.handle, 0)
            assert opcode == (RECV if wr_id < 1 << 40 else 0)
            done.add(wr_id)
        assert time.monotonic() < end
    assert done == {number, 1 << 40 | number}


@pytest.mark.parametrize("restarts", [0, 3])
def test_pingpong(control: Control, lab: Native, record: Record, measured: list[str], restarts: int) -> None:
    """Plays ping-pong with ibv_rc_pingpong on vrdma's own device, which checks what it receives.

    Restarts vrdmad meanwhile. Expects each message to complete at both.
    """
    iterations, size, port = 1000, 4096, next_port()
    interrupted = [iterations * number // (restarts + 1) for number in range(1, restarts + 1)]
    own, other = ADDRESSES.values()
    with plug_in(control) as bus:
        driver = Driver(bus)
        assert driver.probe()
        driver.bind(gid_of(own))
        driver.set_up(size)
        words = [str(BUILD / "providers/vrdma/vrdma-run"), "--device", str(control.directory / "ours.sock"),
                 "--address", other, "--", "ibv_rc_pingpong", "-g", "3", "-p", str(port),
                 "-n", str(iterations), "-s", str(size)]
        program = record.add(Process("ibv_rc_pingpong", words, lab.sanitizers.foreign()))
        listens = f"until {LISTENING.format(port=port)}; do sleep 0.02; done"
        subprocess.run(["sh", "-c", listens], check=True, timeout=TIMEOUT_S)
        with socket.create_connection(("127.0.0.1", port)) as exchange:
            exchange.sendall(f"0000:{driver.qpn:06x}:{0x123456:06x}:{gid_of(own).hex()}".encode() + b"\0")
            _, qpn, psn, gid = exchange.recv(52, socket.MSG_WAITALL).rstrip(b"\0").decode().split(":")
            driver.connect(int(qpn, 16), int(psn, 16), 0x123456, bytes.fromhex(gid))
            exchange.sendall(b"done\0")
        begin = time.monotonic()
        for number in range(iterations):
            play(driver, number, size)
            if number in interrupted:
                restart(control, bus)
        if not restarts:
            measured.append(f"round trip between a model of vmw_pvrdma in Python and our device: "
                            f"{(time.monotonic() - begin) / iterations * 1e6:.0f} us")
        assert f"{iterations} iters in" in program.wait(TIMEOUT_S).stdout
        device = json.loads(control.says("device", "show", "pv", "--json"))
        assert device["state"] == "active"


def test_move(control: Control, other_control: Control) -> None:
    """Moves the device to another vrdmad and back, with a queue pair that is connected to itself.

    Expects its messages and the driver's commands to continue, and a vrdmad whose device does not fit to refuse it.
    """
    size = 4096
    with plug_in(control) as bus:
        driver = Driver(bus)
        assert driver.probe()
        driver.bind(gid_of("10.0.0.5"))
        driver.set_up(size)
        driver.connect(driver.qpn, 1, 1, gid_of("10.0.0.5"))
        for number, here in enumerate([other_control, control, other_control]):
            play(driver, number, size)
            state = bus.take_away()
            with pytest.raises(AssertionError, match="Invalid argument"):
                bus.bring_back(path_of(here), state[:-1] + b"x")
            bus.bring_back(path_of(here), state)
            assert json.loads(here.says("device", "show", "pv", "--json"))["state"] == "active"
            play(driver, number, size)
            assert driver.ports() == 1
        driver.remove()
        assert driver.probe()


def test_create(control: Control) -> None:
    """Creates a device while vrdmad runs; expects the driver to find VMware's, and the device to be gone afterwards.

    A device with two clients cannot be VMware's.
    """
    path = control.directory / "made.sock"
    words = ["device", "create", "small", "--name", "made", "--path", str(path), "--window-gib", "1",
             "--personality", "pvrdma"]
    assert "must be \"vrdma\", as the device has several clients" in control.refuses(*words, "--clients", "2")
    assert control.says(*words) == f"{path}\n"
    with plug_in(control, "made") as bus:
        assert Driver(bus).probe()
        assert json.loads(control.says("device", "show", "made", "--json"))["state"] == "active"
        control.says("device", "destroy", "made", "--force")
    assert not path.exists()


def test_reload(control: Control) -> None:
    """Loads and unloads the driver several times, and reconnects as a rebooted VM's monitor does.

    Expects the device to be new each time, and an old driver to be refused.
    """
    with plug_in(control) as bus:
        assert struct.unpack("<HH", bus.read(CONFIG, 0, 4)) == (0x15ad, 0x0820)
        driver = Driver(bus)
        assert not driver.probe(version=19)
        for _ in range(3):
            assert driver.probe()
            driver.set_up(4096)
            driver.remove()
            assert json.loads(control.says("device", "show", "pv", "--json"))["state"] == "unused"
        assert driver.probe()
    with plug_in(control) as bus:
        assert Driver(bus).probe()
