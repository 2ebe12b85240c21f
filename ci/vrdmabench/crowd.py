# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Many devices of one vrdmad, all of them open, and readings of them by its control socket: a list by vrdmactl, and all
metrics as Prometheus scrapes them."""

import http.client
import os
import resource
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .errors import BenchError

MOST = 1000
QUICK = 100
# Each client takes so many of three quarters of vrdmad's descriptors (map_share.h). With more each has more DMA maps.
DESCRIPTORS = 18 + 64 + 16
FEW = 8  # for other devices
OF_A_PROGRAM = 32
READINGS = 20
CONFIG = """
[control]
socket = "{directory}/control.sock"
spare_clients = 0
[types.crowd]
doorbell_pages = 2
max_qp = 16
"""
DEVICE = """
[[vfio_user]]
name = "crowd-{number}"
socket = "{socket}"
type = "crowd"
window_gib = 1
"""
# vrdmad may have fewer mappings than it counts for so many clients, but each of these has a few only.
UNBOUNDED = ("unshare", "--mount", "sh", "-c",
             'mount --bind "$0" /proc/sys/vm/max_map_count && exec "$@"')  # fmt: skip
MAPPINGS = 10_000_000
OPEN_ALL = """
import ctypes
verbs = ctypes.CDLL(None)  # also what vrdma-run has loaded
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
count = ctypes.c_int()
devices = verbs.ibv_get_device_list(ctypes.byref(count))
opened = [verbs.ibv_open_device(devices[number]) for number in range(count.value)]
print("opened", sum(context is not None for context in opened), flush=True)
input()
"""


class Crowd:
    """The devices, in a vrdmad whose configuration has `config`, and which is started `within` another command."""

    def __init__(self, build: Path, directory: Path, quick: bool) -> None:
        self._build = build
        self._directory = directory
        _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.size = min(QUICK if quick else MOST, descriptors * 3 // 4 // DESCRIPTORS - FEW)
        self._sockets = [directory / f"crowd-{number}.sock" for number in range(self.size)]
        self.config = CONFIG.format(directory=directory) + "".join(
            DEVICE.format(number=number, socket=path) for number, path in enumerate(self._sockets))
        mappings = directory / "max_map_count"
        mappings.write_text(f"{MAPPINGS}\n")
        self.within = (*UNBOUNDED, str(mappings))

    @contextmanager
    def open(self) -> Iterator[None]:
        """All devices are open while this is used as a context."""
        with ExitStack() as programs:
            for first in range(0, self.size, OF_A_PROGRAM):
                programs.enter_context(self._open(self._sockets[first:first + OF_A_PROGRAM]))
            yield

    @contextmanager
    def _open(self, sockets: list[Path]) -> Iterator[None]:
        options = [option for path in sockets for option in ("--device", str(path))]
        command = [str(self._build / "providers/vrdma/vrdma-run"), *options, "--", "/usr/bin/python3", "-c", OPEN_ALL]
        environment = os.environ | {"XDG_RUNTIME_DIR": str(self._directory)}
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=environment) as program:  # fmt: skip
            try:
                assert program.stdout
                said = program.stdout.readline()
                if said != f"opened {len(sockets)}\n":
                    raise BenchError(f"a program has not opened {len(sockets)} devices: {said}")
                yield
            finally:
                program.kill()

    def list(self) -> float:
        """The median time of `vrdmactl device list`, in ms."""
        command = [str(self._build / "ctl/vrdmactl"), "--socket", str(self._control), "device", "list"]

        def once() -> None:
            lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
            if len(lines) <= self.size:
                raise BenchError(f"vrdmactl lists {len(lines) - 1} devices")

        return median_ms(once)

    def scrape(self) -> float:
        """The median time of a scrape, in ms."""
        return median_ms(self._scrape)

    @contextmanager
    def scraped(self) -> Iterator[None]:
        """The devices are scraped all the time while this is used as a context, one scrape right after the other."""
        ends = threading.Event()

        def scrape() -> None:
            while not ends.is_set():
                self._scrape()

        scraper = threading.Thread(target=scrape)
        scraper.start()
        try:
            yield
        finally:
            ends.set()
            scraper.join()

    def _scrape(self) -> None:
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self._control))
        connection.request("GET", "/metrics")
        text = connection.getresponse().read()
        connection.close()
        if text.count(b"vrdma_device_tx_bytes_total{") < self.size:
            raise BenchError(f"a scrape lacks devices: {text[:200]!r}")

    @property
    def _control(self) -> Path:
        return self._directory / "control.sock"


def median_ms(action: Callable[[], None]) -> float:
    times = []
    for _ in range(READINGS):
        begin = time.monotonic()
        action()
        times.append((time.monotonic() - begin) * 1000)
    return statistics.median(times)
