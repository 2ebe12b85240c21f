# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""vrdmactl with the control socket of a vrdmad of its own, which has several devices."""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.authority import Authority
from framework.control import VRDMACTL, Control, public_directory, running
from framework.fabric import PORT, fabric_config
from framework.lab import TIMEOUT_S
from framework.native import BUILD, Native, ip
from framework.process import Process, Record

pytestmark = [pytest.mark.native, pytest.mark.together]

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


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with public_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def control(lab: Native, directory: Path) -> Iterator[Control]:
    devices = "".join(f'[[vfio_user]]\nname = "disk-{number:02}"\nsocket = "{directory}/{number}.sock"\n'
                      f'type = "tiny"\nclients = {CLIENTS}\nwindow_gib = 1\n' for number in range(SOCKETS))
    devices += f'uplink = "{INTERFACE}"\naddresses = "fd99::1"\n'  # of the last one
    ip(f"link add {INTERFACE} type veth peer name {INTERFACE}-peer", f"link set {INTERFACE} up")
    try:
        with running(directory, lab.sanitizers.ours(), f"{TYPE}{network(directory)}{devices}") as control:
            yield control
    finally:
        ip(f"link del {INTERFACE}")


def ping(control: Control, number: int, gid: int, port: int, *words: str) -> list[str]:
    """A pingpong by a device behind the socket with that number, by its GID with that number."""
    return [str(BUILD / "providers/vrdma/vrdma-run"), "--device", str(control.directory / f"{number}.sock"), "--",
            "stdbuf", "-oL", "ibv_rc_pingpong", "-g", str(gid), "-p", str(port), *words]


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


def test_limit_set(control: Control) -> None:
    """Sets limits of a device; expects these, the others as they were, and the configuration's after a reload."""
    assert "Weight:                     7" in control.says("limit", "set", "disk-01/3", "--weight", "7")
    limits = json.loads(control.says("limit", "set", "disk-01/3", "--bytes-per-second", "1000000", "--json"))
    assert (limits["weight"], limits["max_bytes_per_second"], limits["max_operations_per_second"]) == (7, 1_000_000, 0)
    assert json.loads(control.says("limit", "show", "disk-01/2", "--json"))["weight"] == 100
    assert "must be a number from 1 to 10000 (EINVAL)" in control.refuses("limit", "set", "disk-01/3", "--weight", "0")
    assert "(ENOENT)" in control.refuses("limit", "set", "disk-99", "--weight", "1")
    misuses: list[list[str]] = [[], ["--weight", "x"], ["--mw", "1"]]
    for words in misuses:
        assert control.run("limit", "set", "disk-01/3", *words).returncode == 2
    member = control.run("limit", "set", "disk-01/3", "--weight", "1", user=NOBODY, group=NOBODY)
    assert member.returncode == 1 and "(EACCES)" in member.stderr
    control.says("reload")
    assert json.loads(control.says("limit", "show", "disk-01/3", "--json"))["weight"] == 100


def test_a_device_in_use(control: Control, lab: Native, record: Record) -> None:
    """Shows a device that a program has opened; expects its state, its objects and its counters."""
    program = record.add(Process("ibv_rc_pingpong", ping(control, 2, 0, 18599), lab.sanitizers.foreign()))
    program.await_line("local address", TIMEOUT_S, stream="stdout")
    shown = json.loads(control.says("device", "show", "disk-02/0", "--json"))
    assert (shown["state"], shown["mtu"]) == ("active", 4096)
    assert shown["resources"]["qp"] == {"used": 1, "max": 16}
    assert "tx_bytes:" in control.says("device", "stats", "disk-02/0")
    program.kill()


def test_quotas(control: Control, lab: Native, record: Record) -> None:
    """Leaves a device no QP, and expects that a program gets none. Then leaves it 1, and starts a program. Expects that
    less than it has, and more than its type allows, are refused, and all else with them."""
    def pingpong() -> Process:
        return record.add(Process("ibv_rc_pingpong", ping(control, 3, 0, 18598), lab.sanitizers.foreign()))

    def device() -> dict[str, Any]:
        return json.loads(control.says("device", "show", "disk-03/0", "--json"))

    quotas = "limit", "set", "disk-03/0"
    before = device()["resources"]
    control.says(*quotas, "--qp", "0")
    assert device()["resources"] == before | {"qp": {"used": 0, "max": 0}}
    refused = pingpong().wait(TIMEOUT_S, check=False)
    assert refused.status == 1 and "Couldn't create QP" in refused.stderr
    control.says(*quotas, "--qp", "1")
    program = pingpong()
    program.await_line("local address", TIMEOUT_S, stream="stdout")
    used = device()["resources"]
    assert used["qp"] == {"used": 1, "max": 1}
    assert "'disk-03/0' has 1 of qp already (EBUSY)" in control.refuses(*quotas, "--ah", "3", "--qp", "0")
    assert "the type of 'disk-03/0' allows 16 of qp (EINVAL)" in control.refuses(*quotas, "--weight", "3", "--qp", "17")
    assert "of memory already (EBUSY)" in control.refuses(*quotas, "--memory", str(used["memory"]["used"] - 1))
    assert device()["resources"] == used and device()["weight"] == 100
    control.says(*quotas, "--qp", "16")
    assert device()["resources"] == used | {"qp": {"used": 1, "max": 16}}
    control.says(*quotas, "--memory", str(used["memory"]["used"]))
    assert device()["resources"]["memory"]["max"] == used["memory"]["used"]
    control.says(*quotas, "--memory", "0")  # lifts it
    assert device()["resources"]["memory"] == used["memory"]
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


def test_netdevs(control: Control) -> None:
    """Lists the interfaces of devices; expects that of the devices with an uplink."""
    devices = json.loads(control.says("device", "netdev", "list", "--json"))["devices"]
    assert len(devices) == DEVICES
    assert (devices[0]["name"], devices[0]["netdev"]) == ("disk-00/0", None)
    assert (devices[-1]["uplink"], devices[-1]["netdev"]) == (INTERFACE, INTERFACE)
    title, first, *_, last = control.says("device", "netdev", "list").splitlines()
    assert re.split(" {2,}", title) == ["Name", "Uplink", "Netdev", "Netdev State", "MAC Address"]
    assert first.split() == ["disk-00/0", "-", "-", "-", "-"]
    assert last.split()[:3] == ["disk-04/9", INTERFACE, INTERFACE]


def fake_sysfs(directory: Path) -> Path:
    """A directory that looks like sysfs with one type and one device. Its attributes keep what is written to them."""
    mdev_type = directory / "class/mdev_bus/vrdma/mdev_supported_types/vrdma-small"
    device = directory / f"bus/mdev/devices/{UUID}"
    for made in (mdev_type, device, directory / "module/vrdma_mdev"):
        made.mkdir(parents=True)
    for attribute in (mdev_type / "create", device / "mac", device / "remove"):
        attribute.touch()
    (device / "mdev_type").symlink_to(mdev_type)
    return directory


UUID = "6aeb1a04-3a2c-4d4c-9a51-2b1ad5d2ac60"


def test_create_and_destroy(tmp_path: Path) -> None:
    """Creates and destroys mediated devices in a directory in the place of sysfs; expects the UUID to be printed and
    written. The control socket is not there."""
    sysfs = fake_sysfs(tmp_path / "sys")

    def vrdmactl(*words: str) -> tuple[int, str]:
        command = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /sys && exec "$@"', str(sysfs), str(VRDMACTL),
                   "--socket", "/nonexistent", "device", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        return done.returncode, done.stdout + done.stderr

    create = sysfs / "class/mdev_bus/vrdma/mdev_supported_types/vrdma-small/create"
    status, created = vrdmactl("create", "small")
    assert (status, create.read_text() + "\n") == (0, created)
    status, created = vrdmactl("create", "small", "--json")
    assert json.loads(created) == {"name": create.read_text(), "parent": "vrdma", "type": "small"}
    assert "already (EEXIST)" in vrdmactl("create", "small", "--uuid", UUID)[1]
    assert vrdmactl("create", "tiny") == (1, "vrdmactl: 'vrdma' has no type 'tiny', but these: small (ENOENT)\n")
    assert "(ENODEV)" in vrdmactl("create", "small", "--parent", "other")[1]
    assert "(EINVAL)" in vrdmactl("create", "small", "--uuid", "disk")[1]
    assert vrdmactl("create")[0] == 2
    assert "(ENOENT)" in vrdmactl("destroy", "0" + UUID[1:])[1]
    assert vrdmactl("destroy", UUID) == (0, "")
    assert (sysfs / f"bus/mdev/devices/{UUID}/remove").read_text() == "1"


V1_GID, V2_GID = 0, 1  # both are of the link-local address


def test_protocols(control: Control, lab: Native, record: Record) -> None:
    """Takes RoCE v1 from a device; expects connections by v2 only. Takes v2 while it is in use; expects EBUSY."""
    devices = json.loads(control.says("device", "protocol", "list", "--json"))["devices"]
    assert (devices[0]["name"], devices[0]["roce_v1"], devices[0]["roce_v2"]) == ("disk-00/0", None, None)
    assert (devices[-1]["uplink"], devices[-1]["roce_v1"], devices[-1]["roce_v2"]) == (INTERFACE, True, True)
    for number in range(CLIENTS):
        control.says("device", "protocol", "set", f"disk-04/{number}", "roce-v2")
    title, line = control.says("device", "protocol", "set", "disk-04/0", "roce-v2").splitlines()
    assert re.split(" {2,}", title) == ["Name", "RoCE v1", "RoCE v2", "Paired Uplink"]
    assert line.split() == ["disk-04/0", "false", "true", INTERFACE]
    server = record.add(Process("ibv_rc_pingpong", ping(control, 4, V1_GID, 18602), lab.sanitizers.foreign()))
    server.await_line("local address", TIMEOUT_S, stream="stdout")
    client = record.add(Process("ibv_rc_pingpong", ping(control, 4, V1_GID, 18602, "127.0.0.1"),
                                lab.sanitizers.foreign()))
    for program in (server, client):
        assert program.wait(TIMEOUT_S, check=False).status == 1
    assert "Failed to modify QP to RTR" in "".join(server.lines("stderr"))
    programs: list[Process] = []
    clients: list[list[str]] = [[], ["127.0.0.1"]]
    for words in clients:
        command = ping(control, 4, V2_GID, 18603, "-n", "100000000", *words)
        programs.append(record.add(Process("ibv_rc_pingpong", command, lab.sanitizers.foreign())))
        programs[-1].await_line("remote address" if words else "local address", TIMEOUT_S, stream="stdout")
    busy = control.refuses("device", "protocol", "set", "disk-04/0", "roce-v1")
    assert busy == "vrdmactl: 1 connected QPs and 0 AHs use RoCE v2 (EBUSY)\n"
    assert "disk-04/0 " in control.says("device", "protocol", "set", "disk-04/0", "both")
    assert "has no uplink (EOPNOTSUPP)" in control.refuses("device", "protocol", "set", "disk-00/0", "both")
    assert "(ENOENT)" in control.refuses("device", "protocol", "set", "disk-99", "both")
    assert control.run("device", "protocol", "set", "disk-04/0", "iwarp").returncode == 2
    for program in programs:
        program.kill()
    for number in range(CLIENTS):
        control.says("device", "protocol", "set", f"disk-04/{number}", "both")


def test_top(control: Control, lab: Native, record: Record) -> None:
    """Sends messages between two clients of a device; expects their rates, and none of unused devices."""
    programs: list[Process] = []
    clients: list[list[str]] = [[], ["127.0.0.1"]]
    for words in clients:
        programs.append(record.add(Process("ibv_rc_pingpong", [
            str(BUILD / "providers/vrdma/vrdma-run"), "--device", str(control.directory / "3.sock"), "--", "stdbuf",
            "-oL", "ibv_rc_pingpong", "-g", "0", "-p", "18601", "-n", "100000000", *words], lab.sanitizers.foreign())))
        programs[-1].await_line("remote address" if words else "local address", TIMEOUT_S, stream="stdout")
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        found = json.loads(control.says("top", "--once", "--interval", "0.2", "--json"))
        rates = {device["name"]: device["rates"] for device in found["devices"]}
        if rates["disk-03/0"]["tx_messages"] > 0 or time.monotonic() > deadline:
            break
    assert set(rates) == {"disk-03/0", "disk-03/1"}
    assert all(rates[name][counter] > 0 for name in rates for counter in ("tx_bytes", "rx_bytes", "tx_messages"))
    assert found["seconds"] >= 0.2
    title, *lines = control.says("top", "--once", "--interval", "0.2").splitlines()
    assert title.startswith("Name       TX Bytes/s")
    assert {line.split()[0] for line in lines} == {"disk-03/0", "disk-03/1"}
    for program in programs:
        program.kill()
    for interval in ("0", "-1", "x", "1e9", "nan", "-nan", "inf"):
        assert control.run("top", "--once", "--interval", interval).returncode == 2


def test_top_goes_on(control: Control, record: Record) -> None:
    """Runs top until it is interrupted; expects one line of JSON per interval."""
    top = record.add(Process("top", [str(VRDMACTL), "--socket", str(control.socket), "top", "--json", "--interval",
                                     "0.05"], {}))
    for line in range(3):
        assert json.loads(top.await_line("seconds", TIMEOUT_S, stream="stdout", begin=line))["devices"] == []
    top.kill()


def test_log_level(control: Control) -> None:
    """Sets the log level; expects vrdmad to have it, and to refuse others."""
    assert control.says("log-level") == "info\n"
    assert control.says("log-level", "debug") == "debug\n"
    assert control.says("log-level") == "debug\n"
    assert "'loud' is no log level, but these are: trace, debug, info, warning, error, critical, off (EINVAL)" in (
        control.refuses("log-level", "loud"))
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
    assert "'dump' is no command of vrdmactl device, but these: list, show" in control.run("device", "dump").stderr
    assert subprocess.run([VRDMACTL, "--socket", "/nonexistent", "reload"], check=False,
                          capture_output=True).returncode == 3


@pytest.mark.parametrize("words, reason", [
    (["--colour"], "not expected: --colour"),
    (["--config"], "--config: 1 required"),
    (["--log-level", "loud"], "--log-level: 'loud' is not trace, debug, info, warning, error, critical or off"),
    (["--forbidden-calls", "ignore"], "--forbidden-calls: ignore not in {refuse,kill,allow}"),
])  # fmt: skip
def test_usage_of_vrdmad(words: list[str], reason: str) -> None:
    """Gives vrdmad wrong arguments; expects a reason, and the exit status 2."""
    done = subprocess.run([BUILD / "mediator/control/vrdmad", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("vrdmad: ") and reason in done.stderr


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
              "complete_line dev; complete_line device sh; complete_line log-level w; "
              "complete_line device netdev l; complete_line top --o; complete_line limit set disk --w; "
              "complete_line device protocol set disk b; complete_line device cr; complete_line device destroy disk -; "
              "complete_line uplink r; complete_line device create tiny --na")
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=TIMEOUT_S,
                          env={"PATH": f"{VRDMACTL.parent}:{os.environ['PATH']}"})
    assert done.stdout.splitlines() == ["device", "show", "warning", "list", "--once", "--weight", "both", "create",
                                        "--force --cdi-directory --json --socket", "remove", "--name"]
