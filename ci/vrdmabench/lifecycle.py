# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A device with busy QPs moves from one vrdmad to another, while its peer is on another host.

The device's client takes its state along when vrdmad ends, on request or because it was killed, and connects anew by
the path that it knows (vrdma/vfio_user.h). By then this path is the socket of the next vrdmad. That one runs already,
so no start of a program is part of the gap.
"""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from . import process, programs
from .bench import Bench
from .devices import Mediator
from .errors import BenchError
from .hosts import ADDRESSES, Hosts
from .point import Point

FAMILY = "lifecycle"
QPS = (16, 1000, 10000)
QUICK = (16,)
CRASH_QPS = (16, 1000)
MTU = 9000  # so that paths can have an MTU of 4096, as all others here
STATE = re.compile(r"stands still, with a state of (\d+) bytes")


def measure(bench: Bench) -> list[Point]:
    moves = [point for qps in (QUICK if bench.quick else QPS) for point in _move(bench, qps, Mediator.stop)]
    crashes = [point for qps in (QUICK if bench.quick else CRASH_QPS) for point in _move(bench, qps, Mediator.kill)]
    return moves + [replace(point, series="crash_gap") for point in crashes if point.series == "lifecycle_gap"]


def _move(bench: Bench, qps: int, end: Callable[[Mediator], None]) -> list[Point]:
    with Hosts(bench.build, mtu=MTU, log_level="info") as hosts:
        peer, source = hosts.mediators
        destination = hosts.another(1)
        path = source.sockets[0].with_name("moving.sock")
        path.hardlink_to(source.sockets[0])
        devices = zip((peer.sockets[0], path), ADDRESSES, strict=True)
        options = [option for socket, address in devices for option in ("--device", str(socket), "--address", address)]
        command = [*hosts.within(0), str(bench.build / "providers/vrdma/vrdma-run"), *options, "--",
                   str(bench.build / "bench/vrdma_verbs_bench")]  # fmt: skip
        busy = process.Reaction("busy", lambda: _change(source, destination, path, end))
        points = programs.points(FAMILY, f"^lifecycle_gap/{qps}/", command, dict(os.environ), busy)
        return [*points, Point(FAMILY, "state", qps, "B per QP", _state_of(source) / qps)]


def _change(source: Mediator, destination: Mediator, path: Path, end: Callable[[Mediator], None]) -> None:
    """Ends the source, whose client finds the destination by the path."""
    following = path.with_name("following.sock")
    following.hardlink_to(destination.sockets[0])
    following.replace(path)
    end(source)


def _state_of(mediator: Mediator) -> int:
    said = mediator.log.read_text()
    found = STATE.search(said)
    if not found:
        raise BenchError(f"vrdmad has kept no state:\n{said}")
    return int(found[1])
