# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Measurements between two hosts: perftest by RoCE, compared with TCP and UCX by the same interfaces."""

import os
import re
from dataclasses import dataclass, replace

from . import machine, perftest, process, ucx
from .bench import Bench
from .errors import BenchError
from .hosts import ADDRESSES, GID_INDEX, Hosts
from .point import Point

FAMILY = "wire"
TIMEOUT_S = 120
PORT = 7471  # free, because the namespaces are new
LOSS = 0.01
STREAM_SIZE = 65536
PATH_MTU = 1024  # bytes of payload in a packet of an interface's usual 1500
LONG_STREAM = 4096  # operations: so many that the pollers' work before and after hardly counts
SPINNERS = 4  # both programs and both pollers
UCX = [
    ucx.Test("ucx tag_lat", ("-t", "tag_lat"), "tcp,self", 5000),
    ucx.Test("ucx tag_bw", ("-t", "tag_bw"), "tcp,self", 2000, size=STREAM_SIZE, bandwidth=True),
]


@dataclass(frozen=True)
class Latency:
    series: str
    program: str
    options: tuple[str, ...] = ()
    trips: float = 1.0  # factor for the baseline, because qperf reports half a round trip

    @property
    def spins(self) -> bool:
        return not self.options


LATENCIES = [
    Latency("ib_write_lat", "ib_write_lat"),
    Latency("ib_send_lat", "ib_send_lat"),
    Latency("ib_send_lat events", "ib_send_lat", ("-e",)),
    Latency("ib_read_lat events", "ib_read_lat", ("-e",), trips=2),
]
BANDWIDTHS = ("ib_write_bw", "ib_read_bw")


def measure(bench: Bench) -> list[Point]:
    latency_sizes, sizes = ((8,), (STREAM_SIZE,)) if bench.quick else ((8, 256, 4096, 65536),
                                                                       (1024, 4096, STREAM_SIZE, 1 << 20))
    with Hosts(bench.build) as hosts:
        points = [point for size in latency_sizes for point in _latencies(hosts, size, bench.quick)]
        points += [point for size in sizes for point in _bandwidths(hosts, size)]
        points += _packets(hosts) + [_ucx(hosts, test) for test in UCX]
    with Hosts(bench.build, transport="af_xdp") as hosts:
        points += _af_xdp(hosts, points)
    with Hosts(bench.build, lossy=True) as hosts:
        return points + _lossy(hosts)


def _latencies(hosts: Hosts, size: int, quick: bool) -> list[Point]:
    points = []
    for test in LATENCIES[::2] if quick else LATENCIES:
        crowded = test.spins and machine.cores() < SPINNERS
        printed = _perftest(hosts, test.program, *test.options, "-s", str(size), "-n", str(200 if crowded else 2000))
        tcp = _tcp(hosts, "tcp_lat", size) * 1e6 * test.trips
        points.append(replace(perftest.latency_point(test.series, size, printed), family=FAMILY, baseline=tcp))
    return points


def _bandwidths(hosts: Hosts, size: int) -> list[Point]:
    return [replace(_stream(hosts, program, size), baseline=_tcp(hosts, "tcp_bw", size) / 1e9)
            for program in BANDWIDTHS]


def _packets(hosts: Hosts) -> list[Point]:
    """Packets of a long stream, so that work before and after it hardly counts. The interface's counter is no help: it
    counts what was segmented later as one."""
    before = hosts.poller_seconds()
    stream = _stream(hosts, "ib_write_bw", STREAM_SIZE, LONG_STREAM)
    busy = hosts.poller_seconds() - before
    packets = STREAM_SIZE // PATH_MTU * LONG_STREAM
    seconds = STREAM_SIZE * LONG_STREAM / (stream.value * 1e9)
    return [Point(FAMILY, series, STREAM_SIZE, "M/s", packets / time / 1e6)
            for series, time in (("packets", seconds), ("packets a core", busy))]


def _af_xdp(hosts: Hosts, points: list[Point]) -> list[Point]:
    """The same measurements by AF_XDP, with AF_PACKET, the default for a veth, as the baseline. They include TCP, which
    shows how much performance is left to others."""
    by_packets = {(point.series, point.x): point for point in points}
    ours = [_stream(hosts, program, STREAM_SIZE) for program in BANDWIDTHS] + _packets(hosts)
    beside = [replace(point, series=f"af_xdp {point.series}", baseline=by_packets[point.series, point.x].value)
              for point in ours]
    tcp = _tcp(hosts, "tcp_bw", STREAM_SIZE) / 1e9
    return [*beside,
            Point(FAMILY, "af_xdp tcp_bw", STREAM_SIZE, "GB/s", tcp, by_packets[BANDWIDTHS[0], STREAM_SIZE].baseline)]


def _lossy(hosts: Hosts) -> list[Point]:
    """Measurements without loss first, and then with it."""
    ours, tcp = [], []
    for loss in (0, LOSS):
        hosts.lose(loss)
        ours.append(_stream(hosts, "ib_write_bw", STREAM_SIZE).value)
        tcp.append(_tcp(hosts, "tcp_bw", STREAM_SIZE) / 1e9)
    found = (("lossy ib_write_bw", ours[1], ours[0]), ("lossy tcp_bw", tcp[1], tcp[0]),
             ("lossy beside TCP", ours[1], tcp[1]))
    return [Point(FAMILY, series, STREAM_SIZE, "GB/s", value, baseline) for series, value, baseline in found]


def _stream(hosts: Hosts, program: str, size: int, operations: int | None = None) -> Point:
    operations = operations or min(20000, max(200, (64 << 20) // size))
    printed = _perftest(hosts, program, "-s", str(size), "-n", str(operations))
    return replace(perftest.bandwidth_point(program, size, printed), family=FAMILY)


def _perftest(hosts: Hosts, program: str, *options: str) -> str:
    command = [program, "-F", "-x", str(GID_INDEX), "-p", str(PORT), *options]
    return _converse(hosts.command(0, *command), hosts.command(1, *command, ADDRESSES[0]))


def _tcp(hosts: Hosts, test: str, size: int) -> float:
    command = ["qperf", "--listen_port", str(PORT)]
    client = [*command, "--ip_port", str(PORT + 1), "--time", "1", "--msg_size", str(size), "--unify_units",
              "--precision", "6"]
    printed = _converse([*hosts.within(0), *command], [*hosts.within(1), *client, ADDRESSES[0], test, "quit"])
    return tcp_result(printed)


def tcp_result(printed: str) -> float:
    """The result in seconds, or in bytes per second."""
    found = re.search(r"(?:latency|bw)\s*=\s*([\d.,]+) (ns|bytes/sec)", printed)
    if not found:
        raise BenchError(f"qperf prints no result:\n{printed[-2000:]}")
    value = float(found[1].replace(",", ""))
    return value / 1e9 if found[2] == "ns" else value


def _ucx(hosts: Hosts, test: ucx.Test) -> Point:
    server, client = ucx.commands(test, PORT, ADDRESSES[0])
    environment = ucx.environment(test, "lan")
    printed = process.converse([*hosts.within(0), *server], [*hosts.within(1), *client], PORT, TIMEOUT_S, environment)
    return replace(ucx.point(test, printed), family=FAMILY)


def _converse(server: list[str], client: list[str]) -> str:
    return process.converse(server, client, PORT, TIMEOUT_S, dict(os.environ))
