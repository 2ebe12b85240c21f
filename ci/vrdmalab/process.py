# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The processes that are the lab's hosts."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

DEATH_S = 10.0


@dataclass(frozen=True)
class Process:
    """A QEMU process of the lab. Its start time distinguishes it from a later process with the same id."""

    pid: int
    started: int

    @staticmethod
    def of(pid: int) -> "Process":
        return Process(pid, _start_time(pid))

    def alive(self) -> bool:
        return self.started != 0 and _start_time(self.pid) == self.started

    def memory(self) -> int:
        """Resident memory in bytes."""
        pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """Kills it without a shutdown, because no data in a VM has to survive."""
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + DEATH_S
        while self.alive():
            if time.monotonic() > deadline:
                raise LabError(f"process {self.pid} does not die")
            time.sleep(0.01)


def _start_time(pid: int) -> int:
    """The start time in clock ticks after boot, or 0 for a process that does not run (any more)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])
