# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The processes that vrdmad starts."""

from pathlib import Path

ENGINE = "vrdmad-engine"


def children_of(parent: int) -> list[int]:
    return [int(child) for tasks in Path("/proc", str(parent), "task").glob("*/children")
            for child in tasks.read_text().split()]


def command_of(process: int) -> str:
    return Path("/proc", str(process), "comm").read_text().strip()


def runs(process: int) -> bool:
    """Whether the process has not ended. A process that has ended is listed until its parent asks for its status."""
    try:
        return Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def engine_of(vrdmad: int) -> int:
    """The process to which its pollers belong."""
    (engine,) = [child for child in children_of(vrdmad) if command_of(child) == ENGINE]
    return engine
