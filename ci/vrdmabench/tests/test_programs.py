# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The output of measuring programs as points."""

import pytest
from vrdmabench import perftest, programs, ucx
from vrdmabench.errors import BenchError

LATENCY = """
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   \
99% percentile[usec]
 8       200          3.73           28676.31      5.13     	       6517.50     	-nan   		24008.88 		28676.31
---------------------------------------------------------------------------------------
"""
BANDWIDTH = """
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      5000             8875.27            1000.00		   0.097592
"""
UCX = """iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
100000,0.050,57.848,33.774,0.13,100.00,17287,29608
"""


@pytest.mark.parametrize("name, expected", [
    ("write_latency/8/iterations:20", ("write_latency", 8)),
    ("reg_mr/touched/4096/iterations:3", ("reg_mr touched", 4096)),
    ("half_round_trip/pollers:1/iterations:5", ("half_round_trip", 1)),
    ("packets/write/65536/iterations:40", ("packets write", 65536)),
    ("floor_two_parties/iterations:1", ("floor_two_parties", None)),
])  # fmt: skip
def test_names_of_google_benchmark(name: str, expected: tuple[str, int | None]) -> None:
    assert programs.split(name) == expected


def test_instructions_of_callgrind() -> None:
    assert programs.collected("==7== Events    : Ir\n==7== Collected : 38712345\n") == 38712345


@pytest.mark.parametrize("said", ["", "==7== Collected : 0\n"])
def test_callgrind_without_a_result(said: str) -> None:
    with pytest.raises(BenchError, match="nothing"):
        programs.collected(said)


def test_latency_of_perftest() -> None:
    point = perftest.latency_point("ib_write_lat", 8, LATENCY)
    assert (point.value, point.unit) == (5.13, "us")
    assert point.distribution == {"min": 3.73, "p50": 5.13, "p99": 24008.88, "p99.9": 28676.31}


def test_bandwidth_of_perftest() -> None:
    assert perftest.bandwidth_point("ib_write_bw", 65536, BANDWIDTH).value == pytest.approx(1.048576)


@pytest.mark.parametrize("printed", ["", "Couldn't connect", " #bytes #iterations\n", " #bytes\n 1 2 3\n"])
def test_perftest_without_a_result(printed: str) -> None:
    with pytest.raises(BenchError, match="no result"):
        perftest.latency_point("ib_write_lat", 8, printed)


def test_ucx() -> None:
    latency, bandwidth = (ucx.point(test, UCX) for test in (ucx.TESTS[0], ucx.TESTS[-1]))
    assert (latency.value, latency.unit) == (0.05, "us")
    assert bandwidth.value == pytest.approx(0.1048576)
    assert bandwidth.unit == "GB/s"


def test_ucx_without_a_result() -> None:
    with pytest.raises(BenchError, match="no result"):
        ucx.point(ucx.TESTS[0], "")
