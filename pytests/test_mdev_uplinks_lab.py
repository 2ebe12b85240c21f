# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Mediated devices of one type on two uplinks, which are VLANs of the hosts' cable. The devices' attribute selects the
uplink. Each host has a separate vrdmad and HCA for this test, and processes of the hosts have the devices.
"""

import uuid

import pytest

from framework.host_process import HostProcess
from framework.lab import TIMEOUT_S, Machine
from framework.mdev import Mdev
from framework.mediator import vrdmad
from framework.process import Process
from framework.programs import Program, next_port, run
from test_pingpong import assert_done

pytestmark = pytest.mark.lab_hosts

VLANS = (7, 8)
PARENT = "uplinks"
TYPE = f"/sys/class/mdev_bus/{PARENT}/mdev_supported_types/vrdma-small"
CONFIG, LOG = "/run/uplinks.conf", "/run/uplinks.log"
# Each VLAN's interface has its own Ethernet address, because that identifies a device.
MAKE_VLAN = """
ip link add link eth1 name eth1.{vlan} address 02:00:00:00:{vlan:02x}:0{number} type vlan id {vlan}
ip address add 10.{vlan}.0.{number}/24 dev eth1.{vlan}
ip link set eth1.{vlan} up
"""
MAKE_DEVICE = """
echo {mdev.uuid} >{type}/create
cat /sys/class/net/eth1.{vlan}/address >{mdev.path}/mac
echo eth1.{vlan} >{mdev.path}/uplink
echo 10.{vlan}.0.{number} >{mdev.path}/addresses
"""


class Bound(HostProcess):
    """A process of a host on a device that is bound to a VLAN."""

    def __init__(self, host: Machine, number: int, vlan: int) -> None:
        super().__init__(host, Mdev(host, str(uuid.uuid4())), f"10.{vlan}.0.{number}")
        self.addresses = {4: self.name}
        self.vlan = vlan

    def received(self) -> int:
        """Frames with its VLAN's tag that have arrived."""
        return int(self.host.read(f"/sys/class/net/eth1.{self.vlan}/statistics/rx_packets"))

    def write_uplink(self, name: str) -> str:
        """Writes the attribute; returns the error output."""
        return self.host.script(f"printf '{name}' | tee {self.mdev.path}/uplink", check=False).stderr

    def uplink(self) -> str:
        return self.host.read(f"{self.mdev.path}/uplink").strip()


def start_mediator(host: Machine, vlans: tuple[int, ...]) -> Process:
    config = f'name = "{PARENT}"\n' + "".join(f'[[uplink]]\ninterface = "eth1.{vlan}"\n' for vlan in vlans)
    host.script(f"cat >{CONFIG} <<END\n{config}END")
    mediator = host.watch(f"sh -c 'exec {vrdmad(CONFIG)} 2>{LOG}'")
    host.script(f"until grep -qsv '^0$' {TYPE}/available_instances; do sleep 0.05; done", TIMEOUT_S)
    return mediator


def renew_mediator(old: Process, host: Machine, vlans: tuple[int, ...]) -> Process:
    """Replaces a vrdmad by one with other uplinks, for the same devices."""
    old.kill()
    host.script(f"until grep -q '^0$' {TYPE}/available_instances; do sleep 0.05; done", TIMEOUT_S)
    return start_mediator(host, vlans)


class Rig:
    """Both hosts, with a device on each VLAN."""

    def __init__(self, lab) -> None:
        self.hosts = [Machine(lab, f"host{number}") for number in range(2)]
        self.sides = {vlan: [Bound(host, number, vlan) for number, host in enumerate(self.hosts, 1)] for vlan in VLANS}
        self.mediators: list[Process] = []

    def up(self) -> None:
        for number, host in enumerate(self.hosts, 1):
            host.run("modprobe 8021q")
            for vlan in VLANS:
                host.script(MAKE_VLAN.format(vlan=vlan, number=number))
            self.mediators.append(start_mediator(host, VLANS))
            for vlan in VLANS:
                side = self.sides[vlan][number - 1]
                host.script(MAKE_DEVICE.format(mdev=side.mdev, type=TYPE, vlan=vlan, number=number))

    def down(self) -> None:
        for side in (side for pair in self.sides.values() for side in pair):
            if side.mdev.exists:
                side.mdev.remove()
        for mediator in self.mediators:
            mediator.kill()
        for host in self.hosts:
            host.script("".join(f"ip link del eth1.{vlan} || :\n" for vlan in VLANS))


@pytest.fixture
def rig(lab):
    made = Rig(lab)
    try:
        made.up()
        yield made
    finally:
        made.down()


def test_each_by_its_own(rig):
    """Sends 20 messages each way between the devices of each VLAN; expects all to arrive by that VLAN, and none by the
    other."""
    for vlan, other in (VLANS, VLANS[::-1]):
        before = [[side.received() for side in rig.sides[which]] for which in (vlan, other)]
        for result in run(Program("ibv_rc_pingpong -c -n 20", "vrdma0", "RoCE v2"), *rig.sides[vlan]):
            assert_done(result.stdout, 20)
        for side, count in zip(rig.sides[vlan], before[0], strict=True):
            assert side.received() >= count + 20
        for side, count in zip(rig.sides[other], before[1], strict=True):
            assert side.received() < count + 20


def test_refused(rig):
    """Writes an invalid name, and the name of an uplink that vrdmad does not have; expects an error and the old value.
    Opens the device and writes a valid one; expects an error, and success after it is closed."""
    side = rig.sides[7][0]
    bad = {"eth1.8\\neth1.8": "Invalid argument", "eth1/8": "Invalid argument", "eth1 8": "Invalid argument",
           "x" * 16: "Invalid argument", "x" * 4000: "Invalid argument", "eth1": "No such device",
           "eth1.9": "No such device"}
    for name, why in bad.items():
        assert why in side.write_uplink(name), name
        assert side.uplink() == "eth1.7"
    with_device = side.watch(Program("ibv_rc_pingpong", "vrdma0").arguments(side, next_port()))
    side.host.script(f"until ! echo eth1.7 >{side.mdev.path}/uplink; do sleep 0.05; done 2>/dev/null", TIMEOUT_S)
    assert "busy" in side.write_uplink("eth1.8")
    with_device.kill()
    side.host.script(f"until echo eth1.8 >{side.mdev.path}/uplink; do sleep 0.05; done 2>/dev/null", TIMEOUT_S)
    assert side.uplink() == "eth1.8"


def test_uplink_that_is_gone(rig):
    """Restarts vrdmad without the uplink of a device; expects it to report that when the device is opened, and the
    device to work again with another uplink."""
    side, peer = rig.sides[8]
    rig.mediators[0] = renew_mediator(rig.mediators[0], side.host, (7,))
    assert side.uplink() == "eth1.8"
    side.tries()
    assert f"{side.mdev.uuid}: there is no uplink 'eth1.8'" in side.host.read(LOG)
    rig.mediators[0] = renew_mediator(rig.mediators[0], side.host, VLANS)
    for result in run(Program("ibv_rc_pingpong -c -n 20", "vrdma0", "RoCE v2"), side, peer):
        assert_done(result.stdout, 20)
