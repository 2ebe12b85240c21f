# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The host's side: mdev types and devices through sysfs, and the module's own test."""

import uuid

import pytest

from framework.lab import PROJECT
from framework.mdev import DEVICES, TYPES, Mdev, MdevType, mdev_of

pytestmark = pytest.mark.lab

TRANSFER = 2 << 20
MODULE_TEST = PROJECT / "build/release/vfio-mdev/tests/vfio_mdev_test"


@pytest.fixture
def small(host) -> MdevType:
    return MdevType(host, "small")


@pytest.fixture
def fresh(host):
    """The UUID of a device that the test makes. The device is removed after the test."""
    device = Mdev(host, str(uuid.uuid4()))
    yield device
    if device.exists:
        device.remove()


def test_types(host):
    """Lists the types; expects small, medium and large, and the same for VMware's driver, each with its name, a
    description and instances for vfio-pci."""
    names = [f"{personality}{size}" for personality in ("", "pvrdma-") for size in ("large", "medium", "small")]
    assert sorted(host.run(f"ls {TYPES}").stdout.split()) == sorted(f"vrdma-{name}" for name in names)
    for name in names:
        kind = MdevType(host, name)
        assert kind.attribute("device_api") == "vfio-pci"
        assert kind.attribute("name") == f"vrdma-{name}"
        assert kind.attribute("description")
        assert kind.available > 0


def test_instances_go_down_and_up(small, fresh):
    """Creates and removes a device through sysfs; expects one instance less meanwhile, and the device's attributes."""
    before = small.available
    small.create(fresh.uuid)
    assert small.available == before - 1
    assert fresh.pinned == 0
    fresh.remove()
    assert not fresh.exists
    assert small.available == before


def test_same_uuid_twice(small, fresh):
    """Creates a device twice; expects the second attempt to fail and to cost no instance."""
    small.create(fresh.uuid)
    left = small.available
    assert small.create(fresh.uuid, check=False).status != 0
    assert small.available == left


def test_vrdmactl_creates_and_destroys(host, small):
    """Creates and destroys a device by vrdmactl; expects it in sysfs meanwhile, and one instance less."""
    before = small.available
    device = Mdev(host, host.run("vrdmactl device create small").stdout.strip())
    assert device.exists
    assert small.available == before - 1
    host.run(f"vrdmactl device destroy {device.uuid}")
    assert not device.exists
    assert small.available == before


def test_vrdmactl_keeps_a_device_in_use(host, guest0, works):
    """Destroys the device of a VM by vrdmactl; expects EBUSY, and a device that works."""
    result = host.run(f"vrdmactl device destroy {mdev_of(host, guest0).uuid}", check=False)
    assert result.status == 1
    assert "(EBUSY)" in result.stderr
    works()


def test_no_instance_left(host):
    """Creates devices of the type with the fewest instances until none is left; expects the next to fail. Removes them;
    expects all instances back."""
    kind = MdevType(host, "large")
    before = kind.available
    uuids = [str(uuid.uuid4()) for _ in range(before)]
    try:
        host.script(f"for uuid in {' '.join(uuids)}; do echo $uuid >{kind.path}/create; done")
        assert kind.available == 0
        assert kind.create(str(uuid.uuid4()), check=False).status != 0
    finally:
        host.script(f"for uuid in {' '.join(uuids)}; do [ ! -e {DEVICES}/$uuid ] || echo 1 >{DEVICES}/$uuid/remove; "
                    f"done")
    assert kind.available == before


@pytest.mark.parametrize("attribute, value", [
    ("mac", "52:54:00:00:00:0g"), ("mac", "52:54:00"), ("mac", "01:00:5e:00:00:01"), ("mac", "52:54:00:00:00:01:02"),
    ("addresses", "; reboot"), ("addresses", "1" * 600), ("uplink", "eth1"), ("uplink", "of-sixteen-chars"),
    ("weight", "0"), ("max_bytes_per_second", "1k"), ("vlans", "0"), ("vlans", "4095"), ("vlans", "eth1"),
], ids=["no digit", "too short", "multicast", "too long", "no prefix", "too many", "unknown", "too long a name", "no "
                                                                                              "weight",
        "no number", "VLAN 0", "VLAN 4095", "no VLAN"])  # fmt: skip
def test_bad_attribute(host, small, fresh, attribute, value):
    """Writes values that are not a unicast MAC address, a list of prefixes, an uplink of vrdmad, a share or a VLAN;
    expects an error and the old value."""
    small.create(fresh.uuid)
    before = host.read(f"{fresh.path}/{attribute}")
    assert host.script(f"echo '{value}' >{fresh.path}/{attribute}", check=False).status != 0
    assert host.read(f"{fresh.path}/{attribute}") == before


@pytest.mark.parametrize("attribute, value", [
    ("mac", "52:54:00:12:34:56"), ("addresses", "10.0.0.5/32,fd00::/64"), ("addresses", ""), ("uplink", "none"),
    ("weight", "10000"), ("weight", ""), ("max_operations_per_second", "0"),
    ("vlans", "7,100-199"), ("vlans", "none"), ("vlans", ""),
])  # fmt: skip
def test_attribute(host, small, fresh, attribute, value):
    """Writes the identity of a device, or its share, before a VM has it; expects to read the same value."""
    small.create(fresh.uuid)
    host.script(f"echo '{value}' >{fresh.path}/{attribute}")
    assert host.read(f"{fresh.path}/{attribute}").strip() == value


def test_empty_uplink(host, small, fresh):
    """Writes an empty name of an uplink; expects to read "none"."""
    small.create(fresh.uuid)
    host.script(f"echo >{fresh.path}/uplink")
    assert host.read(f"{fresh.path}/uplink").strip() == "none"


def test_identity_of_a_device_in_use(host, guest0):
    """Writes the MAC of a device that a VM has open; expects an error, because the guest could impersonate another."""
    device = mdev_of(host, guest0)
    assert host.script(f"echo 52:54:00:12:34:56 >{device.path}/mac", check=False).status != 0
    assert device.mac == guest0.mac


def test_limit_of_a_running_device(host, guest0, connected):
    """Limits a device of a VM so that its WRITE would take a minute, and removes the limit during the WRITE; expects it
    to wait, and then to complete."""
    left, right = connected(options={"buffer": TRANSFER})
    limit = f"{mdev_of(host, guest0).path}/max_bytes_per_second"
    try:
        host.script(f"echo {TRANSFER // 60} >{limit}")
        left.send("RDMA_WRITE", length=TRANSFER, target=right.target())
        assert left.sent(timeout=3) == []
    finally:
        host.script(f"echo >{limit}")
    assert left.sent() == ["SUCCESS"]


def test_module(host):
    """Runs the module's own test, which acts as mediator and as VM; expects every case of it to pass. Only those of the
    log of writes are impossible in kernels without it: kernels of Debian keep none after 6.1, and others do if they
    have IOMMUFD."""
    said = host.run(host.bring(MODULE_TEST), timeout=360).stdout
    keeps_logs = host.script("uname -r | grep ^6.1. || test -e /dev/iommu", check=False).status == 0
    assert ("impossible with this kernel" in said) != keeps_logs
