# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The device plug-in for Kubernetes, with a kubelet that the test plays, and containers of podman."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from framework.containers import Podman
from framework.control import VRDMACTL, Control, running
from framework.kubelet import Kubelet, Resource
from framework.lab import PROJECT, TIMEOUT_S
from framework.native import Native
from framework.process import Process, Record

pytestmark = [pytest.mark.native, pytest.mark.together]

PORT = 18740
GID = "3"  # RoCE v2 of the first address
RESOURCES = """
[resources.web]
count = 3
addresses = ["10.98.1.0/29", "fd98::/120"]
window_gib = 1
weight = 7
qp = 16
driver = "{driver}"
"""


@pytest.fixture
def control(lab: Native, directory: Path) -> Iterator[Control]:
    with running(directory, lab.sanitizers.ours(), "") as control:
        yield control


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    kubelet = Kubelet(tmp_path)
    yield kubelet
    kubelet.stop()


def plugin_words(file: Path, kubelet: Path, control: Path) -> list[str]:
    return ["/usr/bin/python3", str(PROJECT / "kubelet"), "--config", str(file), "--kubelet",
            str(kubelet), "--socket", str(control), "--vrdmactl", str(VRDMACTL), "--interval", "0.1"]


@pytest.fixture
def plugin(kubelet: Kubelet, control: Control, podman: Podman, tmp_path: Path, record: Record) -> Iterator[Process]:
    file = tmp_path / "device-plugin.toml"
    file.write_text(RESOURCES.format(driver=podman.driver))
    plugin = record.add(Process("plug-in", plugin_words(file, kubelet.directory, control.socket), {}))
    yield plugin
    plugin.terminate()
    plugin.wait(TIMEOUT_S)
    assert not list(kubelet.directory.glob("vrdma-*"))


@pytest.fixture
def resource(kubelet: Kubelet, plugin: Process) -> Resource:
    return kubelet.await_plugin()


def shown(control: Control, name: str) -> dict:
    return json.loads(control.says("device", "show", name, "--json"))


def names(control: Control) -> list[str]:
    return [device["name"] for device in json.loads(control.says("device", "list", "--json"))["devices"]]


def pingpong(podman: Podman, options: tuple[str, ...], *words: str) -> Process:
    return podman.run([], "stdbuf", "-oL", "ibv_rc_pingpong", "-g", GID, "-p", str(PORT), *words, options=options)


def test_containers(control: Control, podman: Podman, resource: Resource) -> None:
    """Gives devices to two containers; expects messages between them, by addresses and limits of the configuration.
    Gives two devices to one container; expects that it sees both."""
    assert resource.name == "vrdma.io/web"
    assert next(resource.watch()) == {f"web-{number}": "Healthy" for number in range(3)}
    assert names(control) == []
    red, blue = resource.allocate("web-0"), resource.allocate("web-1")
    assert names(control) == ["web-0", "web-1"]
    assert (shown(control, "web-0")["weight"], shown(control, "web-0")["resources"]["qp"]["max"]) == (7, 16)
    server = pingpong(podman, red)
    server.await_line("GID ::ffff:10.98.1.1", TIMEOUT_S, stream="stdout")
    client = pingpong(podman, blue, "127.0.0.1")
    client.await_line("GID ::ffff:10.98.1.2", TIMEOUT_S, stream="stdout")
    for process in (server, client):
        process.wait(TIMEOUT_S)
    both = resource.allocate("web-1", "web-2")
    seen = podman.run([], "ibv_devinfo", "-v", options=both).wait(TIMEOUT_S).stdout
    assert [seen.count(text) for text in ("hca_id:", "::ffff:10.98.1.2,", "fd98::3,", "10.98.1.1,")] == [2, 1, 1, 0]


def test_the_next_container(control: Control, podman: Podman, resource: Resource) -> None:
    """Allocates a device that a container still has; expects that container to lose it, and the next one to have it
    with the limits of the configuration."""
    first = resource.allocate("web-0")
    watch = podman.run([], "stdbuf", "-oL", "ibv_asyncwatch", options=first)
    watch.await_line("async event FD", TIMEOUT_S, stream="stdout")
    control.says("limit", "set", "web-0", "--weight", "9")
    resource.prepare("web-0")  # the container starts again
    assert shown(control, "web-0")["weight"] == 9
    assert resource.allocate("web-0") == first
    watch.await_line("IBV_EVENT_DEVICE_FATAL", TIMEOUT_S, stream="stdout")
    assert shown(control, "web-0")["weight"] == 7
    assert "PORT_ACTIVE" in podman.run([], "ibv_devinfo", options=first).wait(TIMEOUT_S).stdout
    watch.kill()


def test_a_boot(control: Control, podman: Podman, resource: Resource) -> None:
    """Takes a device away, as a boot does; expects that a container that starts again has it again."""
    options = resource.allocate("web-0")
    control.says("device", "destroy", "web-0")
    resource.prepare("web-0")
    assert "PORT_ACTIVE" in podman.run([], "ibv_devinfo", options=options).wait(TIMEOUT_S).stdout


def test_health(lab: Native, directory: Path, control: Control, resource: Resource) -> None:
    """Stops vrdmad, and starts the next one; expects devices that are not healthy meanwhile."""
    states = resource.watch()
    assert set(next(states).values()) == {"Healthy"}
    control.vrdmad.terminate()
    control.vrdmad.wait(TIMEOUT_S)
    assert set(next(states).values()) == {"Unhealthy"}
    control.vrdmad = Control(directory, lab.sanitizers.ours(), "").vrdmad
    assert set(next(states).values()) == {"Healthy"}


def test_another_kubelet(kubelet: Kubelet, resource: Resource, control: Control) -> None:
    """Starts another kubelet in the place of the first one; expects that it is registered with, and can allocate."""
    resource.allocate("web-0")
    kubelet.stop()
    following = Kubelet(kubelet.directory)
    again = following.await_plugin()
    assert len(next(again.watch())) == 3
    again.allocate("web-1")
    assert names(control) == ["web-0", "web-1"]
    following.stop()


def expect_error(call: Callable[[], object], code: grpc.StatusCode, text: str) -> None:
    with pytest.raises(grpc.RpcError) as error:
        call()
    assert error.value.code() == code
    assert text in error.value.details()


def test_what_is_refused(control: Control, resource: Resource) -> None:
    """Asks for devices that cannot be; expects a reason each time."""
    control.says("device", "create", "small", "--name", "other", "--path", str(control.directory / "other.sock"),
                 "--window-gib", "1", "--addresses", "10.98.1.2")
    expect_error(lambda: resource.allocate("web-1"), grpc.StatusCode.UNAVAILABLE,
                 "web-1: vrdmactl: the device 'other' has this MAC or one of these addresses (EADDRINUSE)")
    expect_error(lambda: resource.allocate("other"), grpc.StatusCode.NOT_FOUND,
                 "vrdma.io/web has no device 'other'")
    expect_error(lambda: resource.prepare("web-3"), grpc.StatusCode.NOT_FOUND, "vrdma.io/web has no device 'web-3'")
    assert names(control) == ["other"]


def test_wrong_configurations(tmp_path: Path, record: Record) -> None:
    """Starts the plug-in with files that are wrong; expects that it names the reason, and ends."""
    file = tmp_path / "device-plugin.toml"

    def refused(text: str) -> str:
        file.write_text(text)
        ended = record.add(Process("plug-in", plugin_words(file, tmp_path, tmp_path), {})).wait(TIMEOUT_S, check=False)
        assert ended.status == 1
        return ended.stderr

    assert "must have tables [resources.NAME], and nothing else" in refused("")
    assert "must have tables" in refused("[resources.a]\n[other]\n")
    assert "device-plugin.toml: " in refused("[[[")
    assert "resources.a.count: must be a number from 1 to 100" in refused("[resources.a]\ncount = 0")
    assert "resources.a.path: unknown key" in refused('[resources.a]\npath = "/tmp/x"')
    assert "at most 15 characters" in refused("[resources.a-longer-name]\ncount = 100")
    assert "10.0.0.0/30 has fewer than 3 addresses" in refused('[resources.a]\ncount = 3\naddresses = "10.0.0.0/30"')
    assert "does not appear to be an IPv4 or IPv6 network" in refused('[resources.a]\naddresses = "x"')
    assert "a-0 and b-0 would both have the address 10.0.0.1" in refused(
        '[resources.a]\naddresses = "10.0.0.1"\n[resources.b]\naddresses = "10.0.0.0/24"')
