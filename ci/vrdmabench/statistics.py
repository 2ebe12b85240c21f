# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""One result from several repetitions."""

from collections.abc import Iterable
from dataclasses import replace

from .point import Point


def merge(repetitions: Iterable[list[Point]]) -> list[Point]:
    """The median repetition of each point, with its own baseline, and the spread of all repetitions."""
    found: dict[tuple, list[Point]] = {}
    for points in repetitions:
        for point in points:
            found.setdefault(point.key, []).append(point)
    return [_middle(points) for points in found.values()]


def _middle(points: list[Point]) -> Point:
    ordered = sorted(points, key=lambda point: point.measure)
    middle = ordered[(len(ordered) - 1) // 2]
    spread = (ordered[-1].measure - ordered[0].measure) / middle.measure if middle.measure else 0.0
    return replace(middle, spread=spread)
