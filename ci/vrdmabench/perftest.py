# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Debian's perftest, two processes through vrdmad."""

from . import machine, process
from .bench import Bench
from .errors import BenchError
from .point import Point

TIMEOUT_S = 120
GID_INDEX = 1
LATENCY = ("ib_write_lat", "ib_send_lat", "ib_read_lat", "ib_atomic_lat")
BANDWIDTH = ("ib_write_bw", "ib_send_bw", "ib_read_bw")
ATOMIC_SIZE = 8


def measure(bench: Bench) -> list[Point]:
    latency_sizes = (8,) if bench.quick else (8, 256, 4096, 65536)
    bandwidth_sizes = (65536,) if bench.quick else (64, 1024, 4096, 65536, 1 << 20)
    points = [_latency(bench, program, size) for program in LATENCY for size in latency_sizes
              if size == ATOMIC_SIZE or program != "ib_atomic_lat"]  # fmt: skip
    return points + [_bandwidth(bench, program, size) for program in BANDWIDTH for size in bandwidth_sizes]


def _latency(bench: Bench, program: str, size: int) -> Point:
    # If both programs and the poller spin on fewer cores than threads, each round trip waits for time slices.
    crowded = program in ("ib_write_lat", "ib_send_lat") and machine.cores() < 3
    iterations = 200 if crowded else 10000
    # perftest's atomics have a fixed size, and refuse an option for it.
    sizes = [] if program == "ib_atomic_lat" else ["-s", str(size)]
    printed = _run(bench, program, [*sizes, "-n", str(iterations)])
    return latency_point(program, size, printed)


def latency_point(program: str, size: int, printed: str) -> Point:
    _, _, least, _, typical, _, _, p99, p999 = result_line(printed, 9)
    distribution = {"min": least, "p50": typical, "p99": p99, "p99.9": p999}
    return Point("perftest", program, size, "us", typical, distribution=distribution)


def _bandwidth(bench: Bench, program: str, size: int) -> Point:
    return bandwidth_point(program, size, _run(bench, program, ["-s", str(size), "-n", "5000"]))


def bandwidth_point(program: str, size: int, printed: str) -> Point:
    _, _, _, mib_s, _ = result_line(printed, 5)
    return Point("perftest", program, size, "GB/s", mib_s * (1 << 20) / 1e9)


def _run(bench: Bench, program: str, options: list[str]) -> str:
    port = process.free_port()
    command = [program, "-F", "-x", str(GID_INDEX), "-p", str(port), *options]
    devices = bench.devices
    return process.converse(devices.command(["shared/0"], *command),
                            devices.command(["shared/1"], *command, "localhost"),
                            port, TIMEOUT_S, devices.environment())  # fmt: skip


def result_line(printed: str, columns: int) -> list[float]:
    """The numbers of the line below the headings."""
    lines = iter(printed.splitlines())
    for line in lines:
        if line.lstrip().startswith("#bytes"):
            numbers = [float(word) for word in next(lines, "").split()]
            if len(numbers) == columns:
                return numbers
    raise BenchError(f"perftest prints no result:\n{printed[-2000:]}")
