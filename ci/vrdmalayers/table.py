# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The table of permitted includes.

A row is a layer. Its first column has folders, which end in a slash, and patterns of files, which take precedence over
folders: `a/{b,c}.*`. Its last column has the layers that it may include. Each is named by one of its folders or files.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from posixpath import dirname

BEGIN, END = "<!-- ci/layers: begin -->", "<!-- ci/layers: end -->"


def folder(file: str) -> str:
    return dirname(file) + "/"


def is_tests(path: str) -> bool:
    """Whether a file or folder is in a folder called tests, which contains tests and their helpers."""
    return "tests" in path.split("/")[:-1]


def braces(pattern: str) -> list[str]:
    match = re.fullmatch(r"(.*)\{(.*)\}(.*)", pattern)
    return [match[1] + word + match[3] for word in match[2].split(",")] if match else [pattern]


@dataclass(frozen=True)
class Layer:
    names: tuple[str, ...]
    knows: tuple[str, ...] = ()
    line: int = 0

    def __str__(self) -> str:
        return self.names[0]

    def folders(self) -> set[str]:
        return {name for name in self.names if name.endswith("/")}

    def lists(self, file: str) -> bool:
        patterns = [pattern for name in self.names if folder(name) == folder(file) for pattern in braces(name)]
        return any(fnmatchcase(file, pattern) for pattern in patterns)

    def has_part_of(self, path: str) -> bool:
        return any(folder(name) == path for name in self.names)


class Table:
    def __init__(self, text: str) -> None:
        self.layers: list[Layer] = []
        inside = False
        for number, line in enumerate(text.splitlines(), 1):
            inside = line == BEGIN or (inside and line != END)
            if inside and line.startswith("| `"):
                columns = [tuple(re.findall("`([^`]+)`", column)) for column in line.strip("| ").split(" | ")]
                self.layers.append(Layer(columns[0], columns[-1] if len(columns) == 3 else (), number))

    def of(self, path: str) -> Layer | None:
        """The layer of a folder or a file. A folder called tests needs no row."""
        for layer in self.layers:
            if not path.endswith("/") and layer.lists(path):
                return layer
        for layer in self.layers:
            if folder(path) in layer.folders():
                return layer
        return Layer((folder(path),)) if folder(path).endswith("/tests/") else None

    def known_by(self, layer: Layer) -> list[Layer]:
        return [known for name in layer.knows if (known := self.of(name))]

    def around(self, tests: str) -> list[Layer]:
        """The layers of the folder that contains the tests."""
        tested = tests.rpartition("tests/")[0]
        return [layer for layer in self.layers if layer.has_part_of(tested)]
