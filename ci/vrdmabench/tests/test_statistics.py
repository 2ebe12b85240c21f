# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""One result from several repetitions."""

from vrdmabench.tests.points import latency
from vrdmabench.statistics import merge


def test_the_repetition_in_the_middle_counts_with_its_own_baseline() -> None:
    (point,) = merge([[latency(300, 100)], [latency(150, 100)], [latency(400, 200)]])
    assert (point.value, point.baseline) == (400, 200)


def test_without_a_baseline_the_value_in_the_middle_counts() -> None:
    (point,) = merge([[latency(9)], [latency(1)], [latency(2)]])
    assert point.value == 2


def test_the_spread_is_that_of_the_ratio() -> None:
    """If values differ in the same way as their baselines, the machines differ in speed, and the spread is zero."""
    (steady,) = merge([[latency(200, 100)], [latency(400, 200)]])
    assert steady.spread == 0
    (loose,) = merge([[latency(200, 100)], [latency(300, 100)]])
    assert loose.spread == 0.5


def test_points_of_different_x_and_series_stay_apart() -> None:
    points = [latency(1), latency(2, x=64), latency(3, series="send_latency"), latency(4, x=None)]
    assert merge([points, points]) == points


def test_one_repetition_has_no_spread() -> None:
    assert merge([[latency(5, 4)]]) == [latency(5, 4)]


def test_a_value_of_nothing_has_no_spread() -> None:
    (idle,) = merge([[latency(0, unit="%")], [latency(0, unit="%")]])
    assert idle.spread == 0
