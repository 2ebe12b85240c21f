# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The measurements between two hosts, without the hosts."""

from pathlib import Path

import pytest
from vrdmabench import wire
from vrdmabench.errors import BenchError
from vrdmabench.hosts import Hosts

LATENCY = "tcp_lat:\n    latency  =  10990 ns\nquit:\n"
BANDWIDTH = "tcp_bw:\n    bw  =  1608000000 bytes/sec\nquit:\n"
STREAM = """
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      4096             310.27             {mib_s}		   0.004963
"""


class FixedHosts(Hosts):
    """Hosts with fixed answers: a stream takes half a second of each poller. There are no namespaces and no vrdmads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(Path())
        self.loss = 0.0
        self.streams = 0
        monkeypatch.setattr(wire, "_perftest", self._perftest)
        monkeypatch.setattr(wire, "_tcp", lambda *_: 4e9 if self.loss == 0 else 1e9)

    def _perftest(self, *_: object) -> str:
        self.streams += 1
        return STREAM.format(mib_s=1000 if self.loss == 0 else 250)

    def lose(self, part: float) -> None:
        self.loss = part

    def poller_seconds(self) -> float:
        return 2 * 0.5 * self.streams


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> FixedHosts:
    return FixedHosts(monkeypatch)


@pytest.mark.parametrize("printed, expected", [(LATENCY, 10.99e-6), (BANDWIDTH, 1.608e9)])
def test_result_of_qperf(printed: str, expected: float) -> None:
    assert wire.tcp_result(printed) == pytest.approx(expected)


def test_qperf_without_a_result() -> None:
    with pytest.raises(BenchError, match="no result"):
        wire.tcp_result("tcp_lat:\nfailed to connect")


def test_loss_is_beside_none_and_beside_that_of_tcp(hosts: FixedHosts) -> None:
    ratios = {point.series: point.ratio for point in wire._lossy(hosts)}
    assert ratios == pytest.approx({"lossy ib_write_bw": 0.25, "lossy tcp_bw": 0.25, "lossy beside TCP": 0.262144})
    assert hosts.loss == wire.LOSS


def test_packets_are_counted_by_time_and_by_processor_time(hosts: FixedHosts) -> None:
    by_time, by_core = wire._packets(hosts)
    seconds = wire.STREAM_SIZE * wire.LONG_STREAM / (1000 << 20)
    packets = 64 * wire.LONG_STREAM
    assert (by_time.value, by_core.value) == pytest.approx((packets / seconds / 1e6, packets / 1e6))
