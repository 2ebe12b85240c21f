# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Names and addresses."""

import ipaddress
import os
import tomllib

import pytest
from vrdmalab import topology
from vrdmalab.topology import Guest, Host, Shape, SocketGuest

LARGEST = Shape(hosts=topology.MAX_HOSTS, guests=topology.MAX_GUESTS // topology.MAX_HOSTS)


def test_guests_are_numbered_across_hosts() -> None:
    shape = Shape(hosts=2, guests=2)
    assert [(guest.name, guest.host.name) for guest in topology.guests(shape)] == [
        ("guest0", "host0"), ("guest1", "host0"), ("guest2", "host1"), ("guest3", "host1")]  # fmt: skip


@pytest.mark.parametrize("cores, hosts, asked, expected",
                         [(2, 1, None, 2), (2, 2, None, 1), (1, 2, None, 1), (64, 2, None, 4),
                          (2, 2, 3, 3)])  # fmt: skip
def test_hosts_share_the_cores(monkeypatch: pytest.MonkeyPatch, cores: int, hosts: int, asked: int | None,
                               expected: int) -> None:
    """Expects each host to have its share of the machine's cores, at least one, or the number that was asked for."""
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert Shape(hosts=hosts, host_cpus=asked).cpus_of_host == expected


@pytest.mark.parametrize("attribute", ["name", "mac", "ipv4", "ipv6"])
def test_no_two_machines_share(attribute: str) -> None:
    machines = [*topology.hosts(LARGEST), *topology.guests(LARGEST)]
    assert len({getattr(machine, attribute) for machine in machines}) == len(machines)


def test_guests_behind_sockets_are_the_machines_of_a_lab_without_hosts() -> None:
    """Expects them to have the names and addresses of guests in hosts, and no guest in a host."""
    shape = Shape(sockets="/run/vrdma")
    alike = topology.guests(Shape())
    assert topology.hosts(shape) == [SocketGuest(0), SocketGuest(1)]
    assert topology.guests(shape) == []
    for guest, other in zip(topology.hosts(shape), alike, strict=True):
        assert (guest.name, guest.mac, guest.ipv4, guest.ipv6) == (other.name, other.mac, other.ipv4, other.ipv6)


def test_all_addresses_are_on_one_network() -> None:
    machines: list[Host | Guest] = [*topology.hosts(LARGEST), *topology.guests(LARGEST)]
    for machine in machines:
        assert ipaddress.ip_address(machine.ipv4) in ipaddress.ip_network("10.77.0.0/16")
        assert ipaddress.ip_address(machine.ipv6) in ipaddress.ip_network("fd77::/64")


def test_the_hosts_file_names_every_machine_by_both_addresses() -> None:
    lines = [line.split() for line in topology.hosts_file(Shape(hosts=2, guests=1)).splitlines()]
    assert ["10.77.1.2", "guest1"] in lines
    assert ["fd77::1:2", "guest1"] in lines
    assert ["10.77.0.2", "host1"] in lines


@pytest.mark.parametrize("hosts, uplink", [(2, "eth1"), (3, "cables"), (topology.MAX_HOSTS, "cables")])
def test_devices_are_bound_to_what_leads_to_all_hosts(hosts: int, uplink: str) -> None:
    text = topology.mediator_config(Shape(hosts=hosts, type="large"))
    vlans = ["1-4094"]
    assert tomllib.loads(text) == {"uplink": [{"interface": uplink, "vlans": vlans}],
                                   "types": {"large": {"uplink": uplink, "vlans": vlans}}}


@pytest.mark.parametrize("host, guests, userlands, disks",
                         [("bookworm", ["bookworm"], ["bookworm"], "a"), ("bookworm", ["trixie"],
                                                                          ["bookworm", "trixie"], "b"),
                          ("trixie", ["trixie"], ["trixie"], "a"), ("trixie-backports", ["trixie"], ["trixie"], "a"),
                          ("trixie", ["bookworm", "sid", "trixie"], ["trixie", "bookworm", "sid"], "bca")])  # fmt: skip
def test_guests_of_other_releases_have_disks_of_their_own(host: str, guests: list[str], userlands: list[str],
                                                          disks: str) -> None:
    shape = Shape(host_release=host, guest_releases=tuple(guests))
    assert shape.userlands == userlands
    assert [shape.disk(release) for release in guests] == [f"/dev/vd{letter}" for letter in disks]


def test_guests_have_the_releases_in_turn() -> None:
    """Names two releases for three guests of two hosts each; expects both in turn, across hosts."""
    shape = Shape(hosts=2, guests=3, guest_releases=("sid", "trixie"))
    assert [shape.release(guest) for guest in topology.guests(shape)] == ["sid", "trixie"] * 3


def test_devices_of_one_host_are_not() -> None:
    assert not topology.mediator_config(Shape(hosts=1))


@pytest.mark.parametrize("shape", [Shape(host_kernel="/some/directory"), Shape(guest_kernel="/some/directory"),
                                   Shape(host_release="trixie"), Shape(guest_releases=("bookworm", "trixie"))],
                         ids=["host_kernel", "guest_kernel", "host_release", "guest_releases"])
def test_a_kernel_that_is_not_the_images_lies_in_the_hosts_memory(shape: Shape) -> None:
    assert shape.host_memory > Shape().host_memory
