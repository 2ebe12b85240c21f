# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The machine of a run, and the version that was measured."""

import os
import platform
import subprocess
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def facts() -> dict[str, str | int]:
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "commit": _commit(),
        "processor": _processor(),
        "cores": cores(),
        "kernel": platform.release(),
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


def cores() -> int:
    return len(os.sched_getaffinity(0))


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _commit() -> str:
    done = subprocess.run(["git", "-C", str(PROJECT), "describe", "--always", "--dirty"], capture_output=True,
                          text=True)
    return done.stdout.strip() or "unknown"
