# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Containers that get devices by CDI (vrdmactl device create --cdi). Each test has a vrdmad and a podman of its own."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.containers import Podman
from framework.control import VRDMACTL, Control, running
from framework.lab import TIMEOUT_S
from framework.native import Native
from framework.process import Process, Record

pytestmark = [pytest.mark.native, pytest.mark.together]

PORT = 18720
ADDRESSES = {"red": "10.98.0.1", "blue": "10.98.0.2"}
GID = "3"  # RoCE v2 of the address
NOBODY = "--user=65534:65534"
TYPE = "[types.tiny]\nmax_qp = 16\ndoorbell_pages = 2\n"


@pytest.fixture
def control(lab: Native, directory: Path) -> Iterator[Control]:
    with running(directory, lab.sanitizers.ours(), TYPE) as control:
        yield control


def words(podman: Podman, name: str) -> list[str]:
    """A command that creates a device for containers."""
    return ["device", "create", "tiny", "--name", name, "--window-gib", "1", "--addresses", ADDRESSES.get(name, ""),
            "--cdi", "--cdi-directory", str(podman.specifications), "--driver", str(podman.driver)]


@pytest.fixture
def devices(control: Control, podman: Podman) -> dict[str, str]:
    """Creates a device for each address. Returns their names for podman."""
    return {name: control.says(*words(podman, name)).strip() for name in ADDRESSES}


def pingpong(podman: Podman, devices: dict[str, str], port: int, count: int) -> list[Process]:
    """Starts a program in a container of each device, the first as root and the second as nobody."""
    command = ["stdbuf", "-oL", "ibv_rc_pingpong", "-g", GID, "-p", str(port), "-n", str(count)]
    server = podman.run([devices["red"]], *command)
    server.await_line("local address", TIMEOUT_S, stream="stdout")
    return [server, podman.run([devices["blue"]], *command, "127.0.0.1", options=(NOBODY,))]


def test_pingpong(control: Control, podman: Podman, devices: dict[str, str]) -> None:
    """Sends messages between two containers; expects that each sees its own device and socket only."""
    assert devices == {name: f"vrdma.io/device={name}" for name in ADDRESSES}
    for process in pingpong(podman, devices, PORT, 1000):
        process.wait(TIMEOUT_S)
    for name, number in (("red", 1), ("blue", 2)):
        script = "ibv_devices; ls /run/vrdma; ibv_devinfo -v"
        seen = podman.run([devices[name]], "sh", "-c", script, options=(NOBODY,)).wait(TIMEOUT_S).stdout
        assert seen.count("vrdma0") == 2 and "vrdma1" not in seen
        assert f"\n{name}\n" in seen and f"::ffff:10.98.0.{number}, RoCE v2" in seen
        assert f"::ffff:10.98.0.{3 - number}" not in seen
    without = podman.run([], "ibv_devices").wait(TIMEOUT_S, check=False)
    assert "Failed to get IB devices list" in without.stderr


def test_counters_and_limits(control: Control, podman: Podman, devices: dict[str, str]) -> None:
    """Looks at the devices of two containers that send messages, and limits one of them; expects counters and limits of
    each."""
    programs = pingpong(podman, devices, PORT + 3, 100_000_000)
    programs[1].await_line("remote address", TIMEOUT_S, stream="stdout")
    control.says("limit", "set", "red", "--weight", "7")
    for name, weight in (("red", 7), ("blue", 100)):
        shown = json.loads(control.says("device", "show", name, "--json"))
        assert (shown["state"], shown["weight"], shown["resources"]["qp"]) == ("active", weight, {"used": 1, "max": 16})
        counters = json.loads(control.says("device", "stats", name, "--json"))["counters"]
        assert counters["tx_messages"] > 0 or name == "red"
    for program in programs:
        program.kill()


def test_what_is_anothers(control: Control, podman: Podman, devices: dict[str, str]) -> None:
    """Asks in a container for the address of another one's device, and for its socket; expects errors that say so.
    Expects that the container cannot put another socket in the place of its own."""
    own = "/run/vrdma/blue/blue.sock"

    def refused(environment: str) -> str:
        ended = podman.run([devices["blue"]], "env", f"VRDMA_RUN_DEVICES={environment}",
                           "ibv_devinfo").wait(TIMEOUT_S, check=False)
        assert ended.status != 0
        return ended.stderr + ended.stdout

    assert f"{own}: the device cannot have the address 10.98.0.1: Permission denied" in refused(
        f"{own},{ADDRESSES['red']}")
    assert "vrdma0 (/run/vrdma/red/red.sock): No such file or directory" in refused("/run/vrdma/red/red.sock")
    removal = podman.run([devices["blue"]], "rm", own, options=("--cap-add=dac_override",)).wait(TIMEOUT_S, check=False)
    assert "Read-only file system" in removal.stderr


def test_restart(lab: Native, directory: Path, podman: Podman, record: Record) -> None:
    """Restarts vrdmad under programs in two containers; expects them to succeed."""
    control = Control(directory, lab.sanitizers.ours(), TYPE)
    devices = {name: control.says(*words(podman, name)).strip() for name in ADDRESSES}
    programs = pingpong(podman, devices, PORT + 1, 30000)
    programs[1].await_line("remote address", TIMEOUT_S, stream="stdout")
    control.vrdmad.terminate()
    control.vrdmad.wait(TIMEOUT_S)
    with running(directory, lab.sanitizers.ours(), TYPE):
        for process in programs:
            process.wait(TIMEOUT_S)


def test_destroy(control: Control, podman: Podman, devices: dict[str, str]) -> None:
    """Destroys devices; expects EBUSY while a container uses one, and that nothing is left of it for containers."""
    directory = "--cdi-directory", str(podman.specifications)
    watch = podman.run([devices["red"]], "stdbuf", "-oL", "ibv_asyncwatch")
    watch.await_line("async event FD", TIMEOUT_S, stream="stdout")
    assert "'red' has clients: 1 (EBUSY)" in control.refuses("device", "destroy", "red", *directory)
    assert len(list(podman.specifications.iterdir())) == 2
    control.says("device", "destroy", "red", "--force", *directory)
    watch.await_line("IBV_EVENT_DEVICE_FATAL", TIMEOUT_S, stream="stdout")
    watch.kill()
    control.says("device", "destroy", "blue", *directory)
    assert not list(podman.specifications.iterdir())
    assert not list((control.directory / "containers").iterdir())
    gone = podman.run([devices["red"]], "true").wait(TIMEOUT_S, check=False)
    assert gone.status != 0 and "vrdma.io/device=red" in gone.stderr


def test_what_is_refused(control: Control, podman: Podman, devices: dict[str, str]) -> None:
    """Creates devices for containers that cannot be; expects a reason each time, and that the others stay usable."""
    specification = podman.specifications / "vrdma.io-device_red.json"
    before = specification.read_text()
    assert "there is a device 'red' already (EEXIST)" in control.refuses(*words(podman, "red"))
    assert specification.read_text() == before
    other = ["device", "create", "tiny", "--name", "green", "--cdi", "--cdi-directory"]
    assert "(ENOTDIR)" in control.refuses(*other, str(specification), "--driver", str(podman.driver))
    assert "libvrdma.so.1: No such file or directory; install vrdma-run, or give --driver (ENOENT)" in control.refuses(
        *other, str(podman.specifications), "--driver", "/nowhere")
    assert "(EINVAL)" in control.refuses("device", "create", "tiny", "--name", "../red", "--cdi", "--driver", "")
    nobody = [str(VRDMACTL), "--socket", str(control.directory / "none.sock"), *words(podman, "green")]
    assert subprocess.run(nobody, capture_output=True, check=False, timeout=TIMEOUT_S).returncode == 3
    listed = json.loads(control.says("device", "list", "--json"))["devices"]
    assert [device["name"] for device in listed] == ["blue", "red"]
    assert {path.name for path in (control.directory / "containers").iterdir()} == {"blue", "red"}
    for process in pingpong(podman, devices, PORT + 2, 10):
        process.wait(TIMEOUT_S)
