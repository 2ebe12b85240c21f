# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The command line of ci/bench, and the order of a run."""

import argparse
import math
import signal
import subprocess
import sys
from pathlib import Path

from vrdmalab.progress import say

from . import compare, machine
from .bench import Bench
from .devices import Devices
from .errors import BenchError
from .families import FAMILIES, NAMES
from .point import Point
from .results import Results
from .statistics import merge

BUILD = machine.PROJECT / "build/release"
TARGETS = ("vrdma_verbs_bench", "vrdma_bench", "vrdma_torture")
WORSE = 3


def main(arguments: list[str]) -> int:
    # A run that is terminated must end its daemons, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = _parser().parse_args(arguments)
    try:
        if options.list:
            print("\n".join(f"{family.name:14}{family.title}" for family in FAMILIES))
            return 0
        return _run(options)
    except BenchError as error:
        print(f"ci/bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ci/bench",
                                     description="Measures vrdma natively; see docs/man/vrdma-bench.1.")
    parser.add_argument("--quick", action="store_true", help="a minute or two: fewer sizes, no repetitions")
    parser.add_argument("--repetitions", type=int, choices=range(1, 100), default=3, metavar="N",
                        help="of each (default: 3)")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help="some measurements")
    parser.add_argument("--compare", type=Path, metavar="FILE",
                        help="with a saved results.json; exit status 3 if it is worse")
    parser.add_argument("--output", type=Path, metavar="DIR", default=machine.PROJECT / "build/bench",
                        help="where results.json and index.html go (default: build/bench)")
    parser.add_argument("--list", action="store_true", help="print the names of measurements")
    return parser


def _run(options: argparse.Namespace) -> int:
    before = Results.load(options.compare) if options.compare else None
    _build()
    # The modules that draw the page may only just have been installed.
    from . import bars, report

    facts = machine.facts()
    results = Results(facts, _measure(options))
    verdicts = bars.judge(results.points, machine.cores())
    changes = compare.compare(before.points, results.points) if before else []
    options.output.mkdir(parents=True, exist_ok=True)
    results.save(options.output / "results.json")
    (options.output / "index.html").write_text(report.page(results, verdicts, changes))
    print(report.bars_text(verdicts))
    if changes:
        print("\n" + compare.table(changes))
    say(f"written: {options.output}/results.json and index.html")
    return WORSE if any(change.verdict == "WORSE" for change in changes) else 0


def _build() -> None:
    for command in (["ci/build"], ["flock", "build/lock", "cmake", "--build", str(BUILD), "--target", *TARGETS]):
        say(" ".join(command))
        if subprocess.run(command, cwd=machine.PROJECT, stdout=sys.stderr, check=False).returncode:
            raise BenchError(f"{' '.join(command)} failed")


def checked(family: str, points: list[Point]) -> list[Point]:
    """Refuses empty results: a program may succeed without having measured anything."""
    if not points:
        raise BenchError(f"{family}: no result")
    for point in points:
        if not all(math.isfinite(value) and value >= 0
                   for value in (point.value, point.baseline or 0, *point.distribution.values())):
            raise BenchError(f"{family}: {point.name}: {point.value} {point.unit} is no result")
    return points


def _measure(options: argparse.Namespace) -> list[Point]:
    """Repeats all families together, so that a temporary disturbance affects few repetitions of one point."""
    families = [family for family in FAMILIES if family.name in options.only]
    repetitions = 1 if options.quick else options.repetitions
    found = []
    with Devices(BUILD) as devices:
        bench = Bench(BUILD, devices, options.quick)
        for repetition in range(repetitions):
            points = []
            for number, family in enumerate(families):
                say(f"{repetition + 1}/{repetitions} {number + 1}/{len(families)} {family.name}: {family.title}")
                points += checked(family.name, family.measure(bench))
            found.append(points)
    return merge(found)
