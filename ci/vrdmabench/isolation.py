# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The performance of a tenant beside a hostile one: a WRITE, control verbs, and its share of the bandwidth.

The poller has a core to itself. The victim and its neighbour share the other: the neighbour posts and then sleeps. The
victim leaves out times during which the neighbour or another thread had the core of the victim or the poller.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from . import machine, programs
from .bench import Bench
from .crowd import Crowd
from .devices import DEDICATED, POLLER_CORE, Mediator
from .errors import BenchError
from .hosts import ADDRESSES, Hosts
from .point import Point

FAMILY = "isolation"
NEIGHBOURS = ("write_flood", "moderated_cqs", "registration_storm", "hole_punching", "multicast_flood", "packet_flood",
              "doorbell_storm", "odp_storm", "odp_silence")  # fmt: skip
QUICK = ("write_flood", "hole_punching", "doorbell_storm")
SERIES = {"isolation_write": "write", "isolation_query": "query_qp", "isolation_create": "create_cq"}
VICTIM = "^isolation_(write|query|create)/"
SHARE = "^isolation_share/"
SIDES = "abcd"  # the victim's, and its neighbour's
GUEST_CORE = 0  # as in bench/cores.h
MTU = 9000  # so that paths can have an MTU of 4096, as all others here
LONGEST_S = 120  # of a neighbour that is not ended earlier


class Tenants:
    """A vrdmad with a device for each side of the victim and of its neighbour, in a directory."""

    def __init__(self, bench: Bench, mediator: Mediator, within: tuple[str, ...] = ()) -> None:
        self._bench = bench
        self._mediator = mediator
        self._within = within
        if machine.cores() > POLLER_CORE:
            mediator.pin_poller(POLLER_CORE)

    def run(self, pattern: str, sides: str, *options: str) -> list[Point]:
        """Runs benchmarks by pattern, with the devices of these sides; `options` belong to the first device."""
        program = str(self._bench.build / "bench/vrdma_verbs_bench")
        command = [*self._within, *self._with(sides, *options), program]
        environment = dict(os.environ, VRDMA_BENCH_POLLER=self._mediator.poller_task(),
                           XDG_RUNTIME_DIR=str(self._mediator.sockets[0].parent))  # fmt: skip
        return programs.points(FAMILY, pattern, command, environment)

    @contextmanager
    def neighbour(self, name: str, prefix: tuple[str, ...] = (), *options: str) -> Iterator[None]:
        """A neighbour that is active while this is used as a context."""
        program = [str(self._bench.build / "torture/vrdma-torture"), f"--hostile={name}", "--seconds", str(LONGEST_S),
                   *options]
        if not prefix:
            side = SIDES[2]
            program = [*self._within, *self._with(side), *program, "--socket", str(self._socket(side))]
        command = ["taskset", "--cpu-list", str(GUEST_CORE), *prefix, *program]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                said = []
                assert process.stdout
                for line in process.stdout:
                    said.append(line)
                    if line.startswith(f"{name} is at work"):
                        break
                else:
                    raise BenchError(f"{' '.join(command)}:\n{''.join(said)}")
                yield
            finally:
                process.kill()

    def _socket(self, side: str) -> Path:
        return self._mediator.sockets[SIDES.index(side)]

    def _with(self, sides: str, *options: str) -> list[str]:
        first, *others = [["--device", str(self._socket(side))] for side in sides]
        return [str(self._bench.build / "providers/vrdma/vrdma-run"), *first, *options, *sum(others, []), "--"]


def measure(bench: Bench) -> list[Point]:
    points = []
    for name in QUICK if bench.quick else NEIGHBOURS:
        points += _beside_network(bench, name) if name == "packet_flood" else _beside(bench, name)
    points += _beside_scrapes(bench)
    with _tenants(bench) as tenants:
        return points + [replace(point, series="bandwidths apart") for point in tenants.run(SHARE, SIDES)]


@contextmanager
def _tenants(bench: Bench) -> Iterator[Tenants]:
    with tempfile.TemporaryDirectory(prefix="vrdma-bench-") as directory:
        mediator = Mediator(bench.build, Path(directory), "tenants", DEDICATED, sides=SIDES)
        try:
            mediator.await_ready()
            yield Tenants(bench, mediator)
        finally:
            mediator.stop()


def _beside(bench: Bench, name: str) -> list[Point]:
    """Uses a vrdmad for each neighbour, so that none affects the next."""
    with _tenants(bench) as tenants:
        alone = tenants.run(VICTIM, SIDES[:2])
        with tenants.neighbour(name):
            return compared(name, alone, tenants.run(VICTIM, SIDES[:2]))


def _beside_network(bench: Bench, name: str) -> list[Point]:
    """Uses another host of the victim's network as the neighbour."""
    with Hosts(bench.build, config=DEDICATED, sides=SIDES, mtu=MTU) as hosts:
        tenants = Tenants(bench, hosts.mediators[0], hosts.within(0))
        options = ("--address", ADDRESSES[0])
        alone = tenants.run(VICTIM, SIDES[:2], *options)
        with tenants.neighbour(name, hosts.within(1), "--network", ADDRESSES[0]):
            return compared(name, alone, tenants.run(VICTIM, SIDES[:2], *options))


def _beside_scrapes(bench: Bench) -> list[Point]:
    """Beside many devices, whose metrics are read all the time."""
    with tempfile.TemporaryDirectory(prefix="vrdma-bench-") as directory:
        crowd = Crowd(bench.build, Path(directory), bench.quick)
        mediator = Mediator(bench.build, Path(directory), "tenants", DEDICATED + crowd.config, sides=SIDES[:2],
                            within=crowd.within)  # fmt: skip
        try:
            mediator.await_ready()
            tenants = Tenants(bench, mediator)
            with crowd.open():
                readings = [Point(FAMILY, "device list", crowd.size, "ms", crowd.list()),
                            Point(FAMILY, "scrape", crowd.size, "ms", crowd.scrape())]  # fmt: skip
                alone = tenants.run(VICTIM, SIDES[:2])
                with crowd.scraped():
                    return readings + compared("scrapes", alone, tenants.run(VICTIM, SIDES[:2]))
        finally:
            mediator.stop()


def compared(name: str, alone: list[Point], beside: list[Point]) -> list[Point]:
    """The victim's results beside the neighbour, with its results alone as baselines."""
    baselines = {point.series: point.value for point in alone}
    return [replace(point, series=f"{SERIES[point.series]} beside {name}", baseline=baselines[point.series])
            for point in beside]
