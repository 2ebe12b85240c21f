# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""UCX between two processes on this machine: shared memory, and TCP over the loopback."""

import os
from dataclasses import dataclass

from . import process
from .bench import Bench
from .errors import BenchError
from .point import Point

TIMEOUT_S = 120


@dataclass(frozen=True)
class Test:
    series: str
    options: tuple[str, ...]
    transports: str
    iterations: int
    size: int = 8
    bandwidth: bool = False


def _shared(test: str) -> tuple[str, ...]:
    return ("-t", test, "-d", "memory", "-x", "posix")


TESTS = [
    Test("ucx posix put_lat", _shared("put_lat"), "posix", 200000),
    Test("ucx posix am_lat", _shared("am_lat"), "posix", 200000),
    Test("ucx shared memory tag_lat", ("-t", "tag_lat"), "posix,self", 200000),
    Test("ucx posix put_bw", _shared("put_bw"), "posix", 20000, size=4096, bandwidth=True),
    Test("ucx tcp tag_lat", ("-t", "tag_lat"), "tcp,self", 5000),
    Test("ucx tcp tag_bw", ("-t", "tag_bw"), "tcp,self", 2000, size=65536, bandwidth=True),
]


def measure(_bench: Bench) -> list[Point]:
    return [_run(test) for test in TESTS]


def _run(test: Test) -> Point:
    port = process.free_port()
    server, client = commands(test, port, "localhost")
    return point(test, process.converse(server, client, port, TIMEOUT_S, environment(test, "lo")))


def commands(test: Test, port: int, server: str) -> tuple[list[str], list[str]]:
    """The commands of the server and of its client."""
    command = ["ucx_perftest", "-p", str(port)]
    return command, [*command, server, *test.options, "-s", str(test.size), "-n", str(test.iterations), "-f", "-v"]


def environment(test: Test, interface: str) -> dict[str, str]:
    variables = dict(os.environ, UCX_TLS=test.transports, UCX_WARN_UNUSED_ENV_VARS="n")
    return dict(variables, UCX_NET_DEVICES=interface) if test.transports.startswith("tcp") else variables


def point(test: Test, printed: str) -> Point:
    """Parses -v's output: iterations, latency (median, average, overall), bandwidth and rate (average, overall)."""
    rows = [line.split(",") for line in printed.splitlines() if line.count(",") >= 7]
    try:
        columns = [float(text) for text in rows[-1]]
    except (IndexError, ValueError):
        raise BenchError(f"ucx_perftest prints no result:\n{printed[-2000:]}") from None
    if test.bandwidth:
        return Point("ucx", test.series, test.size, "GB/s", columns[5] * (1 << 20) / 1e9)
    return Point("ucx", test.series, test.size, "us", columns[1], distribution={"p50": columns[1]})
