# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Registration moves memory of processes without a VM: heaps of several allocators, and of Python."""

import pytest

from framework.lab import Guest
from framework.native import BUILD

pytestmark = pytest.mark.native

SECONDS = 1.5
TIMEOUT_S = 60.0
# Libraries of Debian that are loaded before the program.
ALLOCATORS = {"glibc": "", "jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.2",
              "tcmalloc": "libtcmalloc_minimal.so.4"}


def play(guest: Guest, device: str, program: str, seed: int) -> str:
    """Runs a program that verifies its results; returns its output."""
    return guest.script(f"{program} {device} {guest.gid(device).index} {SECONDS} {seed}", timeout=TIMEOUT_S).stdout


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_threads_use_a_heap_that_is_registered_meanwhile(guest0, device, allocator):
    """Allocates, clears, grows and frees in three threads. They register their memory, have the device copy, and read
    from a file. Expects that each finds the data that it has written, that calloc() gives zeros, and that no system
    call fails."""
    program = BUILD / "providers/vrdma/direct/tests/run/heap_traffic"
    said = play(guest0, device, f"LD_PRELOAD={ALLOCATORS[allocator]}:$LD_PRELOAD {program}", seed=1)
    assert said.count("regions") == 3


def test_python_uses_a_heap_that_is_registered_meanwhile(guest0, device):
    """Registers bytearrays while other threads make objects, read files and run programs; expects every object to keep
    its contents."""
    said = play(guest0, device, f"/usr/bin/python3 {guest0.programs}/python_heap.py", seed=2)
    assert "transfers" in said
