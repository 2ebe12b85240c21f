# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The device as a guest sees it: by the stock programs, and by verbs."""

import ipaddress
import re

import pytest

from framework.text import found


@pytest.fixture
def devinfo(device, guest0) -> str:
    return guest0.run(f"ibv_devinfo -v -d {device}").stdout


def number(devinfo: str, name: str) -> int:
    return int(found(rf"(?m)^\s*{name}:\s*(0x[0-9a-fA-F]+|\d+)", devinfo)[1], 0)


@pytest.mark.lab
def test_ibv_devices(device, guest0, guest1):
    """Runs ibv_devices in each guest; expects the device with a node GUID that differs between guests."""
    guids = [found(rf"{device}\s+([0-9a-f]{{16}})", guest.run("ibv_devices").stdout)[1] for guest in (guest0, guest1)]
    assert guids[0] != guids[1]
    assert all(int(guid, 16) for guid in guids)


def test_port(devinfo):
    """Runs ibv_devinfo; expects an active port over Ethernet, with an MTU of RoCE."""
    assert "PORT_ACTIVE" in devinfo
    assert re.search(r"link_layer:\s+Ethernet", devinfo)
    assert re.search(r"active_mtu:\s+(1024|2048|4096)", devinfo)
    assert number(devinfo, "max_msg_sz") >= 8 << 20


def test_limits(devinfo):
    """Runs ibv_devinfo; expects limits that suffice for the programs of this suite, and the implemented features."""
    at_least = {"max_qp": 64, "max_qp_wr": 1024, "max_cq": 64, "max_cqe": 4096, "max_mr": 64, "max_mw": 64,
                "max_pd": 16,
                "max_ah": 16, "max_srq": 16, "max_srq_wr": 1024, "max_srq_sge": 4, "max_sge": 4, "max_qp_rd_atom": 1,
                "max_qp_init_rd_atom": 1, "max_pkeys": 1, "phys_port_cnt": 1, "max_mcast_grp": 16,
                "max_mcast_qp_attach": 16, "max_total_mcast_qp_attach": 64}  # fmt: skip
    assert {name: number(devinfo, name) >= least for name, least in at_least.items()} == dict.fromkeys(at_least, True)
    flags = {"ATOMIC_HCA", "MEM_WINDOW", "MEM_WINDOW_TYPE_2B", "MEM_MGT_EXTENSIONS", "SRQ_RESIZE"}
    assert flags <= set(re.findall(r"\w+", devinfo))


def test_what_libraries_look_for(devinfo):
    """Runs ibv_devinfo; expects the delay of answers, the port's connection manager, and the bit of ATOMIC_WRITE, by
    which librpma finds it."""
    assert number(devinfo, "local_ca_ack_delay") == 15
    assert number(devinfo, "port_cap_flags") & 1 << 16
    assert number(devinfo, "device_cap_flags_ex") & 1 << 40


@pytest.mark.lab
def test_gids_of_both_roce_versions(devinfo, device, guest0):
    """Lists the GIDs; expects each address of the paired network device once as RoCE v1 and once as v2."""
    addresses = {str(ipaddress.IPv6Address(gid.address)) for gid in guest0.gids[device]}
    text = guest0.run("ip -o address show scope global").stdout
    for family, prefix in (("inet ", "::ffff:"), ("inet6 ", "")):
        for address in re.findall(rf"{family}([0-9a-f.:]+)/", text):
            assert str(ipaddress.IPv6Address(prefix + address)) in addresses
    table = [(gid.address, gid.type) for gid in guest0.gids[device]]
    for address in {address for address, _ in table}:
        assert sorted(kind for found, kind in table if found == address) == ["IB/RoCE v1", "RoCE v2"]
    assert "RoCE v2" in devinfo
    assert "RoCE v1" in devinfo


@pytest.mark.lab
def test_pairing(device, guest0):
    """Looks for the network device of the port's GIDs; expects the one that carries the lab's addresses."""
    paired = guest0.script(f"cat /sys/class/infiniband/{device}/ports/1/gid_attrs/ndevs/0").stdout.strip()
    assert "10.77.1.1/" in guest0.run(f"ip -4 address show {paired}").stdout


@pytest.mark.lab
def test_rdma_tool(device, guest0):
    """Asks iproute2's rdma for the link; expects it active with the network device's name."""
    assert re.search(rf"link {device}/1 state ACTIVE .*netdev \w+", guest0.run("rdma link show").stdout)
