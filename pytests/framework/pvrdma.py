# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A guest with Linux's driver for VMware's paravirtual RDMA device, as far as a connected QP needs it.

It reaches a device behind a socket by the vfio-user protocol, and plays the driver (include/vrdma/pvrdma).
"""

import array
import ctypes
import mmap
import os
import select
import socket
import struct
from pathlib import Path

PAGE = 4096
MEMORY = 16 << 20
DMA_MAP, REGION_READ, REGION_WRITE, SET_IRQS, VERSION, FEATURE, DATA_READ, DATA_WRITE = 2, 9, 10, 8, 1, 16, 17, 18
MSIX, REQUEST_IRQ = 2, 4  # kinds of interrupts
MIGRATION, DEVICE_STATE, GET, SET = 1, 2, 1 << 16, 1 << 17  # features
RUNNING, STOP_COPY, RESUMING = 2, 3, 4
PIECE = 1 << 16
REGISTERS, UAR, CONFIG = 1, 2, 7  # regions
LOW, HIGH, CONTROL, REQUEST, ERROR, MASK = 0x04, 0x08, 0x0c, 0x10, 0x14, 0x1c
QUERY_PORT, CREATE_PD, CREATE_MR, CREATE_CQ, CREATE_QP, MODIFY_QP, CREATE_BIND = 0, 2, 4, 6, 9, 10, 15
UAR_FRAME = 0xfe800
STATE, ACCESS, PKEY_INDEX, PORT, AV, PATH_MTU, TIMEOUT, RETRY, RNR_RETRY, RQ_PSN, RD_ATOMIC, MIN_RNR, SQ_PSN, DEST_RD, \
    DEST_QPN = (1 << bit for bit in (0, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 20))
INIT, RTR, RTS = 1, 2, 3
ALL_ACCESS = 0xf
SIGNALED = 2
SEND = 2


def eventfd() -> int:
    """Debian 12's mypy does not know os.eventfd()."""
    file = ctypes.CDLL(None, use_errno=True).eventfd(0, os.O_NONBLOCK | os.O_CLOEXEC)
    assert file >= 0, os.strerror(ctypes.get_errno())
    return file


class Bus:
    """The vfio-user client: memory, registers, doorbells and interrupts. It can move its device."""

    def __init__(self, path: Path) -> None:
        self._number = 0
        self._file = os.memfd_create("guest")
        os.ftruncate(self._file, MEMORY)
        self.memory = mmap.mmap(self._file, MEMORY)
        self._vectors = [eventfd() for _ in range(3)]
        self._request = eventfd()
        self._plug_in(path)

    def _plug_in(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._ask(VERSION, struct.pack("<HH", 0, 1))
        self._ask(FEATURE, struct.pack("<II", 16, GET | MIGRATION))
        self._ask(DMA_MAP, struct.pack("<IIQQQ", 32, 3, 0, 0, MEMORY), [self._file])
        for kind, files in ((MSIX, self._vectors), (REQUEST_IRQ, [self._request])):
            self._ask(SET_IRQS, struct.pack("<IIIII", 20, 0x24, kind, 0, len(files)), files)
        self.write(CONFIG, 4, struct.pack("<H", 6))  # memory and Bus Master

    def _go_to(self, state: int) -> None:
        self._ask(FEATURE, struct.pack("<IIII", 16, SET | DEVICE_STATE, state, 0))

    def take_away(self) -> bytes:
        """The device's state, after which the connection ends."""
        self._go_to(STOP_COPY)
        state = b""
        while True:
            piece = self._ask(DATA_READ, struct.pack("<II", 8 + PIECE, PIECE))[8:]
            state += piece
            if len(piece) < PIECE:
                self._socket.close()
                return state

    def bring_back(self, path: Path, state: bytes) -> None:
        self._plug_in(path)
        self._go_to(RESUMING)
        for at in range(0, len(state), PIECE):
            piece = state[at:at + PIECE]
            self._ask(DATA_WRITE, struct.pack("<II", 8 + len(piece), len(piece)) + piece)
        self._go_to(RUNNING)

    def await_request(self, timeout: float) -> None:
        """vrdmad ends: the client has to take its device away."""
        ready, _, _ = select.select([self._request], [], [], timeout)
        assert ready, "vrdmad did not ask its client to take the device away"
        os.read(self._request, 8)

    def _ask(self, command: int, payload: bytes, files: list[int] | None = None) -> bytes:
        self._number += 1
        message = struct.pack("<HHIII", self._number & 0xffff, command, 16 + len(payload), 0, 0) + payload
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
        assert self._socket.sendmsg([message], rights) == len(message)
        _, _, size, _, error = struct.unpack("<HHIII", self._receive(16))
        answer = self._receive(size - 16)
        assert error == 0, os.strerror(error)
        return answer

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            assert piece, "vrdmad has hung up"
            data += piece
        return data

    def write(self, region: int, offset: int, data: bytes) -> None:
        self._ask(REGION_WRITE, struct.pack("<QII", offset, region, len(data)) + data)

    def write_register(self, offset: int, value: int) -> None:
        self.write(REGISTERS, offset, struct.pack("<I", value))

    def read_register(self, offset: int) -> int:
        answer = self._ask(REGION_READ, struct.pack("<QII", offset, REGISTERS, 4))
        return struct.unpack("<I", answer[16:])[0]

    def read(self, region: int, offset: int, size: int) -> bytes:
        return self._ask(REGION_READ, struct.pack("<QII", offset, region, size))[16:]

    def interrupts(self, vector: int) -> int:
        """How many have come since the last call."""
        try:
            return struct.unpack("=Q", os.read(self._vectors[vector], 8))[0]
        except BlockingIOError:
            return 0

    def word(self, at: int) -> int:
        return struct.unpack_from("<I", self.memory, at)[0]

    def set_word(self, at: int, value: int) -> None:
        struct.pack_into("<I", self.memory, at, value)

    def close(self) -> None:
        self._socket.close()
        for file in (self._file, self._request, *self._vectors):
            os.close(file)


class Ring:
    """The indices of a ring, as the driver counts them."""

    def __init__(self, bus: Bus, indices: int, depth: int) -> None:
        self._bus, self._tail, self._head, self._depth = bus, indices, indices + 4, depth

    def space(self) -> int:
        tail = self._bus.word(self._tail)
        assert tail != self._bus.word(self._head) ^ self._depth, "the ring is full"
        return tail & (self._depth - 1)

    def data(self) -> int | None:
        head = self._bus.word(self._head)
        return head & (self._depth - 1) if head != self._bus.word(self._tail) else None

    def produce(self) -> None:
        self._count(self._tail)

    def consume(self) -> None:
        self._count(self._head)

    def _count(self, at: int) -> None:
        self._bus.set_word(at, (self._bus.word(at) + 1) & (2 * self._depth - 1))


class Driver:
    """The driver, and one program on it: a PD, a region, a CQ and a QP."""

    DEPTH = 16
    SEND_STRIDE, RECV_STRIDE = 128, 32  # of one SGE

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self._free = PAGE
        self._region, self._command, self._response = (self._allocate(PAGE) for _ in range(3))

    def _allocate(self, size: int) -> int:
        at = self._free
        self._free += (size + PAGE - 1) // PAGE * PAGE
        return at

    def _directory(self, begin: int, pages: int) -> int:
        directory, table = self._allocate(PAGE), self._allocate(PAGE)
        struct.pack_into("<Q", self.bus.memory, directory, table)
        struct.pack_into(f"<{pages}Q", self.bus.memory, table, *(begin + page * PAGE for page in range(pages)))
        return directory

    def probe(self, version: int = 20) -> bool:
        """Returns whether the device can be used."""
        rings = [struct.pack("<IIQ", 4, 0, self._directory(self._allocate(4 * PAGE), 4)) for _ in range(2)]
        self.bus.memory[self._region:self._region + 72] = struct.pack(
            "<IIQQQ", version, 0, 0, self._command, self._response) + b"".join(rings) + struct.pack("<Q", UAR_FRAME)
        self.bus.write_register(LOW, self._region)
        self.bus.write_register(HIGH, 0)
        if self.bus.memory[self._region + 72 + 203] == 0:  # gid_types of the capabilities
            return False
        self.bus.write_register(MASK, 0)
        self.bus.write_register(CONTROL, 0)
        return self.bus.read_register(ERROR) == 0

    def remove(self) -> None:
        self.bus.write_register(CONTROL, 2)

    def execute(self, command: int, arguments: bytes, answers: bool = True) -> bytes:
        """Returns the response without its header."""
        request = struct.pack("<QII", 7, command, 0) + arguments
        self.bus.memory[self._command:self._command + 184] = request.ljust(184, b"\0")
        self.bus.interrupts(0)
        self.bus.write_register(REQUEST, 0)
        error = self.bus.read_register(ERROR)
        assert error == 0, os.strerror(error)
        if not answers:
            return b""
        while self.bus.interrupts(0) == 0:
            pass
        response = self.bus.memory[self._response:self._response + 176]
        _, number, error = struct.unpack_from("<QIB", response)
        assert (number, error) == (1 << 31 | command, 0)
        return response[16:]

    def ports(self) -> int:
        """That answer a query."""
        return int(len(self.execute(QUERY_PORT, struct.pack("<B7x", 1))) > 0)

    def _created(self, command: int, arguments: bytes, words: int = 1) -> tuple[int, ...]:
        return struct.unpack_from(f"<{words}I", self.execute(command, arguments))

    def bind(self, gid: bytes) -> None:
        self.execute(CREATE_BIND, struct.pack("<III16sB3x", 1024, 0xfff, 0, gid, 2), answers=False)

    def set_up(self, size: int) -> None:
        """The objects, and a region of so many bytes."""
        (pd,) = self._created(CREATE_PD, struct.pack("<II", 0, 0))
        pages = (size + PAGE - 1) // PAGE
        self.buffer = self._allocate(size)
        _, self._lkey, _ = self._created(CREATE_MR, struct.pack(
            "<QQQIIII", self.buffer, size, self._directory(self.buffer, pages), pd, ALL_ACCESS, 0, pages), 3)
        cq = self._allocate(2 * PAGE)
        self.cq, _ = self._created(CREATE_CQ, struct.pack("<QIII4x", self._directory(cq, 2), 0, 64, 2), 2)
        self._cqes, self._completions = cq + PAGE, Ring(self.bus, cq + 8, 64)
        queues = self._allocate(3 * PAGE)
        self.qpn, self.handle = self._created(CREATE_QP, struct.pack(
            "<QIIIIIIIIIIIHHHBBB3x", self._directory(queues, 3), pd, self.cq, self.cq, 0, self.DEPTH, self.DEPTH, 1, 1,
            0, 0, 1, 3, 1, 0, 0, 2, 0), 2)
        self._sends, self._receives = Ring(self.bus, queues, self.DEPTH), Ring(self.bus, queues + 8, self.DEPTH)
        self._send_wqes, self._recv_wqes = queues + PAGE, queues + 2 * PAGE

    def _modify(self, mask: int, state: int, mtu: int = 0, qpn: int = 0, psn: int = 0, gid: bytes = b"") -> None:
        attributes = struct.pack("<9IHH16B", state, 0, mtu, 0, 0, psn, psn, qpn, ALL_ACCESS, 0, 0,
                                 0, 0, 4, 4, 12, 1, 14, 7, 7, 0, 0, *bytes(5))
        path = struct.pack("<16sI4B2H5B6sx", gid, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 1, 1, bytes(6))
        self.execute(MODIFY_QP, struct.pack("<II", self.handle, mask) + attributes + bytes(24) + path + bytes(40))

    def connect(self, qpn: int, psn: int, own_psn: int, gid: bytes) -> None:
        self._modify(STATE | PKEY_INDEX | PORT | ACCESS, INIT)
        self._modify(STATE | AV | PATH_MTU | DEST_QPN | RQ_PSN | DEST_RD | MIN_RNR, RTR, 3, qpn, psn, gid)
        self._modify(STATE | TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | RD_ATOMIC, RTS, psn=own_psn)

    def post_recv(self, wr_id: int, size: int) -> None:
        at = self._recv_wqes + self._receives.space() * self.RECV_STRIDE
        struct.pack_into("<QIIQII", self.bus.memory, at, wr_id, 1, 0, self.buffer, size, self._lkey)
        self._receives.produce()
        self.bus.write(UAR, 0, struct.pack("<I", self.handle | 1 << 31))

    def post_send(self, wr_id: int, size: int) -> None:
        at = self._send_wqes + self._sends.space() * self.SEND_STRIDE
        struct.pack_into("<QIIIIII", self.bus.memory, at, wr_id, 1, 0, SEND, SIGNALED, 0, 0)
        struct.pack_into("<QII", self.bus.memory, at + 80, self.buffer, size, self._lkey)
        self._sends.produce()
        self.bus.write(UAR, 0, struct.pack("<I", self.handle | 1 << 30))

    def poll(self) -> tuple[int, int, int, int] | None:
        """The next completion: number, QP, opcode and status."""
        index = self._completions.data()
        if index is None:
            return None
        number, qp, opcode, status = struct.unpack_from("<QQII", self.bus.memory, self._cqes + index * 64)
        self._completions.consume()
        return number, qp, opcode, status
