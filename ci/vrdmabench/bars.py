# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The bars for results, and whether they are met."""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .point import Point


@dataclass(frozen=True)
class Bar:
    title: str
    family: str
    series: str  # a name, or a pattern
    limit: float  # of the ratio to the baseline if there is one, otherwise of the value
    limit_text: str
    applies: Callable[[int | None], bool] = lambda x: True  # whether it applies to an x
    absolute: bool = False  # the limit is that of the value, even if there is a baseline

    at_least: bool = False
    cores: int = 1  # the number that a machine needs for this measurement

    def measure(self, point: Point) -> float:
        return point.value if self.absolute else point.measure


@dataclass(frozen=True)
class Verdict:
    bar: Bar
    point: Point  # the worst point to which the bar applies

    @property
    def met(self) -> bool:
        measure = self.bar.measure(self.point)
        return measure >= self.bar.limit if self.bar.at_least else measure <= self.bar.limit


KIB, GIB = 1 << 10, 1 << 30
STREAMS = (64 * KIB, 1024 * KIB)

BARS = [
    Bar("WRITE of 8 B, half a round trip", "latency", "write_latency", 1.5, "≤ 1.5 × three parties", lambda x: x == 8),
    Bar("the same by ib_write_lat", "perftest", "ib_write_lat", 1.5, "≤ 1.5 × three threads", lambda x: x == 8,
        cores=3),
    Bar("small WRITEs of a poller", "rate", "message_rate", 10.0, "≥ 10 M/s", at_least=True),
    Bar("small WRITEs with a sniffer", "engine", "sniffed_rate", 0.8, "≥ 0.8 × without", at_least=True, cores=3),
    Bar("WRITEs to 1 to 64 MiB of a VM that moves", "engine", "tracked_bandwidth", 0.97, "≥ 0.97 × without questions",
        lambda x: (x or 0) >= 1 << 20, at_least=True, cores=3),
    Bar("WRITEs of 64 KiB and more", "bandwidth", "write_bandwidth", 0.9, "≥ 0.9 × memcpy",
        lambda x: (x or 0) >= 64 * KIB, at_least=True),
    Bar("the same from 16 B into a cache line", "bandwidth", "write_bandwidth_askew", 0.9, "≥ 0.9 × memcpy",
        lambda x: (x or 0) >= 64 * KIB, at_least=True),
    Bar("one active QP among 10,000", "among", "among_latency", 1.1, "≤ 1.1 × alone", lambda x: x == 10000),
    Bar("WRITE of 8 B, any neighbour, p99", "isolation", "write beside *", 20, "≤ 20 us", absolute=True, cores=2),
    Bar("control verb, any neighbour, p99", "isolation", "*_* beside *", 5000, "≤ 5000 us", absolute=True, cores=2),
    Bar("bandwidths of equal devices", "isolation", "bandwidths apart", 5, "≤ 5 % apart"),
    Bar("vrdmactl device list, 1,000 devices", "isolation", "device list", 100, "≤ 100 ms"),
    Bar("a scrape of 1,000 devices in use", "isolation", "scrape", 50, "≤ 50 ms"),
    Bar("gap at a peer of a device that moves", "lifecycle", "lifecycle_gap", 50, "≤ 50 ms", lambda x: x == 16),
    Bar("gap there if its vrdmad is killed", "lifecycle", "crash_gap", 100, "≤ 100 ms", lambda x: x == 16),
    Bar("its state while it stands still", "lifecycle", "state", 1024, "≤ 1 KiB per QP", lambda x: x != 16),
    Bar("reg_mr of 1 GiB, untouched", "registration", "reg_mr untouched", 5000, "≤ 5000 us", lambda x: x == GIB),
    Bar("reg_mr of 1 GiB, touched", "registration", "reg_mr touched", 5000, "≤ 5000 us", lambda x: x == GIB,
        absolute=True),
    Bar("the same beside memcpy", "registration", "reg_mr touched", 1.0, "≤ 1 × memcpy into new memory",
        lambda x: x == GIB),
    Bar("reg_mr of 1 GiB, once more", "registration", "reg_mr again", 5000, "≤ 5000 us", lambda x: x == GIB),
    Bar("WRITE of 8 B between hosts", "wire", "ib_write_lat", 1.0, "≤ 1 × TCP", lambda x: x == 8, cores=4),
    Bar("WRITEs between hosts", "wire", "ib_write_bw", 1.0, "≥ 1 × TCP", lambda x: x in STREAMS, at_least=True),
    Bar("READs between hosts", "wire", "ib_read_bw", 1.0, "≥ 1 × TCP", lambda x: x in STREAMS, at_least=True),
    Bar("packets of 1 KiB a core", "wire", "packets a core", 1.0, "≥ 1 M/s", at_least=True),
    Bar("WRITEs between hosts, 1 % lost", "wire", "lossy beside TCP", 1.0, "≥ 1 × TCP", at_least=True),
    Bar("WRITE to a sleeping poller", "wakeup", "wakeup_write", 2.0, "≤ 2 × eventfd"),
    Bar("completion event, all asleep", "wakeup", "wakeup_event", 3.0, "≤ 3 × eventfd"),
    Bar("control verbs", "control", "control_verb *", 2.2, "≤ 2.2 × eventfd, there and back"),
    Bar("CPU of vrdmad when idle", "wakeup", "idle_cpu", 1.0, "< 1 % of a core"),
]  # fmt: skip


def judge(points: list[Point], cores: int) -> list[Verdict]:
    """The verdicts for the bars that have measurements."""
    verdicts = []
    for bar in BARS:
        candidates = [point for point in points if point.family == bar.family and fnmatchcase(point.series, bar.series)
                      and bar.applies(point.x)]  # fmt: skip
        if candidates and cores >= bar.cores:
            worst = min if bar.at_least else max
            verdicts.append(Verdict(bar, worst(candidates, key=bar.measure)))
    return verdicts
