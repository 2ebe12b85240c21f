# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Devices that mdevctl defines and starts. A vrdmad of these tests gives them a parent that comes and goes, and types
with an uplink."""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from framework.lab import TIMEOUT_S, Machine
from framework.mdev import Mdev
from framework.mediator import vrdmad

pytestmark = pytest.mark.lab

PARENT, TYPE, UPLINK = "habits", "vrdma-small", "habits0"
TYPE_PATH = f"/sys/class/mdev_bus/{PARENT}/mdev_supported_types/{TYPE}"
CONFIG = "/run/habits.conf"
CONFIG_TEXT = f"""
name = "{PARENT}"
[[uplink]]
interface = "{UPLINK}"
vlans = ["1-4094"]
[types.small]
uplink = "{UPLINK}"
"""
# In the order in which they are defined, which is that in which mdevctl writes them.
ATTRIBUTES = {
    "mac": "52:54:00:12:34:56",
    "addresses": "10.0.0.5/32,fd00::/64",
    "vlans": "7,100-199",
    "uplink": UPLINK,
    "weight": "7",
    "max_bytes_per_second": "1000000",
    "max_operations_per_second": "500",
}


class Defined(Mdev):
    """A device that mdevctl knows."""

    def define(self, *options: str) -> None:
        self.host.run(f"mdevctl define -u {self.uuid} -p {PARENT} -t {TYPE} {' '.join(options)}")

    def modify(self, options: str) -> None:
        self.host.run(f"mdevctl modify -u {self.uuid} {options}")

    def add(self, attribute: str, value: str) -> None:
        self.modify(f"--addattr {attribute} --value {value}")

    def start(self, check: bool = True):
        return self.host.run(f"mdevctl start -u {self.uuid}", check=check)

    def stop(self) -> None:
        self.host.run(f"mdevctl stop -u {self.uuid}")

    def definition(self) -> dict:
        return json.loads(self.host.run(f"mdevctl list -d -u {self.uuid} --dumpjson").stdout)

    def values(self) -> dict[str, str]:
        """Its attributes in sysfs."""
        return {name: self.host.read(f"{self.path}/{name}").strip() for name in ATTRIBUTES}

    def forget(self) -> None:
        if self.exists:
            self.stop()
        self.host.run(f"mdevctl undefine -u {self.uuid}", check=False)


@pytest.fixture
def defined(host: Machine) -> Iterator[Callable[[], Defined]]:
    """Makes devices up, which are neither started nor defined after the test."""
    with ExitStack() as stack:

        def make() -> Defined:
            device = Defined(host, str(uuid.uuid4()))
            stack.callback(device.forget)
            return device

        yield make


@pytest.fixture
def mediator(host: Machine) -> Iterator[Callable]:
    """Serves the parent as long as it is entered."""
    host.script(f"ip link add {UPLINK} type dummy && ip link set {UPLINK} up\ncat >{CONFIG} <<'END'{CONFIG_TEXT}END")

    @contextmanager
    def serve() -> Iterator[None]:
        process = host.watch(vrdmad(CONFIG))
        try:
            host.script(f"until grep -qsv '^0$' {TYPE_PATH}/available_instances; do sleep 0.05; done", TIMEOUT_S)
            yield
        finally:
            process.kill()
            host.script(f"until ! grep -qsv '^0$' {TYPE_PATH}/available_instances; do sleep 0.05; done", TIMEOUT_S)

    yield serve
    host.run(f"ip link del {UPLINK}")


def test_without_definition(host, mediator, defined):
    """Starts, lists and stops a device that is not defined; expects it to come and go as with sysfs."""
    device = defined()
    with mediator():
        host.run(f"mdevctl start -u {device.uuid} -p {PARENT} -t {TYPE}")
        assert device.exists
        assert f"{device.uuid} {PARENT} {TYPE}" in host.run("mdevctl list").stdout
        device.stop()
        assert not device.exists


def test_attributes(mediator, defined):
    """Defines a device with all attributes and starts it; expects it to have them. Modifies the definition; expects the
    changes when the device starts again, and the defaults of the type for the attributes that have gone."""
    device = defined()
    with mediator():
        device.define()
        for name, value in ATTRIBUTES.items():
            device.add(name, value)
        assert device.definition()["attrs"] == [{name: value} for name, value in ATTRIBUTES.items()]
        device.start()
        assert device.values() == ATTRIBUTES
        for name in ("weight", "uplink"):
            device.modify(f"--delattr --index {[*ATTRIBUTES].index(name)}")
        device.add("uplink", "none")
        assert device.values() == ATTRIBUTES
        device.stop()
        device.start()
        assert device.values() == {**ATTRIBUTES, "weight": "", "uplink": "none"}


def test_bad_attribute(host, mediator, defined):
    """Starts a device with an attribute that cannot be written: a bad MAC, an unknown uplink, a weight out of range, a
    file that is only read and one that is not there; expects mdevctl to name it, and to leave no device."""
    device = defined()
    with mediator():
        before = host.read(f"{TYPE_PATH}/available_instances")
        device.define()
        for name, value in {"mac": "52:54:00", "uplink": "eth7", "weight": "0", "pinned": "1", "name": "1"}.items():
            device.add(name, value)
            result = device.start(check=False)
            assert result.status != 0, name
            assert name in result.stderr
            device.modify("--delattr --index 0")
        assert not device.exists
        assert host.read(f"{TYPE_PATH}/available_instances") == before


def test_auto(host, mediator, defined):
    """Defines two devices of a parent that is not there, one of them to start by itself; starts vrdmad, as at boot, and
    again after the device has gone. Expects the device each time, with its attributes, and not the other one."""
    auto, manual = defined(), defined()
    auto.define("--auto")
    for name, value in ATTRIBUTES.items():
        auto.add(name, value)
    manual.define()
    for _ in range(2):
        with mediator():
            # udev runs mdevctl, which writes attributes after it has made the device.
            host.script(f"until [ -e {auto.path} ]; do sleep 0.05; done; udevadm settle", TIMEOUT_S)
            assert auto.values() == ATTRIBUTES
            assert not manual.exists
            auto.stop()


def test_auto_of_a_device_that_stayed(mediator, defined):
    """Restarts vrdmad while a device is there that starts by itself; expects the same device, with a value that was
    written since."""
    device = defined()
    device.define("--auto")
    with mediator():
        device.host.script(f"until [ -e {device.path} ]; do sleep 0.05; done; udevadm settle", TIMEOUT_S)
        device.host.script(f"echo 9 >{device.path}/weight")
    with mediator():
        assert device.values()["weight"] == "9"
