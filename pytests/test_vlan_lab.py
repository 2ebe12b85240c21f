# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""An uplink that is a VLAN of the hosts' cable: each host has a separate vrdmad for it, and processes of the hosts use
its devices."""

import pytest

from framework.lab import TIMEOUT_S, Machine
from framework.mediator import vrdmad
from framework.native import Owner
from framework.process import Process
from framework.programs import Program, bandwidths, run
from test_pingpong import assert_done

pytestmark = pytest.mark.lab_hosts

VLAN = "eth1.7"
SOCKET, CONFIG = "/run/vrdma/vlan.sock", "/run/vlan.conf"
MAKE = """
ip link add link eth1 name {vlan} type vlan id 7
ip address add {address}/24 dev {vlan}
ip -6 address add {address_6}/64 dev {vlan} nodad
ip link set {vlan} up
cat >{config} <<END
mdev = false
[[uplink]]
interface = "{vlan}"
[[vfio_user]]
name = "vlan"
socket = "{socket}"
addresses = "{address},{address_6}"
uplink = "{vlan}"
END
"""
REFUSALS = "nstat -asz IcmpOutDestUnreachs Icmp6OutDestUnreachs | grep -v '#' | sort"


class Tagged(Owner):
    """Processes of a host on a device whose packets leave by the VLAN."""

    def __init__(self, host: Machine, number: int) -> None:
        addresses = {4: f"10.88.0.{number}", 6: f"fd88::{number}"}
        super().__init__(host.lab, addresses[4], addresses)
        self.host = host

    def watch(self, command: str) -> Process:
        addresses = " ".join(f"--address {address}" for address in self.addresses.values())
        return self.host.watch(f"vrdma-run --device {SOCKET} {addresses} -- {command}")

    def received(self) -> int:
        """Frames with the VLAN's tag that have arrived."""
        return int(self.host.read(f"/sys/class/net/{VLAN}/statistics/rx_packets"))


@pytest.fixture
def tagged(lab):
    """A device on each host, with its vrdmad."""
    sides = [Tagged(Machine(lab, f"host{number}"), number + 1) for number in range(2)]
    mediators = []
    for side in sides:
        side.host.run("modprobe 8021q")
        side.host.script(MAKE.format(vlan=VLAN, config=CONFIG, socket=SOCKET, address=side.addresses[4],
                                     address_6=side.addresses[6]))
        mediators.append(side.host.watch(vrdmad(CONFIG)))
        side.host.script(f"until [ -S {SOCKET} ]; do sleep 0.05; done", TIMEOUT_S)
    yield sides
    for mediator in mediators:
        mediator.kill()
    for side in sides:
        side.host.run(f"ip link del {VLAN}")


@pytest.mark.parametrize("gid_type", ["RoCE v2", "IB/RoCE v1"])
def test_pingpong(tagged, gid_type):
    """Sends 20 messages each way; expects all to arrive intact, in frames with the tag, and no host to report an
    unreachable destination."""
    before = [(side.received(), side.host.script(REFUSALS).stdout) for side in tagged]
    for result in run(Program("ibv_rc_pingpong -c -n 20", "vrdma0", gid_type), *tagged):
        assert_done(result.stdout, 20)
    for side, (received, refusals) in zip(tagged, before, strict=True):
        assert side.received() >= received + 20
        assert side.host.script(REFUSALS).stdout == refusals


def test_bandwidth(tagged):
    """Sends 50 messages of 16 KiB at once; expects all to be carried out."""
    _, client = run(Program("ib_send_bw -F -s 16384 -n 50", "vrdma0"), *tagged)
    (line,) = bandwidths(client)
    assert (line.size, line.iterations) == (16384, 50)
