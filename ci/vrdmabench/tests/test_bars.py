# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Bars that are met and missed."""

import pytest
from vrdmabench.tests.points import bandwidth, latency
from vrdmabench.bars import BARS, Verdict, judge
from vrdmabench.families import NAMES
from vrdmabench.point import Point


def only(points: list[Point], cores: int = 2) -> Verdict:
    (verdict,) = judge(points, cores)
    return verdict


@pytest.mark.parametrize("value, met", [(150, True), (151, False), (20, True)])
def test_a_ratio_that_must_be_small(value: float, met: bool) -> None:
    assert only([latency(value, 100)]).met is met


@pytest.mark.parametrize("value, met", [(90, True), (89, False), (120, True)])
def test_a_ratio_that_must_be_large(value: float, met: bool) -> None:
    assert only([bandwidth(value, 100)]).met is met


def test_a_value_without_a_baseline() -> None:
    rate = latency(10.5, family="rate", series="message_rate", unit="M/s", x=1)
    assert only([rate]).met


def test_the_worst_point_is_judged() -> None:
    verdict = only([bandwidth(95, 100), bandwidth(80, 100, x=1 << 20), bandwidth(99, 100, x=1 << 26)])
    assert (verdict.point.x, verdict.met) == (1 << 20, False)


def beside(neighbour: str, value: float, series: str = "write") -> Point:
    return latency(value, 1, family="isolation", series=f"{series} beside {neighbour}", unit="us", x=None)


def test_a_bar_of_values_beside_any_neighbour() -> None:
    verdict = only([beside("write_flood", 19), beside("odp_storm", 21), beside("hole_punching", 20)])
    assert (verdict.point.series, verdict.met) == ("write beside odp_storm", False)


def test_control_verbs_have_a_bar_of_their_own() -> None:
    write, verb = judge([beside("write_flood", 19), beside("write_flood", 4999, "query_qp")], cores=2)
    assert (write.point.value, write.met, verb.point.value, verb.met) == (19, True, 4999, True)


def test_points_outside_the_bar_are_not_judged() -> None:
    assert only([bandwidth(95, 100), bandwidth(1, 100, x=4096)]).met
    assert judge([latency(900, 100, x=4096)], cores=2) == []


def test_what_a_machine_cannot_measure_is_not_judged() -> None:
    points = [latency(9, 1, family="perftest", series="ib_write_lat")]
    assert judge(points, cores=2) == []
    assert not only(points, cores=3).met


def test_every_bar_is_of_a_family() -> None:
    assert {bar.family for bar in BARS} <= set(NAMES)
