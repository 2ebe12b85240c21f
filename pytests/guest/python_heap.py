# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A Python program that registers pieces of its heap while its other threads use the rest.

    python_heap.py DEVICE GID_INDEX SECONDS SEED

Buffers are bytearrays, between other objects. One thread has the device copy from one to another. Others make, grow and
drop objects, run programs and read files. Each checks later that its data is still there.
"""

import ctypes
import json
import random
import subprocess
import sys
import tempfile
import threading
import time

from constants import e
from pyverbs.mr import MR

from endpoints import Device
from loop import Loop

PATTERN = random.Random(0).randbytes(1 << 20)


def address_of(buffer: bytearray) -> int:
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))


def slice_of_pattern(draw: random.Random, length: int) -> bytes:
    begin = draw.randrange(len(PATTERN) - length)
    return PATTERN[begin:begin + length]


def copy(loop: Loop, source: bytearray, sink: bytearray) -> None:
    """Registers both, and has the device copy all of the first one to the beginning of the other."""
    access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
    mrs = [MR(loop.pd.pd, len(buffer), access, address_of(buffer)) for buffer in (source, sink)]
    loop.write((address_of(source), len(source), mrs[0].lkey), (address_of(sink), mrs[1].rkey))
    for mr in mrs:
        mr.close()


def transfer(loop: Loop, draw: random.Random) -> None:
    length = draw.choice([16, 300, 4000, 70000, 300000])
    content, rest = slice_of_pattern(draw, length), slice_of_pattern(draw, draw.randrange(1, 5000))
    source, sink = bytearray(content), bytearray(length) + bytearray(rest)
    copy(loop, source, sink)
    assert source == content
    assert sink == content + rest


def use_objects(draw: random.Random, kept: list[list]) -> None:
    """Makes some objects and drops others, whose contents must not have changed."""
    words = [str(draw.random()) for _ in range(draw.randrange(1, 300))]
    kept.append([json.dumps(words), words])
    if len(kept) > 50:
        text, expected = kept.pop(draw.randrange(len(kept)))
        assert json.loads(text) == expected


def read_file(draw: random.Random, file) -> None:
    """Has the kernel write to the heap."""
    length = draw.randrange(1, 3000)
    file.seek(begin := draw.randrange(len(PATTERN) - length))
    into = bytearray(length)
    assert file.readinto(into) == length
    assert into == PATTERN[begin:begin + length]


def run_program(number: int) -> None:
    assert subprocess.run(["echo", str(number)], check=True, capture_output=True, text=True).stdout == f"{number}\n"


class Beside(threading.Thread):
    """Repeats an action until it is told to end; an error is kept."""

    def __init__(self, act) -> None:
        super().__init__()
        self._act = act
        self._over = threading.Event()
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self._act()
        except BaseException as failure:  # noqa: BLE001 - whatever it is
            self.failure = failure

    def end(self) -> None:
        self._over.set()
        self.join()
        if self.failure:
            raise self.failure


def main(device: str, gid_index: int, seconds: float, seed: int) -> None:
    draws = [random.Random(seed + number) for number in range(4)]
    kept: list[list] = []
    loop = Loop(Device(device), gid_index)
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(PATTERN)
        beside = [Beside(lambda: use_objects(draws[1], kept)), Beside(lambda: read_file(draws[2], file)),
                  Beside(lambda: run_program(draws[3].randrange(1000)))]  # fmt: skip
        end, count = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            transfer(loop, draws[0])
            count += 1
        for thread in beside:
            thread.end()
    print(f"{count} transfers")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
