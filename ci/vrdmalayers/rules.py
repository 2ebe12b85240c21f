# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Errors of the sources, or of the table, one line each."""

from collections import defaultdict
from pathlib import Path
from typing import Iterator

from .calls import check_orders
from .circles import Graph, circles
from .includes import Include, list_sources, read_includes
from .table import Layer, Table, braces, folder, is_tests

PAGE = "ARCHITECTURE.md"


def check_rows(table: Table, files: list[str]) -> Iterator[str]:
    """Each row must have sources, and name only rows below it, so that the table has no cycle."""
    for layer in table.layers:
        for name in (one for name in layer.names for one in braces(name)):
            if not any(name == folder(file) or Layer((name,)).lists(file) for file in files):
                yield f"{PAGE}:{layer.line}: {name} has no sources"
        for name in layer.knows:
            known = table.of(name)
            if not known or (known.line <= layer.line and not is_tests(name)):
                yield f"{PAGE}:{layer.line}: {layer} may know only rows below it, and {name} is none"


def check_files(table: Table, files: list[str]) -> Iterator[str]:
    for file in files:
        if not table.of(file):
            yield f"{file}: {PAGE} has no row for {folder(file)}"


def is_allowed(table: Table, include: Include, layer: Layer, other: Layer) -> bool:
    """Tests may include all test helpers, the folder that they test, and the folders that it may include."""
    if other == layer or other in table.known_by(layer):
        return True
    if not is_tests(include.file):
        return False
    tested = table.around(include.file)
    return is_tests(include.target or "") or any(other == each or other in table.known_by(each) for each in tested)


def shown(file: str, layer: Layer) -> str:
    """The folder, or the file if it is in another layer than its folder."""
    return folder(file) if folder(file) in layer.names else file


def check_includes(table: Table, includes: list[Include]) -> Iterator[str]:
    for include in includes:
        if not include.target:
            yield f"{include}: {include.name} is no file of the project"
            continue
        layer, other = table.of(include.file), table.of(include.target)
        if layer and other and not is_allowed(table, include, layer, other):
            yield f"{include}: {shown(include.file, layer)} may not know {shown(include.target, other)}"


def graphs(table: Table, includes: list[Include]) -> tuple[Graph, Graph]:
    """The includes between layers, and those between folders of the same row."""
    layers: Graph = defaultdict(set)
    folders: Graph = defaultdict(set)
    for include in includes:
        layer, other = table.of(include.file), table.of(include.target or "")
        if layer and other and include.target:
            if layer == other:
                folders[folder(include.file)].add(folder(include.target))
            else:
                layers[str(layer)].add(str(other))
    return layers, folders


def check_uses(table: Table, layers: Graph) -> Iterator[str]:
    for layer in table.layers:
        for name in layer.knows:
            if str(table.of(name)) not in layers[str(layer)]:
                yield f"{PAGE}:{layer.line}: {layer} includes nothing of {name}"


def check_circles(table: Table, layers: Graph, folders: Graph) -> Iterator[str]:
    """Folders of one row form a cycle that the table admits. Folders without a cycle have a row each."""
    for circle in circles(layers):
        yield f"a circle: {', '.join(sorted(circle))}"
    for layer in table.layers:
        admitted = layer.folders()
        if len(admitted) > 1 and not any(admitted <= circle for circle in circles(folders)):
            yield f"{PAGE}:{layer.line}: {', '.join(sorted(admitted))} are no circle"


def check(root: Path) -> list[str]:
    table = Table((root / PAGE).read_text())
    files = list_sources(root)
    includes = read_includes(root, files)
    layers, folders = graphs(table, includes)
    return [*check_rows(table, files), *check_files(table, files), *check_includes(table, includes),
            *check_uses(table, layers), *check_circles(table, layers, folders), *check_orders(root, files)]  # fmt: skip
