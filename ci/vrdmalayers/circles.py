# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Cycles in a graph of includes."""

Graph = dict[str, set[str]]


def reached(node: str, graph: Graph) -> set[str]:
    found: set[str] = set()
    ahead = [node]
    while ahead:
        new = graph.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


def circles(graph: Graph) -> list[set[str]]:
    far = {node: reached(node, graph) for node in graph}
    found: list[set[str]] = []
    for node in sorted(graph):
        circle = {other for other in far[node] if node in far.get(other, ())}
        if circle and circle not in found:
            found.append(circle)
    return found
