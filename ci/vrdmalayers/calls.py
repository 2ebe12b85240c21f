# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The order of C files that one header declares. Includes do not show it, so it is checked by function calls.

The header's comment says "Layers, each of which calls only itself and those below it", and lists files without their
ending, one layer per line. Functions that the comment names, as in "some_function()", may be called upwards.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from .table import folder

CLAIM = "Layers, each of which calls only itself and those below it:"
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
ROW = re.compile(r"^ \*(?:\t| {3})(\S+(?:, \S+)*)(?:\t+| {2,})\S")
DEFINITION = re.compile(
    r"^(?!static|typedef|extern)[a-z][^\n;={}()#]*?\b(\w+)(?:\([^;{]*\)\s*\n\{|(?:\[\])? = )",
    re.MULTILINE)  # fmt: skip
NO_CODE = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


@dataclass(frozen=True)
class Order:
    header: str
    rows: list[list[str]]
    upwards: set[str]

    def row_of(self, file: str) -> int | None:
        """Files in a subfolder have one name together: `cm/`."""
        inside = file.removeprefix(folder(self.header))
        name = inside.partition("/")[0] + "/" if "/" in inside else inside.removesuffix(".c")
        return next((number for number, row in enumerate(self.rows) if name in row), None)


def read_order(root: Path, header: str) -> Order | None:
    for comment in COMMENT.findall((root / header).read_text(errors="replace")):
        if CLAIM in re.sub(r"[\s*]+", " ", comment):
            rows = [match[1].split(", ") for line in comment.splitlines() if (match := ROW.match(line))]
            return Order(header, rows, set(re.findall(r"\b(\w+)\(\)", comment)))
    return None


def check_names(order: Order, files: list[str]) -> Iterator[str]:
    here = folder(order.header)
    for file in files:
        if folder(file) == here and file.endswith(".c") and order.row_of(file) is None:
            yield f"{order.header}: {file} is in no layer"
    for name in (name for row in order.rows for name in row):
        if not any(file.startswith(here + name) if name.endswith("/")
                   else file == f"{here}{name}.c" or file.endswith(f"/{name}")
                   for file in files):  # fmt: skip
            yield f"{order.header}: {name} is no file"


def check_calls(root: Path, order: Order, files: list[str]) -> Iterator[str]:
    inside = [file for file in files if file.startswith(folder(order.header)) and file.endswith(".c")]
    rows = {file: row for file in inside if (row := order.row_of(file)) is not None}
    texts = {file: NO_CODE.sub("", (root / file).read_text()) for file in rows}
    defined = {name: file for file, text in texts.items() for name in DEFINITION.findall(text)}
    upwards = set()
    for file, text in texts.items():
        for name in sorted(defined.keys() & re.findall(r"\b[a-z]\w+\b", text)):
            if rows[defined[name]] < rows[file]:
                upwards.add(name)
                if name not in order.upwards:
                    yield f"{order.header}: {file} may not call {name}() of {defined[name]}"
    for name in sorted(order.upwards - upwards):
        yield f"{order.header}: nothing calls {name}() upwards"


def check_orders(root: Path, files: list[str]) -> Iterator[str]:
    for header in files:
        if header.endswith(".h") and (order := read_order(root, header)):
            yield from check_names(order, files)
            yield from check_calls(root, order, files)
