# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The includes between sources of the project."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from posixpath import dirname, join, normpath

SOURCES = (".c", ".h", ".cpp", ".h.in")
LINE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')
SEARCHED = ("include", "compat")  # after a file's own folder and its parents
GENERATED = ("probed.h",)  # by compat/probe.mk


@dataclass(frozen=True)
class Include:
    file: str
    line: int
    name: str
    target: str | None  # None: in quotes, but not a file of the project

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def list_sources(root: Path) -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout
    return [file for file in listed.splitlines() if file.endswith(SOURCES)]


def resolve(file: str, quote: str, name: str, sources: set[str]) -> str | None:
    around = []
    while file and quote == '"':
        file = dirname(file)
        around.append(file)
    paths = [normpath(join(start, name)) for start in (*around, *SEARCHED)]
    return next((path for path in paths if path in sources), None)


def read_includes(root: Path, files: list[str]) -> list[Include]:
    sources = {file.removesuffix(".in") for file in files}
    found = []
    for file in files:
        for number, line in enumerate((root / file).read_text(errors="replace").splitlines(), 1):
            if match := LINE.match(line):
                quote, name = match.groups()
                target = resolve(file, quote, name, sources)
                if target or (quote == '"' and name not in GENERATED):
                    found.append(Include(file, number, name, target))
    return found
