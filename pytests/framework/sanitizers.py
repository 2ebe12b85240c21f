# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Builds that are instrumented by sanitizers, in programs that are not.

The sanitizer's runtime is loaded into each program before anything else. A report ends its process and is written to a
file, whatever process makes it and however its exit status is interpreted. If ASan is used as well, UBSan reports to
stderr.
"""

import os
import re
import subprocess
from pathlib import Path


class Sanitizers:
    """The sanitizers of one build, if any."""

    def __init__(self, build: Path, reports: Path) -> None:
        self._reports = reports
        self._told: set[Path] = set()
        # librdmacm writes into an id after it may have told another thread that the address is resolved. rping
        # closes its event channel while its other thread, which it cancels later, may still be using it. rsockets'
        # own thread frees the last event of a connection, which the program's thread may have allocated.
        # For ThreadSanitizer a mapping is written. The kernel replaces that of the doorbells while threads ring them: a
        # vrdmad that follows another one looks at all queues, so that no ring matters which the old pages had.
        races = ["rdma_resolve_addr", "rdma_destroy_event_channel", "rdma_ack_cm_event", "place_doorbells"]
        # perftest's handler of SIGALRM, which ends a run of a given duration, reads a file and changes errno.
        signals = ["/usr/bin/ib_"]
        self._suppressions = reports / "suppressions"
        self._suppressions.write_text("".join([*(f"race:{function}\n" for function in races),
                                               *(f"signal:{function}\n" for function in signals)]))
        cached = re.search(r"^VRDMA_SANITIZE:\w+=(.+)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
        self._runtime = _runtime(build / "providers/vrdma/libvrdma.so.1") if cached else ""

    @property
    def used(self) -> bool:
        return bool(self._runtime)

    @property
    def of_threads(self) -> bool:
        return "tsan" in self._runtime

    def ours(self) -> dict[str, str]:
        """The environment of a program that is instrumented as a whole."""
        return {**os.environ, **self._options(leaks=True)}

    def foreign(self) -> dict[str, str]:
        """The environment of any other program. Its leaks are not reported."""
        # UCX overwrites the beginning of munmap() and other functions, which breaks ThreadSanitizer's calls.
        # Without these hooks UCX 1.13 would register all memory on demand, and reads a stray pointer at its end.
        ucx = {"UCX_MEM_MMAP_HOOK_MODE": "none", "UCX_IB_REG_METHODS": "direct"}
        loaded = {"LD_PRELOAD": self._runtime, **ucx} if self._runtime else {}
        return {**os.environ, **self._options(leaks=False), **loaded}

    def complaints(self) -> list[str]:
        """Reports since the last call."""
        reports = set(self._reports.glob("report.*")) - self._told
        self._told |= reports
        return [f"{report.name}\n{report.read_text(errors='replace')}" for report in sorted(reports)]

    def _options(self, leaks: bool) -> dict[str, str]:
        common = f"log_path={self._reports}/report:print_stacktrace=1"
        return {
            "ASAN_OPTIONS": f"{common}:detect_leaks={leaks:d}",
            "UBSAN_OPTIONS": common,
            # The child of a fork may start threads, as it may without the sanitizer.
            "TSAN_OPTIONS": f"{common}:halt_on_error=1:die_after_fork=0:suppressions={self._suppressions}",
        }


def _runtime(library: Path) -> str:
    """The sanitizer's runtime that our library is linked with."""
    libraries = subprocess.run(["ldd", library], check=True, text=True, stdout=subprocess.PIPE).stdout
    found = re.search(r"=> (\S+/lib(?:clang_rt\.)?[at]san\S*)", libraries)
    assert found, f"{library} is linked with no runtime of a sanitizer\n{libraries}"
    return found[1]
