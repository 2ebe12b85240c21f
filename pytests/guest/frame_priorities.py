# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Watches the frames that leave by an interface, as its queueing discipline would see them. Prints a line for each
frame of RoCE v2 over IPv4, with its DSCP and its priority (skb->priority).

usage: frame_priorities.py INTERFACE
"""

import ctypes
import platform
import socket
import struct
import sys

BPF = {"x86_64": 321, "aarch64": 280}
PROG_LOAD, SOCKET_FILTER = 5, 1
SO_ATTACH_BPF = 50
ALL = 3  # ETH_P_ALL
SEEN = 64
# A filter that encodes a frame's priority in the length that it passes: SEEN bytes, and one more for each unit of the
# priority, which is at offset 32 of struct __sk_buff.
CODE = struct.pack("=BBhi", 0x61, 0x10, 32, 0) + struct.pack("=BBhi", 0x07, 0, 0, SEEN)
CODE += struct.pack("=BBhi", 0x95, 0, 0, 0)


def load() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    code, license_ = (ctypes.create_string_buffer(text) for text in (CODE, b"GPL"))
    attributes = ctypes.create_string_buffer(
        struct.pack("=IIQQ", SOCKET_FILTER, len(CODE) // 8, ctypes.addressof(code), ctypes.addressof(license_)), 128)
    program = libc.syscall(BPF[platform.machine()], PROG_LOAD, attributes, 48)
    if program < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return program


def main() -> None:
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    tap.setsockopt(socket.SOL_SOCKET, SO_ATTACH_BPF, load())
    tap.bind((sys.argv[1], ALL))
    print("watching", flush=True)
    while True:
        frame, (_, _, kind, *_) = tap.recvfrom(2048)
        leaves, to_roce = kind == socket.PACKET_OUTGOING, frame[36:38] == (4791).to_bytes(2, "big")
        if leaves and to_roce and frame[12:14] == b"\x08\x00" and len(frame) >= SEEN:
            print(frame[15] >> 2, len(frame) - SEEN, flush=True)


main()
