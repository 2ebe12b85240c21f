#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Misuses the pages that a process maps of its device: it fills work requests and doorbells with random bytes.

hostile_process.py DEVICE GID SGID_INDEX SEED COUNT

Formats are those of include/vrdma/queue.h.
"""

import ctypes
import random
import re
import struct
import sys

import endpoints

PAGE = 4096
STRIDE = 64
DEPTH = 16
WQE_HEADER = struct.Struct("<IIIIQ")
VALID, SIGNALED, ONE_SGE = 1 << 31, 1 << 8, 1 << 16
MAGIC = 0x0123456789ABCD00


def mappings(pattern: str) -> list[tuple[int, int]]:
    """Begin and end of each writable mapping of this process whose line matches."""
    found = []
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            if re.search(pattern, line) and line.split()[1].startswith(("rw", "-w")):
                begin, end = (int(word, 16) for word in line.split()[0].split("-"))
                found.append((begin, end))
    return found


def find(data: bytes) -> int:
    """The address of these bytes in this process's anonymous memory."""
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for begin, end in mappings(r" 00:00 0 |\[heap\]"):
            memory.seek(begin)
            offset = memory.read(end - begin).find(data)
            if offset >= 0 and (begin + offset) % STRIDE == 0:
                return begin + offset
    raise LookupError("the work request is nowhere")


class Victim:
    """A queue pair that is connected to itself."""

    def __init__(self, device: endpoints.Device, dgid: str, sgid_index: int) -> None:
        self.pd = device.pd()
        self.cq = device.cq(256)
        self.mr = self.pd.mr(PAGE, ["LOCAL_WRITE", "REMOTE_WRITE"])
        self.qp = self.pd.qp("RC", self.cq, self.cq, max_send_wr=DEPTH, max_recv_wr=DEPTH)
        self.route = {"dgid": dgid, "sgid_index": sgid_index}

    def connect(self) -> None:
        self.qp.modify(qp_state="RESET")
        self.qp.modify(qp_state="INIT", pkey_index=0, port_num=1, qp_access_flags=["REMOTE_WRITE"])
        self.qp.modify(qp_state="RTR", ah_attr=self.route, path_mtu=3, dest_qp_num=self.qp.qp.qp_num, rq_psn=1,
                       max_dest_rd_atomic=1, min_rnr_timer=1)  # fmt: skip
        self.qp.modify(qp_state="RTS", timeout=10, retry_cnt=1, rnr_retry=1, sq_psn=1, max_rd_atomic=1)

    def write(self, address: int) -> str:
        """Writes 8 bytes to one of its own addresses; returns the status."""
        fields = self.mr.fields()
        self.qp.post_send("RDMA_WRITE", 1, [[fields["addr"], 8, fields["lkey"]]], target=[address, fields["rkey"]])
        return (self.cq.wait(1) or [{"status": "nothing"}])[0]["status"]

    def find_queue(self) -> int:
        """Finds the send queue's address by a work request that is easy to recognize."""
        self.connect()
        self.write(MAGIC)
        return find(WQE_HEADER.pack(VALID | SIGNALED | ONE_SGE, 0, 0, self.mr.fields()["rkey"], MAGIC))


def main(name: str, dgid: str, sgid_index: str, seed: str, count: str) -> None:
    draw = random.Random(int(seed))
    device = endpoints.Device(name)
    victim = Victim(device, dgid, int(sgid_index))
    queue = victim.find_queue()
    doorbells = mappings("/dev/infiniband/")
    for _ in range(int(count)):
        victim.connect()
        # All requests get a valid bit for the poller, except the first, which the valid post below writes.
        garbage = bytearray(draw.randbytes(STRIDE * (DEPTH - 1)))
        for slot in range(0, len(garbage), STRIDE):
            if draw.random() < 0.5:
                garbage[slot:slot + 4] = struct.pack("<I", VALID | SIGNALED | ONE_SGE | draw.randrange(8))
            garbage[slot + 3] |= 0x80
        ctypes.memmove(queue + STRIDE, bytes(garbage), len(garbage))
        for begin, _ in doorbells:
            ctypes.memmove(begin, draw.randbytes(PAGE), PAGE)
        victim.write(victim.mr.fields()["addr"])
        victim.cq.wait(DEPTH, timeout=0.02)
    honest = Victim(device, dgid, int(sgid_index))
    honest.connect()
    print(victim.qp.query()["qp_state"], honest.write(honest.mr.fields()["addr"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
