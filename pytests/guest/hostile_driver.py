#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Misuses a vrdma function whose driver is unbound, as root of a guest can.

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
import time
from pathlib import Path

PAGE = 4096
STATUS, CONTROL, ASQ, ACQ, DEPTH, VECTOR, STATUS_PAGE, DOORBELL = 0x08, 0x0C, 0x20, 0x28, 0x30, 0x34, 0x38, 0x40
READY, ENABLED, FATAL = 1, 2, 4
ENABLE, RESET = 1, 2
KICK = 0x1000
PHASE = 1 << 31
COMMAND = 128
COMMANDS = PAGE // COMMAND
OPCODES = 20
TIMEOUT_S = 10


class Region:
    """A mapped BAR, accessed in 32-bit words."""

    def __init__(self, function: Path, number: int) -> None:
        with open(function / f"resource{number}", "r+b") as file:
            self.map = mmap.mmap(file.fileno(), os.fstat(file.fileno()).st_size)
        self.words = memoryview(self.map).cast("I")

    def read(self, offset: int) -> int:
        return self.words[offset // 4]

    def write(self, offset: int, value: int) -> None:
        self.words[offset // 4] = value

    def write_address(self, offset: int, address: int) -> None:
        self.write(offset, address & 0xFFFFFFFF)
        self.write(offset + 4, address >> 32)


class Page:
    """A page of this process that stays where it is in the guest's physical memory."""

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


def await_status(registers: Region, wanted: int) -> int:
    deadline = time.monotonic() + TIMEOUT_S
    while not (status := registers.read(STATUS)) & wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"status {status:#x}, not {wanted:#x}")
    return status


def random_registers(function: Path, draw: random.Random, count: int) -> dict:
    """Writes any value to any register, enabling and resetting now and then."""
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
    """Fills the doorbell pages with random bytes, again and again, in a device that is enabled."""
    registers, doorbells = Region(function, 0), Region(function, 2)
    queue = AdminQueue(registers)
    queue.enable()
    for _ in range(count):
        page = draw.randrange(len(doorbells.map) // PAGE) * PAGE
        doorbells.map[page:page + PAGE] = draw.randbytes(PAGE)
        registers.write(KICK, 0)
    status = registers.read(STATUS)
    registers.write(CONTROL, RESET)
    await_status(registers, READY)
    return {"status": status}


class AdminQueue:
    """A driver's side of the admin queue, one page each."""

    def __init__(self, registers: Region) -> None:
        self.registers = registers
        self.submissions, self.completions, self.status, self.data = Page(), Page(), Page(), Page()

    def enable(self) -> None:
        self.tail = 0
        for page in (self.submissions, self.completions):
            page.bytes[:] = bytes(PAGE)
        self.registers.write(CONTROL, RESET)
        await_status(self.registers, READY)
        self.registers.write_address(ASQ, self.submissions.address)
        self.registers.write_address(ACQ, self.completions.address)
        self.registers.write(DEPTH, COMMANDS)
        self.registers.write(VECTOR, 0)
        self.registers.write_address(STATUS_PAGE, self.status.address)
        self.registers.write(CONTROL, ENABLE)
        if not await_status(self.registers, ENABLED | FATAL) & ENABLED:
            raise RuntimeError("the device refuses correct registers")

    def execute(self, opcode: int, payload: bytes) -> int | None:
        """The command's status, or None where the device gave up instead."""
        slot = self.tail % COMMANDS * COMMAND
        phase = 0 if self.tail // COMMANDS % 2 else PHASE
        self.submissions.bytes[slot + 4:slot + COMMAND] = payload[:COMMAND - 4].ljust(COMMAND - 4, b"\0")
        self.submissions.bytes[slot:slot + 4] = struct.pack("<I", phase | opcode << 16 | self.tail & 0xFFFF)
        self.registers.write(DOORBELL, 1)
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            header, status = struct.unpack_from("<II", self.completions.bytes, slot)
            if header & PHASE == phase and header & 0xFFFF == self.tail & 0xFFFF:
                self.tail += 1
                return status
            if self.registers.read(STATUS) & FATAL:
                return None
            if time.monotonic() > deadline:
                raise TimeoutError(f"command {opcode} gets no answer")


def random_payload(draw: random.Random, pages: tuple[int, ...]) -> bytes:
    """Some words, plausible ones more often than not, and zeros behind them, so that some commands get far."""
    likely = (0, 0, 0, 1, 2, 12, 16, 64, 0xFFFFFFFF, *pages)
    words = [draw.choice((*likely, draw.getrandbits(32))) & 0xFFFFFFFF for _ in range(draw.randrange(COMMAND // 4 - 1))]
    return struct.pack(f"<I{len(words)}I", draw.choice((0, 0, 0, 0, 1)), *words)


def random_commands(function: Path, draw: random.Random, count: int) -> dict:
    """Executes random admin commands; a device that gave up is reset."""
    queue = AdminQueue(Region(function, 0))
    queue.enable()
    answers = {"done": 0, "refused": 0, "fatal": 0}
    pages = (queue.data.address, queue.submissions.address, queue.data.address + 8, 1 << 40)
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
    """As a driver does: without it the device is not enabled."""
    command, bits = 4, b"\x06\x00"  # memory space and Bus Master
    with open(function / "config", "r+b", buffering=0) as config:
        os.pwrite(config.fileno(), bits, command)


MODES = {"registers": random_registers, "flood": flood, "doorbells": random_doorbells, "admin": random_commands}


def main(function: str, mode: str, seed: str, count: str) -> None:
    set_bus_master(Path(function))
    print(json.dumps(MODES[mode](Path(function), random.Random(int(seed)), int(count))))


if __name__ == "__main__":
    main(*sys.argv[1:])
