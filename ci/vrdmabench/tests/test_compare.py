# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Differences to a saved run that count, and those that are noise."""

import pytest
from vrdmabench.tests.points import bandwidth, latency
from vrdmabench.compare import compare, table
from vrdmabench.point import Point


def verdict(before: Point, after: Point) -> str:
    (change,) = compare([before], [after])
    return change.verdict


@pytest.mark.parametrize("before, after, expected", [
    (latency(100), latency(150), "WORSE"),
    (latency(150), latency(100), "better"),
    (latency(100), latency(105), ""),
    (bandwidth(100), bandwidth(50), "WORSE"),
    (bandwidth(50), bandwidth(100), "better"),
])  # fmt: skip
def test_the_unit_says_which_direction_is_worse(before: Point, after: Point, expected: str) -> None:
    assert verdict(before, after) == expected


def test_ratios_are_compared_where_both_have_a_baseline() -> None:
    """The other machine is twice as slow in everything; nothing is worse."""
    assert verdict(latency(100, 50), latency(200, 100)) == ""
    assert verdict(latency(100, 50), latency(200, 50)) == "WORSE"


@pytest.mark.parametrize("noisy", [0, 1])
def test_noise_of_either_run_excuses(noisy: int) -> None:
    spread = [{"spread": 0.6} if side == noisy else {} for side in range(2)]
    assert verdict(latency(100, **spread[0]), latency(150, **spread[1])) == ""


def test_nothing_cannot_be_compared() -> None:
    assert verdict(latency(0, unit="%"), latency(0.5, unit="%")) == "no comparison"


def test_only_what_both_have_is_compared() -> None:
    assert compare([latency(1)], [latency(1, x=64)]) == []


def test_the_table_counts_what_is_worse() -> None:
    text = table(compare([latency(100), bandwidth(100)], [latency(200), bandwidth(100)]))
    assert "1 of 2 are worse" in text
    assert "2.00" in text
