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

from framework.control import Control, running
from framework.lab import TIMEOUT_S
from framework.native import ADDRESSES, BUILD, Native
from framework.process import Process, Record
from framework.programs import LISTENING, next_port
from framework.pvrdma import CONFIG, Bus, Driver

pytestmark = [pytest.mark.native, pytest.mark.together]

RECV = 0x80
DEVICES = """
[[vfio_user]]
name = "pv"
socket = "{directory}/pv.sock"
personality = "pvrdma"
window_gib = 1
[[vfio_user]]
name = "ours"
socket = "{directory}/ours.sock"
window_gib = 64
"""


@pytest.fixture
def control(lab: Native, directory: Path) -> Iterator[Control]:
    with running(directory, lab.sanitizers.ours(), DEVICES.format(directory=directory)) as control:
        yield control


def plug_in(control: Control, name: str = "pv") -> contextlib.closing[Bus]:
    return contextlib.closing(Bus(control.directory / f"{name}.sock"))


def gid_of(address: str) -> bytes:
    return bytes(10) + b"\xff\xff" + socket.inet_aton(address)


def test_pingpong(control: Control, lab: Native, record: Record, measured: list[str]) -> None:
    """Plays ping-pong with ibv_rc_pingpong on vrdma's own device, which checks what it receives.

    Expects each message to complete at both.
    """
    iterations, size, port = 1000, 4096, next_port()
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
            driver.post_recv(number, size)
            driver.post_send(1 << 40 | number, size)
            done: set[int] = set()
            while len(done) < 2:
                completion = driver.poll()
                if completion:
                    wr_id, qp, opcode, status = completion
                    assert (qp, status) == (driver.handle, 0)
                    assert opcode == (RECV if wr_id < 1 << 40 else 0)
                    done.add(wr_id)
                assert time.monotonic() - begin < TIMEOUT_S
            assert done == {number, 1 << 40 | number}
        measured.append(f"round trip between a model of vmw_pvrdma in Python and our device: "
                        f"{(time.monotonic() - begin) / iterations * 1e6:.0f} us")
        assert f"{iterations} iters in" in program.wait(TIMEOUT_S).stdout
        device = json.loads(control.says("device", "show", "pv", "--json"))
        assert device["state"] == "active"


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
