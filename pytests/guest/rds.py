# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Datagrams over RDS. The receiver tells the sender how many arrived complete.

rds.py ADDRESS COUNT          receives
rds.py ADDRESS COUNT PEER     sends to a receiver at that address
"""

import socket
import sys

AF_RDS = 21  # Python may not have the name
PORT = 4000
DATA = bytes(range(256)) * 16
TIMEOUT_S = 30


def main() -> None:
    own, count = sys.argv[1], int(sys.argv[2])
    rds = socket.socket(AF_RDS, socket.SOCK_SEQPACKET, 0)
    rds.bind((own, PORT))
    rds.settimeout(TIMEOUT_S)
    if len(sys.argv) > 3:
        for _ in range(count):
            rds.sendto(DATA, (sys.argv[3], PORT))
        print(rds.recvfrom(len(DATA))[0].decode())
        return
    print("ready", flush=True)
    received = [rds.recvfrom(len(DATA)) for _ in range(count)]
    whole = sum(data == DATA for data, _ in received)
    rds.sendto(f"{whole} whole".encode(), received[0][1])
    sys.stdin.read()  # closing the socket would drop datagrams that are outstanding


if __name__ == "__main__":
    main()
