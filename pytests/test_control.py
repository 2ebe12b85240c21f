# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""vrdmactl with the control socket of a vrdmad of its own, which has several devices."""

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.authority import Authority
from framework.fabric import PORT, fabric_config
from framework.lab import TIMEOUT_S
from framework.native import BUILD, Native, ip
from framework.process import Process, Record

pytestmark = [pytest.mark.native, pytest.mark.together]

VRDMACTL = BUILD / "ctl/vrdmactl"
SOCKETS = 5
CLIENTS = 16  # each has a device; so many are possible with the usual vm.max_map_count
DEVICES = SOCKETS * CLIENTS
NOBODY = 65534
GROUP = 65533  # of no user
BAD_FILE = 'log_level = "loud"\n'
TYPE = "[types.tiny]\nmax_qp = 16\nmax_cq = 16\nmax_mr = 16\ndoorbell_pages = 2\n"


INTERFACE = "vrdmactl0"
OWN_PORT = "7479"  # of the fabric


def network(directory: Path) -> str:
    """The configuration of an uplink, and of a fabric with a peer that is not there."""
    credentials = Authority(directory).issue("127.0.0.1")
    fabric = fabric_config("127.0.0.1", "127.0.0.9", credentials, ["fd99::9"])
    return f'[[uplink]]\ninterface = "{INTERFACE}"\n' + fabric.replace(str(PORT), OWN_PORT)


class Control:
    """A vrdmad with a control socket."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        self.environment = environment
        self.socket = directory / "control.sock"
        self.file = directory / "vrdmad.conf"
        directory.chmod(0o755)
        devices = "".join(f'[[vfio_user]]\nname = "disk-{number:02}"\nsocket = "{directory}/{number}.sock"\n'
                          f'type = "tiny"\nclients = {CLIENTS}\nwindow_gib = 1\n' for number in range(SOCKETS))
        self.text = (f'mdev = false\n[control]\nsocket = "{self.socket}"\ngroup = "nogroup"\n'
                     f'{TYPE}{network(directory)}{devices}')
        self.file.write_text(self.text)
        self.vrdmad = Process("vrdmad", [str(BUILD / "mediator/control/vrdmad"), "--config", str(self.file),
                                         "--forbidden-calls", "kill"], environment)
        self.vrdmad.await_line(" serves vrdma", TIMEOUT_S)

    def run(self, *words: str, user: int | None = None, group: int | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run([VRDMACTL, "--socket", self.socket, *words], capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S, user=user, group=group, extra_groups=None if user is None else [])

    def says(self, *words: str) -> str:
        """What it prints if it succeeds."""
        result = self.run(*words)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    def refuses(self, *words: str) -> str:
        """What it says if vrdmad refuses."""
        result = self.run(*words)
        assert (result.returncode, result.stdout) == (1, "")
        return result.stderr

    def connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(self.socket))
        return client


@pytest.fixture(scope="module")
def control(lab: Native, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    directory = tmp_path_factory.mktemp("control")
    for parent in (directory, directory.parent, directory.parent.parent):
        parent.chmod(0o755)  # others come as far as the socket
    ip(f"link add {INTERFACE} type veth peer name {INTERFACE}-peer", f"link set {INTERFACE} up")
    try:
        control = Control(directory, lab.sanitizers.ours())
        yield control
        control.vrdmad.terminate()
        control.vrdmad.wait(TIMEOUT_S)
        assert not control.socket.exists()
    finally:
        ip(f"link del {INTERFACE}")


def test_device_list(control: Control, measured: list[str]) -> None:
    """Lists all devices, as text and as JSON; expects the same names in their order."""
    begin = time.monotonic()
    text = control.says("device", "list")
    measured.append(f"vrdmactl device list: {DEVICES} devices in {(time.monotonic() - begin) * 1000:.0f} ms")
    title, *lines = text.splitlines()
    assert title.split("  ")[0] == "Name" and "Paired Uplink" in title
    names = sorted(f"disk-{number:02}/{client}" for number in range(SOCKETS) for client in range(CLIENTS))
    assert [line.split()[0] for line in lines] == names
    assert lines[0].split()[:3] == ["disk-00/0", "vrdma", "Unused"]
    devices = json.loads(control.says("device", "list", "--json"))["devices"]
    assert [device["name"] for device in devices] == names
    assert devices[0]["kind"] == "virtual" and devices[0]["type"] == "tiny"


def test_one_device(control: Control) -> None:
    """Shows a device and its limits; expects counters only while it is in use."""
    shown = json.loads(control.says("device", "show", "disk-01/2", "--json"))
    assert (shown["name"], shown["state"], shown["weight"]) == ("disk-01/2", "unused", 100)
    assert "Max bytes per second:       unlimited" in control.says("limit", "show", "disk-01/2")
    assert "(EBUSY)" in control.refuses("device", "stats", "disk-01/2")
    assert "there is no device 'disk-99' (ENOENT)" in control.refuses("device", "show", "disk-99")
    assert "(ENOENT)" in control.refuses("limit", "show", "../devices")


def test_a_device_in_use(control: Control, lab: Native, record: Record) -> None:
    """Shows a device that a program has opened; expects its state, its objects and its counters."""
    words = [str(BUILD / "providers/vrdma/vrdma-run"), "--device", str(control.directory / "2.sock"), "--",
             "stdbuf", "-oL", "ibv_rc_pingpong", "-g", "0", "-p", "18599"]
    program = record.add(Process("ibv_rc_pingpong", words, lab.sanitizers.foreign()))
    program.await_line("local address", TIMEOUT_S, stream="stdout")
    shown = json.loads(control.says("device", "show", "disk-02/0", "--json"))
    assert (shown["state"], shown["mtu"]) == ("active", 4096)
    assert shown["resources"]["qp"] == {"used": 1, "max": 16}
    assert "tx_bytes:" in control.says("device", "stats", "disk-02/0")
    program.kill()


def test_network(control: Control) -> None:
    """Lists the uplinks and the peers; expects the link's state, and its changes."""
    ethernet, fabric = json.loads(control.says("uplink", "list", "--json"))["uplinks"]
    assert (ethernet["name"], ethernet["kind"], ethernet["state"]) == (INTERFACE, "ethernet", "down")
    assert (fabric["name"], fabric["provider"], fabric["peers"]) == ("wan", "tcp", 1)
    control.vrdmad.await_after(lambda: ip(f"link set {INTERFACE}-peer up"), f"{INTERFACE} is up", TIMEOUT_S)
    assert json.loads(control.says("uplink", "list", "--json"))["uplinks"][0]["state"] == "up"
    title, peer = control.says("peer", "list").splitlines()
    assert title.startswith("Name")
    assert re.split(" {2,}", peer) == ["127.0.0.9", "wan", "Not connected", "1", f"127.0.0.9:{OWN_PORT}"]


def test_log_level(control: Control) -> None:
    """Sets the log level; expects vrdmad to have it, and to refuse others."""
    assert control.says("log-level") == "info\n"
    assert control.says("log-level", "debug") == "debug\n"
    assert control.says("log-level") == "debug\n"
    assert "'loud' is no log level (EINVAL)" in control.refuses("log-level", "loud")
    control.says("log-level", "info")


def test_reload(control: Control) -> None:
    """Reloads a changed file; expects to hear what has changed, and what takes a restart. A broken one changes
    nothing."""
    assert control.says("reload") == "nothing has changed\n"
    control.file.write_text(BAD_FILE)
    assert 'log_level = "loud": must be' in control.refuses("reload")
    control.file.write_text(control.text.replace("max_qp = 16", "max_qp = 32\nweight = 50"))
    changed = control.says("reload").splitlines()
    assert changed[0].startswith("changed: types.tiny: weight 50")
    assert "takes a restart: types.tiny" in changed
    assert json.loads(control.says("device", "show", "disk-00/0", "--json"))["weight"] == 50
    control.file.write_text(control.text)
    control.says("reload")


def test_permissions(control: Control) -> None:
    """Asks as another user; expects the socket to be closed to strangers, and its group to look only."""
    stranger = control.run("device", "list", user=NOBODY, group=GROUP)
    assert stranger.returncode == 3
    assert control.run("device", "list", user=NOBODY, group=NOBODY).returncode == 0
    member = control.run("reload", user=NOBODY, group=NOBODY)
    assert member.returncode == 1 and "(EACCES)" in member.stderr


def test_usage(control: Control) -> None:
    """Gives wrong arguments; expects the exit status 2."""
    for words in (["device"], ["device", "show"], ["nothing"], ["device", "list", "more"], ["--colour"]):
        assert control.run(*words).returncode == 2
    assert subprocess.run([VRDMACTL, "--socket", "/nonexistent", "reload"], check=False,
                          capture_output=True).returncode == 3


def test_hostile_clients(control: Control) -> None:
    """A thousand clients that say nothing, and some that say nonsense; expects others to be served at once."""
    silent = [control.connect() for _ in range(1000)]
    for nonsense in (b"\0\xff\n\n", b"GET " + b"x" * 100_000, b"PUT /v1/log-level HTTP/1.1\r\nHost: x\r\n"
                     b"Content-Length: 99999999\r\n\r\n", b"PUT /v1/log-level HTTP/1.1\r\nHost: x\r\n"
                     b"Content-Length: 1\r\n\r\n{"):
        with control.connect() as client:
            try:
                client.sendall(nonsense)
                assert not client.recv(100).startswith(b"HTTP/1.1 200")
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has hung up before all was sent
    assert control.says("log-level") == "info\n"
    for client in silent:
        client.close()


def test_completion(control: Control) -> None:
    """Completes command lines in bash; expects commands and levels."""
    script = ("source /usr/share/bash-completion/bash_completion; source ctl/vrdmactl.completion; "
              "complete_line() { COMP_WORDS=(vrdmactl \"$@\"); COMP_CWORD=$#; _vrdmactl; echo \"${COMPREPLY[@]}\"; }; "
              "complete_line dev; complete_line device sh; complete_line log-level w")
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=TIMEOUT_S,
                          env={"PATH": f"{VRDMACTL.parent}:{os.environ['PATH']}"})
    assert done.stdout.split("\n")[:3] == ["device", "show", "warning"]
