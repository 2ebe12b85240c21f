# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A driver's side of a vrdma function: registers, and the admin queue.

Formats and registers are those of include/vrdma/device.h.
"""

import struct
import time

PAGE = 4096
STATUS, CONTROL, ASQ, ACQ, DEPTH, VECTOR, STATUS_PAGE, DOORBELL = 0x08, 0x0C, 0x20, 0x28, 0x30, 0x34, 0x38, 0x40
READY, ENABLED, FATAL = 1, 2, 4
ENABLE, RESET = 1, 2
PHASE = 1 << 31
COMMAND = 128
COMMANDS = PAGE // COMMAND
TIMEOUT_S = 10


class Registers:
    """The registers of one function, 32 bits wide."""

    def read(self, offset: int) -> int:
        raise NotImplementedError

    def write(self, offset: int, value: int) -> None:
        raise NotImplementedError

    def write_address(self, offset: int, address: int) -> None:
        self.write(offset, address & 0xFFFFFFFF)
        self.write(offset + 4, address >> 32)


def await_status(registers: Registers, wanted: int) -> int:
    deadline = time.monotonic() + TIMEOUT_S
    while not (status := registers.read(STATUS)) & wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"status {status:#x}, not {wanted:#x}")
    return status


class AdminQueue:
    """Submissions, completions and status have a page each. A page is its bytes and its address for the device."""

    def __init__(self, registers: Registers, make_page) -> None:
        self.registers = registers
        self.submissions, self.completions, self.status = make_page(), make_page(), make_page()

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
        """Returns the command's status, or None if the device failed instead. Other answers are in `result`."""
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
                self.result = self.completions.bytes[slot + 8:slot + COMMAND]
                return status
            if self.registers.read(STATUS) & FATAL:
                return None
            if time.monotonic() > deadline:
                raise TimeoutError(f"command {opcode} gets no answer")
