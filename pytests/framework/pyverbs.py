# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""rdma-core's own tests of pyverbs, as Debian ships them in the documentation of python3-pyverbs."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

DOCUMENTATION = "usr/share/doc/rdma-core/tests"
# Tests of the providers mlx5 and efa alone.
OTHER_PROVIDERS = ("test_mlx5", "test_efa")


@dataclass(frozen=True)
class Outcome:
    """What came of a test; why is the suite's reason to skip it, or the trace of its failure."""

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
    """Where the documentation is. An image of a container may have been installed without: then from the package."""
    installed = Path("/") / DOCUMENTATION
    if installed.exists():
        return installed
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "python3-pyverbs"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    subprocess.run(["apt-get", "download", "-q", f"python3-pyverbs={version}"], cwd=directory, check=True)
    (package,) = directory.glob("python3-pyverbs_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, directory / "package"], check=True)
    return directory / "package" / DOCUMENTATION


def parse(output: str) -> list[Outcome]:
    """What guest/pyverbs_suite.py has printed."""
    return [Outcome(line["test"], line["outcome"], line["why"]) for line in map(json.loads, output.splitlines())]


def read(path: Path) -> dict[str, str]:
    """By test, the result that a list expects."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {test: result for test, result, *_ in (line.split(": ", 2) for line in lines)}


def write(path: Path, outcomes: Iterable[Outcome]) -> None:
    """Replaces a list, but for the comment that it begins with."""
    comment = [line for line in path.read_text().splitlines() if line.startswith("#")]
    path.write_text("\n".join([*comment, *sorted(map(str, outcomes))]) + "\n")
