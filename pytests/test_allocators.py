# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Heaps of processes without a VM, whose memory is moved when it is registered: by several allocators, and Python's."""

import pytest

from framework.lab import Guest
from framework.native import BUILD

pytestmark = pytest.mark.native

SECONDS = 1.5
TIMEOUT_S = 60.0
# Debian's libraries, which are loaded before the program.
ALLOCATORS = {"glibc": "", "jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}


def play(guest: Guest, device: str, program: str, seed: int) -> str:
    """Runs a program that verifies what it does; returns what it says."""
    return guest.script(f"{program} {device} {guest.gid(device).index} {SECONDS} {seed}", timeout=TIMEOUT_S).stdout


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_threads_use_a_heap_that_is_registered_meanwhile(guest0, device, allocator):
    """Allocates, clears, grows and frees in three threads, which register what they have, let the device copy and read from a
    file; expects that each finds what it has written, that calloc() gives zeros, and that no system call fails."""
    program = BUILD / "providers/vrdma/direct/tests/run/heap_traffic"
    said = play(guest0, device, f"LD_PRELOAD={ALLOCATORS[allocator]}:$LD_PRELOAD {program}", seed=1)
    assert said.count("regions") == 3


def test_python_uses_a_heap_that_is_registered_meanwhile(guest0, device):
    """Registers bytearrays while other threads make objects, read files and run programs; expects every object to be what it
    was."""
    said = play(guest0, device, f"/usr/bin/python3 {guest0.programs}/python_heap.py", seed=2)
    assert "transfers" in said
