# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The project's own measuring programs, which use Google Benchmark (bench/, mediator/bench/)."""

import json
import re
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from . import process
from .bench import Bench
from .errors import BenchError
from .point import Point

Found = TypeVar("Found")
TIMEOUT_S = 1800
DISTRIBUTION = ("min", "p50", "p99", "p99.9", "max")


def verbs(bench: Bench, family: str, pattern: str, devices: list[str]) -> list[Point]:
    """Benchmarks of bench/, with these devices."""
    program = str(bench.build / "bench/vrdma_verbs_bench")
    command = bench.devices.command(devices, program) if devices else [program]
    return points(family, pattern, command, bench.devices.environment())


def points(family: str, pattern: str, command: list[str], environment: dict[str, str],
           reaction: process.Reaction | None = None) -> list[Point]:  # fmt: skip
    """Benchmarks of a command that ends with bench/'s program."""

    def point(found: dict) -> Point:
        series, x = split(found["name"])
        distribution = {name: found[name] for name in DISTRIBUTION if name in found}
        return Point(family, series, x, found["label"], found["value"], found.get("baseline"),
                     distribution=distribution)

    return _run(pattern, environment, lambda *options: [*command, *options], point, reaction)


# The counters in which the engine's benchmarks report: value, baseline, unit.
ENGINE = {
    "half_round_trip": ("half_ns", "floor_ns", "ns"),
    "among_idle": ("half_ns", "alone_ns", "ns"),
    "message_rate": ("Mmsg_s", None, "M/s"),
    "sniffed_rate": ("Mmsg_s", "off_Mmsg_s", "M/s"),
    "tracked_rate": ("Mmsg_s", "off_Mmsg_s", "M/s"),
    "tracked_bandwidth": ("GB_s", "off_GB_s", "GB/s"),
    "bandwidth": ("GB_s", "memcpy_GB_s", "GB/s"),
    "packets write": ("ns", None, "ns"),
    "packets read": ("ns", None, "ns"),
}
ENGINE_PROGRAM = "mediator/bench/vrdma_bench"
MESSAGE = 65536  # bytes
PACKETS = f"packets/{{operation}}/{MESSAGE}/"
COUNTED = "*carry_out*"  # the function that does all the work of a benchmark of packets


def engine(bench: Bench, pattern: str) -> list[Point]:
    """The soft HCA alone, with guests in the same process."""

    def point(found: dict) -> Point:
        series, x = split(found["name"])
        value, baseline, unit = ENGINE[series]
        return Point("engine", series, x, unit, found[value], found[baseline] if baseline else None)

    return _run(pattern, bench.devices.environment(), lambda *options: [str(bench.build / ENGINE_PROGRAM), *options],
                point)


def instructions(bench: Bench, operation: str) -> Point:
    """Instructions for each packet of long messages, of requester and responder together. callgrind counts them. It
    needs no hardware counters, and its results do not depend on other load of the machine."""

    def command(*options: str) -> list[str]:
        return ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--toggle-collect={COUNTED}",
                f"--log-file={log.name}", str(bench.build / ENGINE_PROGRAM), *options]  # fmt: skip

    with tempfile.NamedTemporaryFile(mode="r", suffix=".log") as log:
        (packets,) = _run(f"^{PACKETS.format(operation=operation)}", bench.devices.environment(), command,
                          lambda found: found["packets"])  # fmt: skip
        said = log.read()
    return Point("engine", f"instructions {operation}", MESSAGE, "instructions", collected(said) / packets)


def collected(said: str) -> int:
    found = re.search(r"Collected : (\d+)", said)
    if not found or found[1] == "0":
        raise BenchError(f"callgrind has counted nothing:\n{said[-2000:]}")
    return int(found[1])


def _run(pattern: str, environment: dict[str, str], command: Callable[..., list[str]],
         point: Callable[[dict], Found], reaction: process.Reaction | None = None) -> list[Found]:  # fmt: skip
    with tempfile.NamedTemporaryFile(suffix=".json") as output:
        options = [f"--benchmark_filter={pattern}", f"--benchmark_out={output.name}", "--benchmark_out_format=json"]
        run: Callable[..., str] = process.run
        if reaction:
            run = partial(process.run_with, reaction)
        run(command(*options), TIMEOUT_S, environment)
        text = Path(output.name).read_text()
    found = json.loads(text)["benchmarks"] if text else []
    if not found:
        raise BenchError(f"no benchmark is called {pattern}")
    return [point(benchmark) for benchmark in found]


def split(name: str) -> tuple[str, int | None]:
    """Google Benchmark's name as series and x: reg_mr/touched/4096/iterations:3 is ("reg_mr touched", 4096)."""
    parts = [part.rpartition(":")[2] for part in name.split("/") if not part.startswith("iterations:")]
    x = int(parts.pop()) if parts[-1].isdigit() else None
    return " ".join(parts), x
