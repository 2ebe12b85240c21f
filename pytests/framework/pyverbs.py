# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""rdma-core's own tests of pyverbs, as Debian ships them in the documentation of python3-pyverbs."""

import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .process import REPORTED_LINES, Result

DOCUMENTATION = "usr/share/doc/rdma-core/tests"
BEGUN = "begun"
# Parts of the suite, by the letters with which modules begin. The two parts of a line take about the same time. If the
# lab loses a VM, only one part has to be repeated (emulator.py).
PAIRS = (("a-c", "r-z"), ("d-l", "m-n"), ("o-p", "q"))
ALL = "a-z"
# Tests that are only for the providers mlx5 and efa.
OTHER_PROVIDERS = ("test_mlx5", "test_efa")


@dataclass(frozen=True)
class Outcome:
    """The result of a test. `why` is the suite's reason to skip it, or the trace of its failure."""

    test: str
    result: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.test}: {self.result}" + (f": {self.why}" if self.why else "")


def unpack(directory: Path) -> Path:
    """Makes a directory with the package `tests` in it."""
    suite = directory / "pyverbs"
    (suite / "tests").mkdir(parents=True)
    for source in _installed(directory).iterdir():
        if source.name.startswith(OTHER_PROVIDERS):
            continue
        if source.suffix == ".gz":
            (suite / "tests" / source.stem).write_bytes(gzip.decompress(source.read_bytes()))
        else:
            shutil.copy(source, suite / "tests")
    return suite


def _installed(directory: Path) -> Path:
    """The directory of the documentation. If it was left out, as in a container's image, it comes from the package."""
    installed = Path("/") / DOCUMENTATION
    if installed.exists():
        return installed
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "python3-pyverbs"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    subprocess.run(["apt-get", "download", "-q", f"python3-pyverbs={version}"], cwd=directory, check=True)
    (package,) = directory.glob("python3-pyverbs_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, directory / "package"], check=True)
    return directory / "package" / DOCUMENTATION


def is_in(part: str, test: str) -> bool:
    return re.match(f"test_[{part}]", test) is not None


def parse(output: str) -> list[Outcome]:
    """Parses the output of guest/pyverbs_suite.py. A test counts as failed if it has a line for its begin, and no whole
    line for its end."""
    whole_lines = output.rpartition("\n")[0].splitlines()
    printed = [Outcome(line["test"], line["outcome"], line["why"]) for line in map(json.loads, whole_lines)]
    outcomes = [outcome for outcome in printed if outcome.result != BEGUN]
    ended = {outcome.test for outcome in outcomes}
    return outcomes + [Outcome(begun.test, "failed", "the program ended in it") for begun in printed
                       if begun.test not in ended]


def end(result: Result) -> list[str]:
    """The exit status of the program and its last lines; nothing if it succeeded."""
    last = "\n".join(result.stderr.splitlines()[-REPORTED_LINES:])
    return [f"exit status {result.status}, the end of stderr:\n{last}"] if result.status else []


LINE = re.compile(r"(?P<test>\S+?)(?: \((?P<place>\w+)\))?: (?P<outcome>.+)")
PLACES = ("native", "lab")


def _read_all(path: Path) -> dict[str, dict[str, str]]:
    """By place and test, the outcome with the reason. A line without a place holds for all places."""
    listed: dict[str, dict[str, str]] = {place: {} for place in PLACES}
    for line in path.read_text().splitlines():
        if not line.startswith("#") and (match := LINE.fullmatch(line)):
            for place in [match["place"]] if match["place"] else PLACES:
                listed[place][match["test"]] = match["outcome"]
    return listed


def read(path: Path, place: str, part: str = ALL) -> dict[str, str]:
    """By test, the result that the list expects in a place."""
    return {test: outcome.split(":")[0] for test, outcome in _read_all(path)[place].items() if is_in(part, test)}


def write(path: Path, place: str, part: str, outcomes: Iterable[Outcome]) -> None:
    """Replaces the results of a part in a place. The comment at the beginning stays."""
    listed = _read_all(path)
    listed[place] = {test: outcome for test, outcome in listed[place].items() if not is_in(part, test)}
    listed[place] |= {outcome.test: str(outcome).split(": ", 1)[1] for outcome in outcomes}
    comment = [line for line in path.read_text().splitlines() if line.startswith("#")]
    lines = []
    for test in sorted({test for each in listed.values() for test in each}):
        found = {each: listed[each][test] for each in PLACES if test in listed[each]}
        if len(found) == len(PLACES) and len(set(found.values())) == 1:
            lines.append(f"{test}: {found[place]}")
        else:
            lines += [f"{test} ({each}): {outcome}" for each, outcome in found.items()]
    path.write_text("\n".join([*comment, *lines]) + "\n")
