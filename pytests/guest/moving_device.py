#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A VM monitor and a driver in one program. It moves a device from one mdev to another by VFIO's migration protocol.

moving_device.py SOURCE TARGET whole|cut|changed|longer|announced|unfit|cancelled

Prints the outcome as JSON. Both mdevs must be unused.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import struct
import sys

from admin_queue import FATAL, PAGE, READY, STATUS, AdminQueue, Registers, await_status

SET_IOMMU, GROUP_SET_CONTAINER, GROUP_GET_DEVICE_FD, DEVICE_RESET, MAP_DMA, DEVICE_FEATURE = (
    ord(";") << 8 | 100 + number for number in (2, 4, 6, 11, 13, 17)
)
TYPE1_V2 = 3
DMA_READ_WRITE = 3
CONFIG_REGION = 7
COMMAND_REGISTER, BUS_MASTER = 4, 4
FEATURE_GET, FEATURE_SET, MIGRATION_STATE = 1 << 16, 1 << 17, 2
ERROR, STOP, RUNNING, STOP_COPY, RESUMING, _, PRE_COPY = range(7)
ALLOC_PD, DEALLOC_PD = 6, 7
RAM, RAM_PAGES = 1 << 20, 16


class Page:
    """A page of a machine's memory, at an address at which its device finds it."""

    def __init__(self, memory: memoryview, number: int) -> None:
        self.bytes = memory[number * PAGE:(number + 1) * PAGE]
        self.address = RAM + number * PAGE


class Machine(Registers):
    """A VM's container, group and device, and its memory."""

    def __init__(self, uuid: str) -> None:
        group = os.path.basename(os.readlink(f"/sys/bus/mdev/devices/{uuid}/iommu_group"))
        self.container = os.open("/dev/vfio/vfio", os.O_RDWR)
        self.group = os.open(f"/dev/vfio/{group}", os.O_RDWR)
        fcntl.ioctl(self.group, GROUP_SET_CONTAINER, struct.pack("i", self.container))
        fcntl.ioctl(self.container, SET_IOMMU, TYPE1_V2)
        self.device = fcntl.ioctl(self.group, GROUP_GET_DEVICE_FD, ctypes.create_string_buffer(uuid.encode()))
        self.memory = mmap.mmap(-1, RAM_PAGES * PAGE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        fcntl.ioctl(self.container, MAP_DMA, struct.pack("IIQQQ", 32, DMA_READ_WRITE, address, RAM, len(self.memory)))
        self.pages = 0
        self.become_bus_master()

    def become_bus_master(self) -> None:
        os.pwrite(self.device, struct.pack("<H", BUS_MASTER), CONFIG_REGION << 40 | COMMAND_REGISTER)

    def page(self) -> Page:
        self.pages += 1
        return Page(memoryview(self.memory), self.pages - 1)

    def read(self, offset: int) -> int:
        return struct.unpack("<I", os.pread(self.device, 4, offset))[0]

    def write(self, offset: int, value: int) -> None:
        os.pwrite(self.device, struct.pack("<I", value), offset)

    def reset(self) -> None:
        fcntl.ioctl(self.device, DEVICE_RESET)
        self.become_bus_master()

    def state(self, wanted: int | None = None) -> tuple[int, int]:
        """Sets the migration state if one is wanted. Returns the state, and the data file that came with it, or -1."""
        flags = MIGRATION_STATE | (FEATURE_GET if wanted is None else FEATURE_SET)
        answer = fcntl.ioctl(self.device, DEVICE_FEATURE, struct.pack("IIIi", 16, flags, wanted or 0, -1))
        _, _, state, data = struct.unpack("IIIi", answer)
        return state, data


def allocate(queue: AdminQueue) -> int:
    """Allocates a protection domain; returns its number."""
    if status := queue.execute(ALLOC_PD, b""):
        raise OSError(status, "ALLOC_PD")
    return struct.unpack("<I", queue.result[:4])[0]


def save(source: Machine) -> bytes:
    _, data = source.state(STOP_COPY)
    with open(data, "rb", buffering=0) as file:
        return b"".join(iter(lambda: file.read(PAGE), b""))


def announce(source: Machine) -> tuple[bytes, int]:
    """Returns what the device announces, and the file from which its state follows when the VM has stopped."""
    _, data = source.state(PRE_COPY)
    announcement = os.read(data, 1 << 16)
    try:
        os.read(data, 1)
    except OSError as error:
        if error.errno == errno.ENOMSG:
            return announcement, data
    raise RuntimeError("there is more than the announcement")


def save_announced(source: Machine) -> bytes:
    announcement, data = announce(source)
    source.state(STOP_COPY)
    with open(data, "rb", buffering=0) as file:
        return announcement + b"".join(iter(lambda: file.read(PAGE), b""))


def spoil(image: bytes, how: str) -> bytes:
    middle = len(image) // 2
    return {
        "whole": image,
        "cut": image[:-1],
        "changed": image[:middle] + bytes([image[middle] ^ 1]) + image[middle + 1:],
        "longer": image + b"\0",
        "announced": image,
    }[how]


def load(target: Machine, image: bytes) -> int:
    """Returns 0, or the errno of the last step."""
    target.state(STOP)
    _, data = target.state(RESUMING)
    with open(data, "wb", buffering=0) as file:
        try:
            file.write(image)
            target.state(RUNNING)
        except OSError as error:
            return error.errno
    return 0


def cancel(source: Machine, queue: AdminQueue) -> dict:
    _, data = source.state(STOP_COPY)
    os.close(data)
    source.state(RUNNING)
    return {"state": source.state()[0], "next": allocate(queue)}


def refuse(source: Machine, queue: AdminQueue, target: Machine) -> dict:
    """Announces a device to one that cannot take its place; it stays."""
    announcement, data = announce(source)
    error = load(target, announcement)
    next_domain = allocate(queue)  # while the source is still in PRE_COPY
    source.state(RUNNING)
    os.close(data)
    return {"error": error, "state": source.state()[0], "next": next_domain}


def move(source: Machine, queue: AdminQueue, target: Machine, how: str) -> dict:
    image = save_announced(source) if how == "announced" else save(source)
    target.memory[:] = source.memory[:]
    error = load(target, spoil(image, how))
    result: dict[str, object] = {"bytes": len(image), "error": error, "state": target.state()[0]}
    if error:
        result["fatal"] = bool(target.read(STATUS) & FATAL)
        target.reset()
        await_status(target, READY)
        return result
    for name in ("submissions", "completions", "status"):
        page = getattr(queue, name)
        setattr(queue, name, Page(memoryview(target.memory), (page.address - RAM) // PAGE))
    queue.registers = target
    result["next"] = allocate(queue)
    result["freed"] = queue.execute(DEALLOC_PD, struct.pack("<II", 0, 1))
    return result


def main(source_uuid: str, target_uuid: str, how: str) -> None:
    source = Machine(source_uuid)
    queue = AdminQueue(source, source.page)
    queue.enable()
    first = allocate(queue)
    if how == "cancelled":
        result = cancel(source, queue)
    elif how == "unfit":
        result = refuse(source, queue, Machine(target_uuid))
    else:
        result = move(source, queue, Machine(target_uuid), how)
    print(json.dumps({"first": first, **result}))


if __name__ == "__main__":
    main(*sys.argv[1:])
