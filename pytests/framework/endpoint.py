# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""One side of a connection: a queue pair with all that it needs, ready to be connected to another."""

import copy
from collections.abc import Sequence

from .lab import Gid
from .verbs import Remote

ALL_ACCESS = ("LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC")
BUFFER = 65536
QKEY = 0x11111111
MTU_1024 = 3
PSN = 0x123456

# Long enough for an emulated peer that is not scheduled at the moment: 4.096 us * 2^18 is a second.
TIMEOUT = 18
FOREVER = 7


def init_attributes(kind: str) -> dict:
    """RESET to INIT: exactly the attributes that the specification requires."""
    common = {"qp_state": "INIT", "pkey_index": 0, "port_num": 1}
    return {**common, "qkey": QKEY} if kind == "UD" else {**common, "qp_access_flags": ALL_ACCESS}


def rtr_attributes(kind: str, dest_qp_num: int, dgid: str, sgid_index: int) -> dict:
    """INIT to RTR."""
    if kind == "UD":
        return {"qp_state": "RTR"}
    path = {"qp_state": "RTR", "ah_attr": {"dgid": dgid, "sgid_index": sgid_index}, "path_mtu": MTU_1024,
            "dest_qp_num": dest_qp_num, "rq_psn": PSN}  # fmt: skip
    return {**path, "max_dest_rd_atomic": 1, "min_rnr_timer": 12} if kind == "RC" else path


def rts_attributes(kind: str) -> dict:
    """RTR to RTS."""
    ready = {"qp_state": "RTS", "sq_psn": PSN}
    if kind != "RC":
        return ready
    return {**ready, "timeout": TIMEOUT, "retry_cnt": 7, "rnr_retry": FOREVER, "max_rd_atomic": 1}


class Endpoint:
    """A queue pair with one CQ each for sends and receives."""

    def __init__(self, device: Remote, gid: Gid, kind: str = "RC", buffer: int = BUFFER, access=ALL_ACCESS,
                 **queues) -> None:
        self.device = device
        self.gid = gid
        self.kind = kind
        self.pd = device.pd()
        self.mr = self.pd.mr(buffer, access)
        self._create_queues(**queues)

    def _create_queues(self, depth: int = 64, events: bool = False, srq: Remote | None = None, **cap: int) -> None:
        self.send_cq = self.device.cq(depth)
        self.recv_cq = self.device.cq(depth, events)
        self.qp = self.pd.qp(self.kind, self.send_cq, self.recv_cq, srq=srq, **cap)

    def extend(self, send_ops: list[str], wc_flags: Sequence[str] = (), create_flags: Sequence[str] = ()) -> "Endpoint":
        """A twin with a queue pair and completion queues of the extended verbs."""
        twin = copy.copy(self)
        twin.send_cq, twin.recv_cq = (self.device.cq_ex(64, wc_flags) for _ in range(2))
        twin.qp = self.pd.qp_ex(self.kind, twin.send_cq, twin.recv_cq, send_ops, create_flags)
        return twin

    def another(self, **queues) -> "Endpoint":
        """A further queue pair in the same protection domain, on the same buffer."""
        twin = copy.copy(self)
        twin._create_queues(**queues)
        return twin

    def initialize(self, **changes) -> "Endpoint":
        self.qp.modify(**{**init_attributes(self.kind), **changes})
        return self

    def connect(self, peer: "Endpoint", **changes) -> None:
        """INIT to RTS; `changes` replaces attributes that these two steps set."""
        for step in (rtr_attributes(self.kind, peer.qp.num, peer.gid.address, self.gid.index),
                     rts_attributes(self.kind)):
            self.qp.modify(**{**step, **{name: value for name, value in changes.items() if name in step}})

    def sge(self, offset: int = 0, length: int | None = None) -> list:
        """A piece of the buffer."""
        return [self.mr.addr + offset, self.mr.length - offset if length is None else length, self.mr.lkey]

    def target(self, offset: int = 0) -> list:
        """The address and rkey for a peer's RDMA or atomic."""
        return [self.mr.addr + offset, self.mr.rkey]

    def receive(self, wr_id: int = 0, offset: int = 0, length: int | None = None) -> None:
        self.qp.post_recv(wr_id, [self.sge(offset, length)])

    def send(self, opcode: str = "SEND", wr_id: int = 0, offset: int = 0, length: int = 64, **how) -> None:
        self.qp.post_send(opcode, wr_id, [self.sge(offset, length)], **how)

    def sent(self, count: int = 1, timeout: float = 20.0) -> list[str]:
        """The statuses of the next completions of the send queue, in their order."""
        return [completion.status for completion in self.send_cq.wait(count, timeout)]

    def received(self, count: int = 1, timeout: float = 20.0) -> list[str]:
        return [completion.status for completion in self.recv_cq.wait(count, timeout)]

    def state(self) -> str:
        return self.qp.query().qp_state


def connect(left: Endpoint, right: Endpoint, **changes) -> None:
    """Takes both sides from RESET to RTS."""
    for side in (left, right):
        side.initialize(**{name: value for name, value in changes.items() if name in init_attributes(side.kind)})
    left.connect(right, **changes)
    right.connect(left, **changes)
