# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Performance between guests on two hosts, as ratios to SoftRoCE in the same guests, by the same cable and at the same
time."""

from dataclasses import dataclass

import pytest

from framework.programs import bandwidths, latencies
from test_across_hosts_lab import rxe_instead
from test_performance import best  # noqa: F401 (a fixture)

pytestmark = pytest.mark.lab_hosts


@dataclass(frozen=True)
class Measurement:
    command: str
    # The least ratio to SoftRoCE. It is a quarter or more below the usual one, as the machine may have other work.
    ratio: float

    @property
    def of_bandwidth(self) -> bool:
        return "_bw" in self.command


MEASUREMENTS = [
    Measurement("ib_read_lat -F -s 8 -n 300", 1.25),
    Measurement("ib_write_lat -F -s 8 -n 300", 1.2),
    Measurement("ib_send_lat -F -e -s 8 -n 300", 1.0),
    Measurement("ib_write_bw -F -s 65536 -n 100", 3.0),
]


@pytest.fixture
def measure(best):  # noqa: F811
    """Makes all measurements with that device."""

    def each(device: str) -> list[float]:
        bandwidth = (bandwidths, lambda line: line.message_rate, max, "million messages a second")
        latency = (latencies, lambda line: line.typical, min, "us")
        return [best(wanted.command, device, *(bandwidth if wanted.of_bandwidth else latency))
                for wanted in MEASUREMENTS]

    return each


@pytest.fixture
def ours(measure) -> list[float]:
    return measure("vrdma0")


@pytest.fixture
def rxe_devices(ours, guest0, guest1):
    """SoftRoCE devices, which replace both guests' vrdma devices after those were measured."""
    with rxe_instead(guest0), rxe_instead(guest1):
        yield


@pytest.fixture
def theirs(rxe_devices, measure) -> list[float]:
    return measure("rxe0")


def test_beside_rxe(ours, theirs, measured):
    """Measures latencies of 8 bytes and the bandwidth of 64 KiB; expects them to be better than SoftRoCE's by the usual
    ratios."""
    ratios = {wanted: our / their if wanted.of_bandwidth else their / our
              for wanted, our, their in zip(MEASUREMENTS, ours, theirs, strict=True)}  # fmt: skip
    measured.extend(f"{wanted.command}: {ratio:.2f} times as good as SoftRoCE" for wanted, ratio in ratios.items())
    for wanted, ratio in ratios.items():
        assert ratio >= wanted.ratio, wanted.command
