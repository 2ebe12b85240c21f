#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Misuses a vrdma function whose driver is unbound, as root in a guest can.

hostile_driver.py FUNCTION registers|flood|doorbells|admin SEED COUNT

Formats and registers are those of include/vrdma/device.h.
"""

import ctypes
import json
import mmap
import os
import random
import struct
import sys
from pathlib import Path

from admin_queue import (COMMAND, CONTROL, DOORBELL, ENABLE, PAGE, READY, RESET, STATUS, AdminQueue, Registers,
                         await_status)

KICK = 0x1000
OPCODES = 20


class Region(Registers):
    """A mapped BAR, accessed in 32-bit words."""

    def __init__(self, function: Path, number: int) -> None:
        with open(function / f"resource{number}", "r+b") as file:
            self.map = mmap.mmap(file.fileno(), os.fstat(file.fileno()).st_size)
        self.words = memoryview(self.map).cast("I")

    def read(self, offset: int) -> int:
        return self.words[offset // 4]

    def write(self, offset: int, value: int) -> None:
        self.words[offset // 4] = value


class Page:
    """A page of this process that keeps its place in the guest's physical memory."""

    def __init__(self) -> None:
        self.bytes = mmap.mmap(-1, PAGE)
        self.bytes[:] = bytes(PAGE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        if ctypes.CDLL(None, use_errno=True).mlock(ctypes.c_void_p(address), ctypes.c_size_t(PAGE)):
            raise OSError(ctypes.get_errno(), "mlock")
        with open("/proc/self/pagemap", "rb") as pagemap:
            pagemap.seek(address // PAGE * 8)
            (entry,) = struct.unpack("Q", pagemap.read(8))
        self.address = (entry & ((1 << 55) - 1)) * PAGE


def random_registers(function: Path, draw: random.Random, count: int) -> dict:
    """Writes random values to random registers; enables and resets now and then."""
    registers = Region(function, 0)
    page = Page()
    values = (0, 1, 2, 3, 0xFFFFFFFF, page.address, page.address + 8, 1 << 31)
    for _ in range(count):
        offset = draw.choice((draw.randrange(0, 0x48, 4), draw.randrange(0, 2 * PAGE, 4), CONTROL))
        registers.write(offset, draw.choice((*values, draw.getrandbits(32))))
        registers.read(draw.randrange(0, 2 * PAGE, 4))
    registers.write(CONTROL, RESET)
    return {"status": await_status(registers, READY)}


def flood(function: Path, _draw: random.Random, count: int) -> dict:
    """Kicks, rings the admin doorbell, and resets as fast as it can."""
    registers = Region(function, 0)
    for number in range(count):
        registers.write(KICK, number)
        registers.write(DOORBELL, number)
        registers.write(CONTROL, RESET if number % 16 == 0 else ENABLE)
    registers.write(CONTROL, RESET)
    return {"status": await_status(registers, READY)}


def random_doorbells(function: Path, draw: random.Random, count: int) -> dict:
    """Fills the doorbell pages of an enabled device with random bytes, again and again."""
    registers, doorbells = Region(function, 0), Region(function, 2)
    queue = AdminQueue(registers, Page)
    queue.enable()
    for _ in range(count):
        page = draw.randrange(len(doorbells.map) // PAGE) * PAGE
        doorbells.map[page:page + PAGE] = draw.randbytes(PAGE)
        registers.write(KICK, 0)
    status = registers.read(STATUS)
    registers.write(CONTROL, RESET)
    await_status(registers, READY)
    return {"status": status}


def random_payload(draw: random.Random, pages: tuple[int, ...]) -> bytes:
    """Some words, mostly plausible ones, followed by zeros, so that some commands are executed in part."""
    likely = (0, 0, 0, 1, 2, 12, 16, 64, 0xFFFFFFFF, *pages)
    words = [draw.choice((*likely, draw.getrandbits(32))) & 0xFFFFFFFF for _ in range(draw.randrange(COMMAND // 4 - 1))]
    return struct.pack(f"<I{len(words)}I", draw.choice((0, 0, 0, 0, 1)), *words)


def random_commands(function: Path, draw: random.Random, count: int) -> dict:
    """Executes random admin commands, and resets a device that has failed."""
    queue = AdminQueue(Region(function, 0), Page)
    queue.enable()
    answers = {"done": 0, "refused": 0, "fatal": 0}
    data = Page()
    pages = (data.address, queue.submissions.address, data.address + 8, 1 << 40)
    for _ in range(count):
        status = queue.execute(draw.randrange(OPCODES + 2), random_payload(draw, pages))
        if status is None:
            answers["fatal"] += 1
            queue.enable()
        else:
            answers["refused" if status else "done"] += 1
    queue.enable()
    return answers


def set_bus_master(function: Path) -> None:
    """Sets Bus Master as a driver does. Without it the device cannot be enabled."""
    command, bits = 4, b"\x06\x00"  # memory space and Bus Master
    with open(function / "config", "r+b", buffering=0) as config:
        os.pwrite(config.fileno(), bits, command)


MODES = {"registers": random_registers, "flood": flood, "doorbells": random_doorbells, "admin": random_commands}


def main(function: str, mode: str, seed: str, count: str) -> None:
    set_bus_master(Path(function))
    print(json.dumps(MODES[mode](Path(function), random.Random(int(seed)), int(count))), flush=True)
    # A random command may have made the device write beyond the driver's page, to memory of this interpreter, whose
    # ordinary end looks at all of it.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
