# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""How fast between guests on two hosts: as ratios to SoftRoCE in the same guests, by the same cable, in the same minutes."""

from dataclasses import dataclass

import pytest

from framework.lab import kept
from framework.programs import bandwidths, latencies
from framework.rxe import remove_rxe
from test_across_hosts_lab import use_rxe
from test_performance import best  # noqa: F401 (a fixture)

pytestmark = pytest.mark.lab_hosts


@dataclass(frozen=True)
class Measurement:
    command: str
    ratio: float  # to SoftRoCE at least; by a quarter or more below what is usual, as the machine may have others to serve

    @property
    def of_bandwidth(self) -> bool:
        return "_bw" in self.command


MEASUREMENTS = [
    Measurement("ib_read_lat -F -s 8 -n 300", 1.6),
    Measurement("ib_write_lat -F -s 8 -n 300", 1.2),
    Measurement("ib_send_lat -F -e -s 8 -n 300", 1.0),
    Measurement("ib_write_bw -F -s 65536 -n 100", 3.0),
]


@pytest.fixture
def measure(best):  # noqa: F811
    """All of it, by that device."""

    def each(device: str) -> list[float]:
        bandwidth = (bandwidths, lambda line: line.message_rate, max, "million messages a second")
        latency = (latencies, lambda line: line.typical, min, "us")
        return [best(wanted.command, device, *(bandwidth if wanted.of_bandwidth else latency)) for wanted in MEASUREMENTS]

    return each


@pytest.fixture
def results(guest0, guest1, measure):
    """By vrdma, and by rxe in its place."""
    ours = measure("vrdma0")
    with kept(use_rxe, guest0), kept(use_rxe, guest1):
        theirs = measure("rxe0")
    yield list(zip(MEASUREMENTS, ours, theirs, strict=True))
    for guest in (guest0, guest1):
        remove_rxe(guest)
        guest.run("modprobe vrdma_ib")
        guest.await_device("vrdma0")


def test_beside_rxe(results, measured):
    """Measures latencies of 8 bytes and the bandwidth of 64 KiB; expects them to be better than SoftRoCE's as they usually are."""
    ratios = {wanted: ours / theirs if wanted.of_bandwidth else theirs / ours for wanted, ours, theirs in results}
    measured.extend(f"{wanted.command}: {ratio:.2f} times as good as SoftRoCE" for wanted, ratio in ratios.items())
    for wanted, ratio in ratios.items():
        assert ratio >= wanted.ratio, wanted.command
