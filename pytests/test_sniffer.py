# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""`vrdmactl sniffer`: what it records of a device's messages, as tshark decodes it, and how it ends."""

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from framework.control import VRDMACTL
from framework.lab import TIMEOUT_S, Guest
from framework.native import Native
from framework.process import Process, Record, Result

pytestmark = pytest.mark.native

NOBODY = 65534
SENT, RECEIVED = "2", "1"  # of pcapng's epb_flags
# Opcodes of BTHs.
SEND, SEND_IMM, WRITE, READ, ATOMIC, UD_SEND = 4, 5, 10, 12, 20, 100
READ_RESPONSE, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE = 16, 17, 18
FIELDS = ("frame.packet_flags_direction", "frame.len", "infiniband.bth.opcode", "infiniband.bth.destqp",
          "_ws.malformed", "_ws.short")


@dataclass(frozen=True)
class Frame:
    direction: str
    length: int
    opcode: int
    qpn: int


def tshark(*words: str | Path, stdin: int | None = None) -> str:
    return subprocess.run(["tshark", *words], stdin=stdin, capture_output=True, text=True, check=True,
                          timeout=TIMEOUT_S).stdout


def decode(file: Path) -> list[Frame]:
    """Expects that tshark decodes all of it as InfiniBand. By itself it takes some payloads for RPC, and then finds
    them wrong."""
    fields = [word for field in FIELDS for word in ("-e", field)]
    text = tshark("-r", file, "--disable-protocol", "rpcordma", "-T", "fields", *fields)
    frames = []
    for line in text.splitlines():
        direction, length, opcode, qpn, malformed, short = line.split("\t")
        assert (malformed, short) == ("", ""), line
        frames.append(Frame(direction[-1], int(length), int(opcode), int(qpn, 0)))
    return frames


class Sniffers:
    """Starts sniffers for the devices that the next programs get."""

    def __init__(self, lab: Native, record: Record, directory: Path) -> None:
        self.lab = lab
        self.directory = directory
        self._record = record

    def command(self, name: str, *words: str | Path) -> list[str]:
        return [str(VRDMACTL), "--socket", str(self.lab.control_of(name)), *(str(word) for word in words)]

    def run(self, name: str, *words: str | Path, **options: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(name, *words), capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S, **options)  # type: ignore[call-overload]

    def device(self, name: str) -> str:
        """The first device behind this socket that no program has."""
        devices = json.loads(self.run(name, "device", "list", "--json").stdout)["devices"]
        return next(device["name"] for device in devices
                    if device["name"].startswith(name.replace(".", "-") + "/") and device["state"] == "unused")

    def start(self, name: str, file: str | Path, *words: str) -> Process:
        command = self.command(name, "sniffer", "start", self.device(name), file, *words)
        started: list[Process] = []

        def begin() -> None:
            started.append(self._record.add(Process("vrdmactl sniffer", command, dict(os.environ))))

        self.lab.mediator_of(name).await_after(begin, "a sniffer records its messages", TIMEOUT_S)
        return started[0]

    def end(self, process: Process) -> Result:
        process.signal(signal.SIGINT)
        return process.wait(TIMEOUT_S, check=False)

    def await_end(self, name: str, action: Callable[[], None]) -> str:
        """The line by which vrdmad says what the sniffer has recorded."""
        return self.lab.mediator_of(name).await_after(action, "its sniffer has ended", TIMEOUT_S)


@pytest.fixture
def sniffers(lab: Native, record: Record, tmp_path: Path) -> Sniffers:
    return Sniffers(lab, record, tmp_path)


OPERATIONS = {
    "ibv_rc_pingpong -s 64 -n 20": {SEND: 40},
    "ibv_uc_pingpong -s 64 -n 20": {SEND | 1 << 5: 40},
    "ibv_ud_pingpong -s 64 -n 20": {UD_SEND: 40},
    "ib_write_bw -F -s 64 -n 20": {WRITE: 20},
    "ib_read_bw -F -s 64 -n 20": {READ: 20, READ_RESPONSE: 20},
    "ib_atomic_bw -F -n 20": {ATOMIC: 20, ATOMIC_ACKNOWLEDGE: 20},
}


@pytest.mark.parametrize("gid_type", ["RoCE v2", "IB/RoCE v1"])
@pytest.mark.parametrize("command", OPERATIONS)
def test_operations(pair, sniffers: Sniffers, guest0: Guest, guest1: Guest, command: str, gid_type: str) -> None:
    """Runs a program between two devices with sniffers. Expects that tshark decodes all frames, that both files have
    each message, with opposite directions, and besides only acknowledgements, of packets."""
    files = {guest: sniffers.directory / guest.name for guest in (guest0, guest1)}
    running = [sniffers.start(guest.name, file) for guest, file in files.items()]
    pair(command, gid_type=gid_type)
    for process in running:
        result = sniffers.end(process)
        assert result.status == 0 and ", and 0 dropped" in result.stdout
    sides = [[frame for frame in decode(file) if frame.opcode != ACKNOWLEDGE] for file in files.values()]
    expected = OPERATIONS[command]
    for frames in sides:
        seen = Counter(frame.opcode for frame in frames)
        # perftest's two sides may also say hello and good-bye.
        assert {opcode: count for opcode, count in seen.items() if opcode in expected} == expected
    opposite = {SENT: RECEIVED, RECEIVED: SENT}
    ours, theirs = sides
    assert sorted((frame.opcode, frame.qpn, frame.direction) for frame in ours) == sorted(
        (frame.opcode, frame.qpn, opposite[frame.direction]) for frame in theirs)


@pytest.mark.together
def test_long_messages(pair, sniffers: Sniffers, guest0: Guest) -> None:
    """Sends messages that are longer than what is recorded of them, and than IP packets can be. Expects one frame for
    each, with its length."""
    for size, payload in ((100, 8), (100_000, 4096)):
        file = sniffers.directory / f"{size}"
        process = sniffers.start(guest0.name, file, "--payload", str(payload))
        pair(f"ibv_rc_pingpong -s {size} -n 5")
        sniffers.end(process)
        frames = decode(file)
        assert {frame.opcode for frame in frames} == {SEND} and len(frames) == 10
        assert all(size < frame.length < size + 100 for frame in frames)


def test_standard_output(pair, sniffers: Sniffers, guest0: Guest) -> None:
    """Pipes the frames into tshark while they come; expects that it shows each, and that a reader that leaves ends the
    sniffer without an error."""
    name = guest0.name
    read_end, write_end = os.pipe()
    command = sniffers.command(name, "sniffer", "start", sniffers.device(name), "-")
    with subprocess.Popen(command, stdout=write_end, stderr=subprocess.PIPE, text=True) as sniffer:
        os.close(write_end)
        with subprocess.Popen(["tshark", "-l", "-i", "-", "-c", "10"], stdin=read_end, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as reader:
            os.close(read_end)
            assert reader.stderr and any("Capturing on" in line for line in reader.stderr)
            pair("ibv_rc_pingpong -s 64 -n 20")
            shown, _ = reader.communicate(timeout=TIMEOUT_S)
        assert shown.count("RC ") == 10
        pair("ibv_rc_pingpong -s 64 -n 5")
        _, stderr = sniffer.communicate(timeout=TIMEOUT_S)
        assert sniffer.returncode == 0 and " frames, and 0 dropped" in stderr


def test_refusals(sniffers: Sniffers, guest0: Guest) -> None:
    """Starts sniffers that cannot be; expects a reason for each, and no file."""
    name = guest0.name
    device = sniffers.device(name)
    file = sniffers.directory / "file"

    def refused(*words: str | Path, reason: str, status: int = 1, **options: int) -> None:
        result = sniffers.run(name, "sniffer", *words, **options)
        assert (result.returncode, result.stdout) == (status, "") and reason in result.stderr

    refused("start", "nothing", file, reason="there is no device 'nothing' (ENOENT)")
    refused("start", device, file, "--payload", "5000", reason="payload must be a number from 0 to 4096 (EINVAL)")
    refused("start", device, reason="FILE is required", status=2)
    refused("start", device, sniffers.directory / "none/file", reason="No such file or directory")
    refused("stop", device, reason=f"the device '{device}' has no sniffer (ENOENT)")
    assert not file.exists()
    file.write_text("mine")
    refused("start", device, file, reason=f"{file}: File exists")
    assert file.read_text() == "mine"
    process = sniffers.start(name, sniffers.directory / "other")
    refused("start", device, sniffers.directory / "third", reason=f"'{device}' has a sniffer already (EBUSY)")
    assert not (sniffers.directory / "third").exists()
    sniffers.end(process)


def test_permission(sniffers: Sniffers, guest0: Guest) -> None:
    """Starts a sniffer as a user who may not change anything; expects EACCES. The file of one who may is nobody
    else's."""
    socket = sniffers.lab.control_of(guest0.name)
    for path in (socket.parent, socket):
        path.chmod(0o777)
    result = sniffers.run(guest0.name, "sniffer", "start", sniffers.device(guest0.name), "-", user=NOBODY, group=NOBODY)
    assert result.returncode == 1 and "(EACCES)" in result.stderr
    file = sniffers.directory / "file"
    sniffers.end(sniffers.start(guest0.name, file))
    assert file.stat().st_mode & 0o777 == 0o600


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", directory], check=True)


def test_full_disk(pair, sniffers: Sniffers, guest0: Guest) -> None:
    """Records more than the disk takes; expects that vrdmactl says so, that the file is readable, that the device's
    program succeeds, and that vrdmad logs the end."""
    with small_disk(sniffers.directory / "disk") as disk:
        process = sniffers.start(guest0.name, disk / "file")
        ended = sniffers.await_end(guest0.name, lambda: pair("ibv_rc_pingpong -s 64 -n 2000") and None)
        result = process.wait(TIMEOUT_S, check=False)
        assert result.status == 1 and f"{disk}/file: No space left on device" in result.stderr
        assert " frames, of which " in ended
        assert len(decode(disk / "file")) > 100


def test_client_is_killed(pair, sniffers: Sniffers, guest0: Guest) -> None:
    """Kills vrdmactl, of a busy device and of one that rests; expects that vrdmad ends the sniffer, that the file is
    readable, and that there can be another."""
    for name in ("busy", "resting"):
        process = sniffers.start(guest0.name, sniffers.directory / name)
        if name == "busy":
            pair("ibv_rc_pingpong -s 64 -n 100")
        sniffers.await_end(guest0.name, process.kill)
    assert {frame.opcode for frame in decode(sniffers.directory / "busy")} <= {SEND, ACKNOWLEDGE}
    sniffers.end(sniffers.start(guest0.name, sniffers.directory / "another"))


def test_stopped_by_another(pair, sniffers: Sniffers, guest0: Guest) -> None:
    """Stops a sniffer by a second vrdmactl; expects that the first one has all frames, and says why it ends."""
    device = sniffers.device(guest0.name)
    process = sniffers.start(guest0.name, sniffers.directory / "file")
    pair("ibv_rc_pingpong -s 64 -n 20")
    assert sniffers.run(guest0.name, "sniffer", "stop", device).returncode == 0
    result = process.wait(TIMEOUT_S)
    assert "The sniffer was stopped, or its device has gone." in result.stdout
    assert Counter(frame.opcode for frame in decode(sniffers.directory / "file"))[SEND] == 40


def test_restart(pair, sniffers: Sniffers, guest0: Guest) -> None:
    """Restarts vrdmad; expects that vrdmactl says that it has gone, and that the file is readable."""
    file = sniffers.directory / "file"
    process = sniffers.start(guest0.name, file)
    sniffers.lab.stop_mediator()
    try:
        result = process.wait(TIMEOUT_S, check=False)
    finally:
        sniffers.lab.start_mediator_again()
    assert result.status == 3 and "vrdmad has hung up" in result.stderr
    assert decode(file) == []
    pair("ibv_rc_pingpong -n 5")
