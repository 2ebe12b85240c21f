# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Devices behind sockets and uplinks that are made and removed while vrdmad runs (vrdmactl device create, uplink add),
each test with a vrdmad of its own."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from framework.control import Control, public_directory, running
from framework.lab import TIMEOUT_S
from framework.native import BUILD, Native, ip
from framework.process import Process, Record

pytestmark = [pytest.mark.native, pytest.mark.together]

NOBODY = 65534
SPARE = 6
CONFIG = """
[types.tiny]
max_qp = 16
doorbell_pages = 2
weight = 30
[[vfio_user]]
name = "fixed"
socket = "{directory}/fixed.sock"
type = "tiny"
window_gib = 1
addresses = "fd99::1"
"""
PORT = 18700


@pytest.fixture
def start(lab: Native, directory: Path) -> Iterator[Callable[..., Control]]:
    """Starts vrdmad; again after it has ended. Its configuration has these keys in [control], and these tables."""
    started: list[Control] = []

    def start_one(keys: str = "", tables: str = "", spare: int = SPARE) -> Control:
        text = f"spare_clients = {spare}\n{keys}{CONFIG.format(directory=directory)}{tables}"
        started.append(Control(directory, lab.sanitizers.ours(), text))
        return started[-1]

    yield start_one
    for control in started:
        if control.vrdmad.running:
            end(control)


def create(control: Control, name: str, *words: str) -> list[str]:
    """A command that creates a small device in the directory of the control socket."""
    return ["device", "create", "tiny", "--name", name, "--path", str(control.directory / f"{name}.sock"),
            "--window-gib", "1", *words]


def names(control: Control) -> list[str]:
    return [device["name"] for device in json.loads(control.says("device", "list", "--json"))["devices"]]


def end(control: Control) -> None:
    control.vrdmad.terminate()
    control.vrdmad.wait(TIMEOUT_S)


@pytest.fixture
def program(lab: Native, record: Record) -> Callable[..., Process]:
    """Runs a program on the device behind a socket of that name."""

    def run(control: Control, name: str, *command: str) -> Process:
        words = [str(BUILD / "providers/vrdma/vrdma-run"), "--device", str(control.directory / f"{name}.sock"), "--",
                 "stdbuf", "-oL", *command]
        return record.add(Process(command[0], words, lab.sanitizers.foreign()))

    return run


def pingpong(program: Callable[..., Process], control: Control, left: str, right: str, gid: int, port: int,
             *words: str) -> tuple[Process, Process]:
    command = ["ibv_rc_pingpong", "-g", str(gid), "-p", str(port), *words]
    server = program(control, left, *command)
    server.await_line("local address", TIMEOUT_S, stream="stdout")
    client = program(control, right, *command, "127.0.0.1")
    client.await_line("remote address", TIMEOUT_S, stream="stdout")
    return server, client


def test_create(start, program, measured: list[str]) -> None:
    """Creates devices, one with several clients; expects them in the list with what they were given, and messages
    between them. Measures how long it takes until a program has opened a new device."""
    control = start()
    path = control.directory / "red.sock"
    assert control.says(*create(control, "red", "--clients", "2", "--weight", "7", "--mode", "0666")) == f"{path}\n"
    assert (path.stat().st_mode & 0o777, path.is_socket()) == (0o666, True)
    answer = json.loads(control.says(*create(control, "blue", "--mac", "02:00:00:00:00:07", "--group", "0"), "--json"))
    assert answer == {"name": "blue", "socket": str(control.directory / "blue.sock")}
    assert names(control) == ["blue", "fixed", "red/0", "red/1"]
    red = json.loads(control.says("device", "show", "red/1", "--json"))
    assert (red["type"], red["weight"], red["front_end"]) == ("tiny", 7, "socket")
    blue = json.loads(control.says("device", "show", "blue", "--json"))
    assert (blue["mac"], blue["weight"]) == ("02:00:00:00:00:07", 30)
    for process in pingpong(program, control, "red", "blue", 0, PORT, "-n", "1000"):
        process.wait(TIMEOUT_S)
    begin = time.monotonic()
    control.says(*create(control, "new"))
    made = time.monotonic()
    opened = program(control, "new", "ibv_devinfo")
    assert "PORT_ACTIVE" in opened.wait(TIMEOUT_S).stdout
    measured.append(f"device create: {(made - begin) * 1000:.0f} ms, and ibv_devinfo on it "
                    f"{(time.monotonic() - made) * 1000:.0f} ms")


def test_limits(start, program) -> None:
    """Creates a device with limits; expects them after a restart, too, and that a program gets no more. Expects that
    they can be changed, but not to less than a program has."""
    control = start()
    control.says(*create(control, "disk", "--qp", "1", "--xrcd", "0", "--memory", "1000000", "--ah", "3"))

    def resources() -> dict[str, dict[str, int]]:
        return json.loads(control.says("limit", "show", "disk", "--json"))["resources"]

    for _ in range(2):
        assert {name: resources()[name]["max"] for name in ("qp", "xrcd", "memory", "ah", "cq")} == {
            "qp": 1, "xrcd": 0, "memory": 1000000, "ah": 3, "cq": 512}
        end(control)
        control = start()
    watch = program(control, "disk", "ibv_rc_pingpong", "-g", "0", "-p", str(PORT + 3))
    watch.await_line("local address", TIMEOUT_S, stream="stdout")
    assert resources()["qp"] == {"used": 1, "max": 1}
    assert "'disk' has 1 of qp already (EBUSY)" in control.refuses("limit", "set", "disk", "--qp", "0")
    assert "of memory already (EBUSY)" in control.refuses("limit", "set", "disk", "--memory", "1000")
    control.says("limit", "set", "disk", "--qp", "16")
    watch.kill()
    assert "max_qp = 17: must be a number from 0 to 16 (EINVAL)" in control.refuses(
        *create(control, "red", "--qp", "17"))
    assert 'protocol = "roce-v1": must be "both", as the device has no Ethernet uplink (EINVAL)' in control.refuses(
        *create(control, "red", "--protocol", "roce-v1"))


def test_what_is_refused(start, directory: Path) -> None:
    """Creates devices that cannot be; expects a reason each time, and the devices to be as before."""
    control = start()
    (directory / "file.sock").touch()
    create_file = create(control, "file")
    assert "there is a device 'fixed' already (EEXIST)" in control.refuses(*create(control, "fixed"))
    types = "small, medium, large, pvrdma-small, pvrdma-medium, pvrdma-large, tiny"
    assert f"type = \"huge\": must be one of the types {types} (EINVAL)" in control.refuses(
        "device", "create", "huge", "--name", "disk")
    assert "uplink = \"wan\": must be the name of an [[uplink]] or a [[fabric]], and there is none (EINVAL)" in (
        control.refuses(*create(control, "disk", "--uplink", "wan")))
    assert "must be a name of at most 15 characters" in control.refuses(*create(control, "no_name"))
    assert "clients = 17: must be a number from 1 to 16 (EINVAL)" in control.refuses(
        *create(control, "disk", "--clients", "17"))
    assert "the device 'fixed' has this MAC or one of these addresses (EADDRINUSE)" in control.refuses(
        *create(control, "disk", "--addresses", "fd99::2,fd99::1"))
    assert "file.sock: Address already in use (EADDRINUSE)" in control.refuses(*create_file)
    assert "(ENOENT)" in control.refuses("device", "create", "tiny", "--name", "disk", "--path", "/nowhere/disk.sock")
    assert "a path of at most 107 characters (EINVAL)" in control.refuses(
        "device", "create", "tiny", "--name", "disk", "--path", "/" + "x" * 200)
    spare = control.refuses(*create(control, "disk", "--clients", str(SPARE + 1)))
    assert spare == (f"vrdmactl: created devices would have {SPARE + 1} clients, and spare_clients in [control] allows "
                     f"{SPARE} (ENOSPC)\n")
    stranger = control.run(*create(control, "disk"), user=NOBODY, group=NOBODY)
    assert stranger.returncode == 1 and "(EACCES)" in stranger.stderr
    assert control.run(*create(control, "disk", "--group", "no-such-group")).returncode == 2
    assert control.run("device", "create", "tiny", "--clients", "2").returncode == 2
    assert names(control) == ["fixed"]
    assert sorted(path.name for path in directory.glob("*.sock*")) == ["control.sock", "file.sock", "fixed.sock"]


def test_destroy(start, program) -> None:
    """Destroys a device that a program has; expects EBUSY, and with --force an async event in the program, after which
    name, socket and clients are free again."""
    control = start()
    for _ in range(2):
        control.says(*create(control, "disk", "--clients", str(SPARE)))
        watch = program(control, "disk", "ibv_asyncwatch")
        watch.await_line("async event FD", TIMEOUT_S, stream="stdout")
        assert "by the name before the slash (ENOENT)" in control.refuses("device", "destroy", "disk/0")
        assert control.refuses("device", "destroy", "disk") == "vrdmactl: the device 'disk' has clients: 1 (EBUSY)\n"
        assert control.says("device", "destroy", "disk", "--force") == ""
        watch.await_line("IBV_EVENT_DEVICE_FATAL", TIMEOUT_S, stream="stdout")
        watch.kill()
        assert names(control) == ["fixed"]
        assert not (control.directory / "disk.sock").exists()
    assert "there is no device 'disk' (ENOENT)" in control.refuses("device", "destroy", "disk")
    fixed = control.refuses("device", "destroy", "fixed", "--force")
    assert "the device 'fixed' is one of the configuration: remove it there, and restart vrdmad (EOPNOTSUPP)" in fixed
    stranger = control.run("device", "destroy", "fixed", user=NOBODY, group=NOBODY)
    assert stranger.returncode == 1 and "(EACCES)" in stranger.stderr


def test_reload(start) -> None:
    """Reloads a file that has changed since a device was created; expects the device to stay, with its own share."""
    control = start()
    control.says(*create(control, "disk", "--weight", "7"))
    control.says("limit", "set", "disk", "--weight", "9")
    control.file.write_text(control.text.replace("weight = 30", "weight = 40"))
    changed = control.says("reload")
    assert "types.tiny: weight 40" in changed and "vfio_user.fixed: weight 40" in changed and "disk" not in changed
    assert names(control) == ["disk", "fixed"]
    assert json.loads(control.says("device", "show", "disk", "--json"))["weight"] == 7


def test_restart(start, program) -> None:
    """Restarts vrdmad under two programs on created devices; expects them to succeed, and the devices to be as they
    were. Kills it then; expects the same of the devices. Destroys them; expects that they do not come back."""
    control = start()
    control.says(*create(control, "red", "--weight", "7"))
    control.says(*create(control, "blue"))
    programs = pingpong(program, control, "red", "blue", 0, PORT + 1, "-n", "30000")
    end(control)
    assert all(process.running for process in programs)
    control = start()
    for process in programs:
        process.wait(TIMEOUT_S)
    assert names(control) == ["blue", "fixed", "red"]
    control.vrdmad.kill()
    control.vrdmad.wait(TIMEOUT_S, check=False)
    control = start()
    assert json.loads(control.says("device", "show", "red", "--json"))["weight"] == 7
    control.says("device", "destroy", "red")
    control.says("device", "destroy", "blue")
    assert not Path(f"{control.socket}.added").exists()
    end(control)
    assert names(start()) == ["fixed"]


def test_restart_with_another_configuration(start, directory: Path) -> None:
    """Restarts vrdmad with a configuration that has a created device's name, and allows fewer clients; expects it to
    serve, to say what it leaves out, and to have the configuration's device."""
    control = start()
    control.says(*create(control, "red"))
    control.says(*create(control, "blue", "--clients", "4"))
    end(control)
    red = f'[[vfio_user]]\nname = "red"\nsocket = "{directory}/red.sock"\nwindow_gib = 1\ntype = "medium"\n'
    control = start(tables=red, spare=3)
    assert json.loads(control.says("device", "show", "red", "--json"))["type"] == "medium"
    assert names(control) == ["fixed", "red"]
    log = "".join(control.vrdmad.lines("stderr"))
    assert 'vfio_user red.name = "red": must be the name of no other device' in log
    assert "blue: is not served any more: spare_clients is 3" in log


def test_a_file_of_others(start, directory: Path) -> None:
    """Writes a file in the place of the one that vrdmad keeps, which others can write, and then one that is no TOML;
    expects vrdmad to take neither, and to serve."""
    added = directory / "control.sock.added"
    device = f'[[vfio_user]]\nname = "disk"\nsocket = "{directory}/disk.sock"\n'
    for text, mode, reason in ((device, 0o622, "Permission denied"), ("[[[", 0o600, "is not served any more")):
        added.write_text(text)
        added.chmod(mode)
        control = start()
        assert reason in control.vrdmad.await_line("control.sock.added", TIMEOUT_S)
        assert names(control) == ["fixed"]
        end(control)


UPLINKS = ["vrdma-left", "vrdma-right"]


@pytest.fixture
def cable() -> Iterator[None]:
    """A veth pair whose ends are the interfaces for uplinks."""
    ip(f"link add {UPLINKS[0]} type veth peer name {UPLINKS[1]}", *(f"link set {name} up" for name in UPLINKS))
    yield
    ip(f"link del {UPLINKS[0]}")


@pytest.mark.usefixtures("cable")
def test_uplinks(start, program, lab: Native) -> None:
    """Adds the uplinks of two vrdmads that reach each other by a cable, with a device each; expects messages between
    the devices, and an uplink that devices have to stay. Restarts one vrdmad; expects its uplink to be there again."""
    control = start("add_uplinks = true\n")
    with public_directory() as elsewhere, running(elsewhere, lab.sanitizers.ours(), "add_uplinks = true\n") as other:
        for side, interface in ((control, UPLINKS[0]), (other, UPLINKS[1])):
            assert side.says("uplink", "add", interface, "--name", "lan") == "lan\n"
            side.says("device", "create", "small", "--name", "disk", "--path", str(side.directory / "disk.sock"),
                      "--window-gib", "1", "--uplink", "lan", "--addresses", "", "--protocol", "roce-v2")
        uplink, = json.loads(control.says("uplink", "list", "--json"))["uplinks"]
        assert (uplink["name"], uplink["interface"], uplink["state"]) == ("lan", UPLINKS[0], "up")
        assert json.loads(control.says("device", "show", "disk", "--json"))["mac"] == uplink["mac"]
        command = ["ibv_rc_pingpong", "-g", "1", "-p", str(PORT + 2), "-n", "100"]
        server = program(control, "disk", *command)
        server.await_line("local address", TIMEOUT_S, stream="stdout")
        client = program(other, "disk", *command, "127.0.0.1")
        for process in (client, server):
            process.wait(TIMEOUT_S)
        busy = control.refuses("uplink", "remove", "lan")
        assert busy == "vrdmactl: these devices have the uplink 'lan': disk (EBUSY)\n"
        end(control)
        control = start("add_uplinks = true\n")
        disk, = (device for device in json.loads(control.says("device", "protocol", "list", "--json"))["devices"]
                 if device["name"] == "disk")
        assert (disk["uplink"], disk["roce_v1"], disk["roce_v2"]) == ("lan", False, True)
        control.says("device", "destroy", "disk")
        assert control.says("uplink", "remove", "lan") == ""
        assert json.loads(control.says("uplink", "list", "--json"))["uplinks"] == []
        assert control.says("uplink", "add", UPLINKS[0]) == f"{UPLINKS[0]}\n"


@pytest.mark.usefixtures("cable")
def test_uplinks_that_are_refused(start) -> None:
    """Adds and removes uplinks that cannot be; expects a reason each time, and the uplinks to be as before."""
    control = start(tables=f'[[uplink]]\ninterface = "{UPLINKS[0]}"\n')
    assert "(EEXIST)" in control.refuses("uplink", "add", UPLINKS[0], "--name", "lan")
    assert "(EEXIST)" in control.refuses("uplink", "add", UPLINKS[1], "--name", UPLINKS[0])
    assert "'nothing' cannot be used: No such device (ENODEV)" in control.refuses("uplink", "add", "nothing")
    assert "vlans" in control.refuses("uplink", "add", UPLINKS[1], "--vlans", "4095")
    assert "is one of the configuration" in control.refuses("uplink", "remove", UPLINKS[0])
    assert "there is no Ethernet uplink 'wan' (ENOENT)" in control.refuses("uplink", "remove", "wan")
    assert control.run("uplink", "add", UPLINKS[1], "--transport", "tcp").returncode == 2
    for words in (["add", UPLINKS[1]], ["remove", UPLINKS[0]]):
        stranger = control.run("uplink", *words, user=NOBODY, group=NOBODY)
        assert stranger.returncode == 1 and "(EACCES)" in stranger.stderr
    assert [uplink["name"] for uplink in json.loads(control.says("uplink", "list", "--json"))["uplinks"]] == UPLINKS[:1]


@pytest.mark.usefixtures("cable")
def test_uplinks_without_privileges(start) -> None:
    """Adds an uplink to a vrdmad that has none and does not expect any; expects EPERM, and how to avoid it."""
    refused = start().refuses("uplink", "add", UPLINKS[0])
    assert "add_uplinks in [control]" in refused and "(EPERM)" in refused


@pytest.mark.usefixtures("cable")
def test_a_change_that_cannot_be_kept(start) -> None:
    """Puts a directory where vrdmad writes what it keeps for the next one; expects it to refuse changes, which leave
    nothing behind, until the directory is gone."""
    control = start("add_uplinks = true\n")
    control.says(*create(control, "disk"))
    control.says("uplink", "add", UPLINKS[0])
    in_the_way = Path(f"{control.socket}.added.new")
    in_the_way.mkdir()
    changes = [create(control, "red"), ["uplink", "add", UPLINKS[1]], ["device", "destroy", "disk"],
               ["uplink", "remove", UPLINKS[0]]]
    for words in changes:
        assert "control.sock.added: File exists" in control.refuses(*words)
    assert names(control) == ["disk", "fixed"]
    assert not (control.directory / "red.sock").exists()
    assert [uplink["name"] for uplink in json.loads(control.says("uplink", "list", "--json"))["uplinks"]] == UPLINKS[:1]
    in_the_way.rmdir()
    for words in changes:
        control.says(*words)
    assert names(control) == ["fixed", "red"]
