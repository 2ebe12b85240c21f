# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Gives the human monitor of a QEMU a command, and prints its answer: monitor.py SOCKET COMMAND"""

import socket
import sys

PROMPT = b"(qemu) "
ANSWER_S = 60


def read(monitor: socket.socket) -> bytes:
    """What QEMU says before the next prompt."""
    said = b""
    while not said.endswith(PROMPT):
        part = monitor.recv(4096)
        if not part:
            break
        said += part
    return said.removesuffix(PROMPT)


def main(path: str, command: str) -> None:
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.settimeout(ANSWER_S)
        monitor.connect(path)
        read(monitor)
        monitor.sendall(command.encode() + b"\n")
        # The monitor echoes the command as a terminal does.
        print(read(monitor).partition(b"\n")[2].decode(), end="")


main(*sys.argv[1:])
