# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A stream over SMC, which looks like TCP: the server sends the data back, and the client compares it.

smc.py PORT                  serves one connection
smc.py PORT ADDRESS SIZE     connects to a server there, and sends SIZE bytes
"""

import random
import socket
import sys
import threading

AF_SMC = 43  # Python may not have the name
TIMEOUT_S = 30


def smc_socket() -> socket.socket:
    """Its addresses are those of IPv4, so Python is told that it is an IPv4 socket."""
    made = socket.socket(AF_SMC, socket.SOCK_STREAM, 0).detach()
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=made)


def serve(port: int) -> None:
    with smc_socket() as listener:
        listener.bind(("", port))
        listener.listen()
        print("ready", flush=True)
        connection, _ = listener.accept()
    with connection:
        connection.settimeout(TIMEOUT_S)
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def compare(port: int, address: str, size: int) -> bool:
    pattern = random.Random(port).randbytes(size)

    def send() -> None:
        connection.sendall(pattern)
        connection.shutdown(socket.SHUT_WR)

    with smc_socket() as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect((address, port))
        sender = threading.Thread(target=send)
        sender.start()
        received = bytearray()
        while data := connection.recv(1 << 16):
            received += data
        sender.join()
    return received == pattern


def main() -> None:
    port = int(sys.argv[1])
    if len(sys.argv) == 2:
        serve(port)
    else:
        print("same" if compare(port, sys.argv[2], int(sys.argv[3])) else "different")


if __name__ == "__main__":
    main()
