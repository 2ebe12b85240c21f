# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A VLAN of guests on two hosts: vrdma devices use its GIDs to reach each other and Linux's rxe, which gets its packets
by the VLAN's own interface.
"""

import pytest

from framework import connections
from framework.connections import PINGS, pings
from framework.lab import TIMEOUT_S, Gid, Guest, Machine
from framework.mdev import DEVICE_ADD, mdev_of
from framework.process import Process
from test_across_hosts_lab import Side, Talk, carry_out, peer, user_access  # noqa: F401 (also fixtures of these tests)
from test_pingpong import assert_done

pytestmark = pytest.mark.lab_hosts

VLAN = "vlan7"
ADD = """
modprobe 8021q
ip link add link {nic} name {vlan} type vlan id 7
ip address add {addresses[4]}/24 dev {vlan}
ip -6 address add {addresses[6]}/64 dev {vlan} nodad
ip link set {vlan} up
"""
# As they appear in the lists of GIDs.
GIDS = {4: ":ffff:0a57:", 6: "fd87:"}
AWAIT_GIDS = """
for gid in {gids}; do
    until grep -qs $gid /sys/class/infiniband/{device}/ports/1/gids/*; do sleep 0.05; done
done
"""


class Tagged(Guest):
    """A guest by its addresses in the VLAN. Programs exchange their parameters by TCP outside of the VLAN."""

    def __init__(self, guest: Guest, number: int) -> None:
        super().__init__(guest.lab, guest.name)
        self.addresses = {4: f"10.87.0.{number}", 6: f"fd87::{number}"}

    def add(self, device: str) -> None:
        self.script(ADD.format(nic=self.nic, vlan=VLAN, addresses=self.addresses))
        self.script(AWAIT_GIDS.format(gids=" ".join(GIDS.values()), device=device), TIMEOUT_S)

    def remove(self) -> None:
        self.run(f"ip link del {VLAN}")

    def gid(self, device: str, kind: str = "RoCE v2", family: int = 4) -> Gid:
        (gid,) = [gid for gid in self.gids[device] if gid.type == kind and GIDS[family] in gid.address]
        return gid

    def received(self) -> int:
        """Frames with the VLAN's tag that its own stack has received."""
        return int(self.read(f"/sys/class/net/{VLAN}/statistics/rx_packets"))


@pytest.fixture
def talks(guest0, peer):  # noqa: F811
    """Both directions, by IPv4 and by IPv6, between addresses in the VLAN."""
    guests = Tagged(guest0, 1), Tagged(peer.guest, 2)
    here, there = Side(guests[0], "vrdma0"), Side(guests[1], peer.device)
    for guest, side in zip(guests, (here, there), strict=True):
        guest.add(side.device)
    yield [Talk(*sides, family) for sides in ((here, there), (there, here)) for family in (4, 6)]
    for guest in guests:
        guest.remove()


@pytest.mark.parametrize("program", ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"])
def test_pingpong(talks, program):
    """Sends 20 messages each way; expects all to arrive intact. At rxe they have the VLAN's tag. With a vrdma device,
    the guest's stack must not receive them."""
    sides = talks[0].server, talks[0].client
    before = [side.guest.received() for side in sides]
    for results in carry_out(talks, lambda talk: talk.verbs(f"{program} -c -e -n 20")):
        for result in results:
            assert_done(result.stdout, 20)
    for side, count in zip(sides, before, strict=True):
        assert (side.guest.received() >= count + 4 * 20) == (side.device == "rxe0")


def start_rping(talk: Talk) -> tuple[Process, Process]:
    server = talk.server.guest
    assert isinstance(server, Tagged)
    listen, _ = connections.rping(server, talk.family, "-S 10000")
    there = server.addresses[talk.family]
    return talk.connected(listen, f"rping -c -a {there} -p {{port}} -C {PINGS} -V -v -S 10000")


def test_rping(talks):
    """Connects by addresses in the VLAN, and has the server READ and WRITE buffers that the client verifies; expects
    every round to succeed."""
    for _, client in carry_out(talks, start_rping):
        assert pings(client) == PINGS


ADD_NUMBERED = """
modprobe 8021q
ip link add link {nic} name vlan{vlan} type vlan id {vlan}
ip address add 10.87.{vlan}.1/24 dev vlan{vlan}
ip link set vlan{vlan} up
"""
# Without it, QEMU moves no guest whose device does not track what it writes.
MOVABLE = ",enable-migration=on"


def give_vlans(host: Machine, guest: Guest, device: str, vlans: str) -> None:
    """Takes the device from the guest, writes the VLANs in which it may have addresses, and gives it back. The guest
    can still move."""
    mdev = mdev_of(host, guest)
    guest.monitor("device_del vrdma")
    guest.script(f"while [ -e /sys/class/infiniband/{device} ]; do sleep 0.05; done", TIMEOUT_S)
    host.script(f"until echo '{vlans}' >{mdev.path}/vlans; do sleep 0.05; done 2>/dev/null", TIMEOUT_S)
    guest.forget("function")
    guest.monitor(DEVICE_ADD.format(mdev.uuid) + MOVABLE)
    guest.await_device(device)


def await_gid(guest: Guest, device: str, vlan: int) -> None:
    guest.script(AWAIT_GIDS.format(gids=f":ffff:0a57:{vlan:02x}01", device=device), TIMEOUT_S)


def test_vlans_of_a_device(host, guest0):
    """Gives a device VLAN 8 by its attribute; expects its guest to have an address there and none in VLAN 7. Removes
    the attribute's value; expects an address in VLAN 7 as well, because the type allows it."""
    device = "vrdma0"
    give_vlans(host, guest0, device, "8")
    try:
        for vlan in (7, 8):
            guest0.script(ADD_NUMBERED.format(nic=guest0.nic, vlan=vlan))
        await_gid(guest0, device, 8)
        assert guest0.script(f"cat /sys/class/infiniband/{device}/ports/1/gids/* | grep 0a57:0701",
                             check=False).stdout == ""
        give_vlans(host, guest0, device, "")
        await_gid(guest0, device, 8)
        await_gid(guest0, device, 7)
    finally:
        host.script(f"echo >{mdev_of(host, guest0).path}/vlans", check=False)
        for vlan in (7, 8):
            guest0.run(f"ip link del vlan{vlan}", check=False)
