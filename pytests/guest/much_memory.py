# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A program that registers much memory and uses little of it.

    much_memory.py DEVICE GID_INDEX FILE writes|reads

It registers a third of the machine's memory and has the device write to all of it. Then it makes FILE. Until FILE is
gone, it has the device write to the first MiB again and again, or read all of it and write 64 KiB elsewhere. At the end
it verifies all of the memory.
"""

import ctypes
import os
import sys
from pathlib import Path

from constants import e
from pyverbs.mr import MR

from endpoints import Device
from loop import Loop
from memory import Memory

MIB, PIECE = 1 << 20, 1 << 16
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE


class Memories:
    """A source of a MiB, and a target of many."""

    def __init__(self, loop: Loop, mib: int) -> None:
        self._loop = loop
        self._source, self._target = Memory(MIB), Memory(mib * MIB)
        self._target.use_small_pages()
        self._source_mr, self._target_mr = (MR(loop.pd.pd, memory.length, ACCESS, memory.addr)
                                            for memory in (self._source, self._target))
        self._expected = [0] * mib

    def write(self, index: int, number: int) -> None:
        """Fills a MiB of the target with the number."""
        ctypes.memset(self._source.addr, number, MIB)
        self._loop.write((self._source.addr, MIB, self._source_mr.lkey),
                         (self._target.addr + index * MIB, self._target_mr.rkey))
        self._expected[index] = number

    def read(self, index: int) -> None:
        """Has the device read a MiB of the target, and write it to the first bytes of the source."""
        for start in range(index * MIB, (index + 1) * MIB, PIECE):
            self._loop.write((self._target.addr + start, PIECE, self._target_mr.lkey),
                             (self._source.addr, self._source_mr.rkey))

    def verify(self) -> None:
        for index, number in enumerate(self._expected):
            assert ctypes.string_at(self._target.addr + index * MIB, MIB) == bytes([number]) * MIB, f"MiB {index}"


def main(device: str, gid_index: int, flag: Path, use: str) -> None:
    mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB // 3
    memories = Memories(Loop(Device(device), gid_index), mib)
    for index in range(mib):
        memories.write(index, 1 + index % 255)
    flag.touch()
    rounds = 0
    while flag.exists():
        rounds += 1
        if use == "reads":
            memories.read(rounds % mib)
        else:
            memories.write(0, 1 + rounds % 255)
    memories.verify()
    print(f"{mib} MiB, {rounds} rounds")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
