# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Verbs objects on top of pyverbs, in terms of names, numbers and lists that fit into JSON.

Enumerators go by their names without the prefix: "RC", "RTS", "RDMA_WRITE", "REM_ACCESS_ERR".
A scatter/gather element is [address, length, lkey]. Every wait has a bound.
"""

import ctypes
import errno
import itertools
import mmap
import os
import random
import select
import signal
import socket
import stat
import time
import zlib
from collections.abc import Sequence

from constants import e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CQEX, CompChannel, CqInitAttrEx, PollCqAttr
from pyverbs.device import Context
from pyverbs.mem_alloc import posix_memalign
from pyverbs.mem_alloc import read as read_memory
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD, ParentDomain, ParentDomainInitAttr
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, DataBuffer, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr, SrqInitAttrEx
from pyverbs.wr import SGE, RecvWR, SendWR
from pyverbs.xrcd import XRCD, XRCDInitAttr

import memory as registered
import multicast
import raw
import traffic
from remotable import Remotable

STATES = ("RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")
STATUSES = {getattr(e, "IBV_WC_" + name): name for name in (
    "SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR", "MW_BIND_ERR", "BAD_RESP_ERR",
    "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR", "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR",
    "REM_ABORT_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR")}  # fmt: skip
OPCODES = {getattr(e, "IBV_WC_" + name): name for name in (
    "SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW", "LOCAL_INV", "ATOMIC_WRITE", "RECV",
    "RECV_RDMA_WITH_IMM")}  # fmt: skip
EVENTS = {getattr(e, "IBV_EVENT_" + name): name for name in (
    "CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG", "PATH_MIG_ERR",
    "SRQ_ERR", "SRQ_LIMIT_REACHED", "DEVICE_FATAL", "PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE",
    "QP_LAST_WQE_REACHED",
    "CLIENT_REREGISTER", "GID_CHANGE")}  # fmt: skip
ATTRIBUTES = {
    "qp_state": e.IBV_QP_STATE, "cur_qp_state": e.IBV_QP_CUR_STATE, "qp_access_flags": e.IBV_QP_ACCESS_FLAGS,
    "en_sqd_async_notify": e.IBV_QP_EN_SQD_ASYNC_NOTIFY, "pkey_index": e.IBV_QP_PKEY_INDEX, "port_num": e.IBV_QP_PORT,
    "qkey": e.IBV_QP_QKEY, "ah_attr": e.IBV_QP_AV, "path_mtu": e.IBV_QP_PATH_MTU, "timeout": e.IBV_QP_TIMEOUT,
    "retry_cnt": e.IBV_QP_RETRY_CNT, "rnr_retry": e.IBV_QP_RNR_RETRY, "rq_psn": e.IBV_QP_RQ_PSN,
    "max_rd_atomic": e.IBV_QP_MAX_QP_RD_ATOMIC, "min_rnr_timer": e.IBV_QP_MIN_RNR_TIMER, "sq_psn": e.IBV_QP_SQ_PSN,
    "max_dest_rd_atomic": e.IBV_QP_MAX_DEST_RD_ATOMIC, "dest_qp_num": e.IBV_QP_DEST_QPN,
}  # fmt: skip
# Attributes that no vrdma device has.
MIGRATION = {"alt_ah_attr": e.IBV_QP_ALT_PATH, "path_mig_state": e.IBV_QP_PATH_MIG_STATE}
ALL_ATTRIBUTES = sum(ATTRIBUTES.values()) | e.IBV_QP_CAP


def flags(prefix: str, names: Sequence[str]) -> int:
    return sum(getattr(e, prefix + name) for name in names)


def is_event_file(fd: int, kinds: tuple[str, ...]) -> bool:
    """Whether events are read from the file: either one of these kinds, or the first socket of a pair, to which a
    driver in user space writes."""
    status = os.fstat(fd)
    if not stat.S_ISSOCK(status.st_mode):
        return any(kind in os.readlink(f"/proc/self/fd/{fd}") for kind in kinds)
    with socket.socket(fileno=os.dup(fd)) as end:
        return end.type == socket.SOCK_SEQPACKET


UVERBS_EVENTS = "infinibandevent"
DIRECT_EVENTS = "[eventfd]"  # a driver in user space has others, which it makes when a context is opened


def event_files(*kinds: str) -> set[int]:
    """The descriptors of this process for events; pyverbs does not return them."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            if is_event_file(int(name), kinds):
                found.add(int(name))
        except OSError:  # the descriptor that listed the directory is closed by now
            pass
    return found


def readable(fd: int, timeout: float) -> bool:
    return bool(select.select([fd], [], [], timeout)[0])


def process_id() -> int:
    return os.getpid()


class Device(Remotable):
    """An open device: one user context."""

    def __init__(self, name: str) -> None:
        before = event_files(UVERBS_EVENTS)
        self._context = Context(name=name)
        self._async_fd = min(event_files(UVERBS_EVENTS) - before)

    def pd(self) -> "Pd":
        return Pd(self._context)

    def exhaust(self, kind: str, most: int) -> list[int]:
        """Makes objects of a kind until one is refused, and destroys all. Returns the number of objects that could be
        made, and the errno."""
        pd, cq = PD(self._context), CQ(self._context, 1, None, None, 0)
        small = QPInitAttr(e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=1, max_recv_wr=1))
        route = address({"dgid": str(self._context.query_gid(1, 1)), "sgid_index": 1})
        page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = ctypes.addressof(ctypes.c_char.from_buffer(page))
        make = {"pd": lambda: PD(self._context), "cq": lambda: CQ(self._context, 1, None, None, 0),
                "mr": lambda: MR(pd, mmap.PAGESIZE, e.IBV_ACCESS_LOCAL_WRITE, start), "ah": lambda: AH(pd, attr=route),
                "srq": lambda: SRQ(pd, SrqInitAttr(SrqAttr(1, 1))), "qp": lambda: QP(pd, small),
                "context": lambda: Context(name=self._context.name)}[kind]
        made: list = []
        refusal = 0
        while not refusal and len(made) < most:
            try:
                made.append(make())
            except PyverbsRDMAError as error:
                refusal = abs(error.error_code)
        for each in (*reversed(made), cq, pd):
            each.close()
        return [len(made), refusal]

    def cq(self, depth: int = 64, events: bool = False, vector: int = 0) -> "Cq":
        return Cq(self._context, depth, events, vector)

    def cq_that_tells(self, other: "Device") -> None:
        """Makes a CQ with a channel of that context, and destroys both at once."""
        channel = CompChannel(other._context)
        try:
            CQ(self._context, 1, None, channel, 0).close()
        finally:
            channel.close()

    def cq_ex(self, depth: int = 64, wc_flags: Sequence[str] = (), attr_flags: Sequence[str] = ()) -> "CqEx":
        return CqEx(self._context, depth, wc_flags, attr_flags)

    def clock(self) -> int:
        """The device's clock, which also provides the times of completions."""
        return self._context.query_rt_values_ex(e.IBV_VALUES_MASK_RAW_CLOCK)[1]

    def memory(self, length: int) -> registered.Memory:
        return registered.Memory(length)

    def xrcd(self, path: str | None = None, oflags: Sequence[str] = ("CREAT",)) -> "Xrcd":
        return Xrcd(self._context, path, oflags)

    def xrc_recv_qp(self, xrcd: "Xrcd") -> "XrcQp":
        return XrcQp(self._context, QPInitAttrEx(e.IBV_QPT_XRC_RECV, comp_mask=e.IBV_QP_INIT_ATTR_XRCD,
                                                 xrcd=xrcd.xrcd))

    def extended_limits(self) -> dict:
        attr = self._context.query_device_ex()
        names = ("hca_core_clock", "completion_timestamp_mask", "max_dm_size")
        return {**{name: getattr(attr, name) for name in names}, "max_cq_count": attr.cq_mod_caps.max_cq_count,
                "max_cq_period": attr.cq_mod_caps.max_cq_period}

    def imported(self) -> "Device":
        """Another context on the same file."""
        device = Device.__new__(Device)
        device._context = Context(cmd_fd=os.dup(self._context.cmd_fd))
        device._async_fd = -1
        return device

    def import_pd(self, handle: int) -> "Pd":
        return Pd(self._context, handle=handle)

    def dm(self, length: int, log_align: int = 0) -> registered.Dm:
        return registered.Dm(self._context, length, log_align)

    def raw(self) -> raw.Raw:
        """A separate context."""
        return raw.Raw(self._context.name)

    def parent_domain(self, pd: "Pd") -> None:
        ParentDomain(self._context, ParentDomainInitAttr(pd=pd.pd)).close()

    def port(self, number: int) -> int:
        """The state of a port."""
        return self._context.query_port(number).state

    def pkeys(self) -> list[int]:
        """The P_Keys in the port's table."""
        return [socket.ntohs(self._context.query_pkey(1, index))
                for index in range(self._context.query_port(1).pkey_tbl_len)]

    def limits(self) -> dict:
        attr, port = self._context.query_device(), self._context.query_port(1)
        names = ("max_qp", "max_qp_wr", "max_sge", "max_cq", "max_cqe", "max_mr", "max_mr_size", "max_pd", "max_ah",
                 "max_srq", "max_srq_wr", "max_srq_sge", "max_qp_rd_atom", "max_qp_init_rd_atom", "max_pkeys",
                 "max_mcast_grp", "max_mcast_qp_attach")  # fmt: skip
        return {**{name: getattr(attr, name) for name in names}, "max_msg_sz": port.max_msg_sz,
                "active_mtu": 128 << port.active_mtu, "vectors": self._context.num_comp_vectors,
                "port_state": port.state, "gid_tbl_len": port.gid_tbl_len}

    def async_event(self, timeout: float) -> str | None:
        """The next async event's type."""
        if not readable(self._async_fd, timeout):
            return None
        event = self._context.get_async_event()
        event.ack()
        return EVENTS[event.event_type]

    def await_event(self, wanted: str, timeout: float) -> list[str]:
        """The async events up to the one wanted, or all until the timeout."""
        seen: list[str] = []
        deadline = time.monotonic() + timeout
        while wanted not in seen and (event := self.async_event(max(0.0, deadline - time.monotonic()))):
            seen.append(event)
        return seen

    def fork(self) -> int:
        """Starts a child that has a copy of all memory and does nothing. Returns its process id."""
        child = os.fork()
        if not child:
            signal.pause()
        return child

    def close(self) -> None:
        self._context.close()


class Pd(Remotable):
    def __init__(self, context: Context, **how) -> None:
        self.context = context
        self.pd = PD(context, **how)

    def fields(self) -> dict:
        return {"handle": self.pd.handle}

    def import_mr(self, handle: int) -> dict:
        """Imports a memory region, and forgets it again. Returns the attributes that the import has found."""
        mr = MR(self.pd, handle=handle)
        found = {"lkey": mr.lkey, "rkey": mr.rkey}
        mr.unimport()
        return found

    def unimport(self) -> None:
        self.pd.unimport()

    def qp_ex(self, kind: str, send_cq: "Cq", recv_cq: "Cq", send_ops: list[str], create_flags: Sequence[str] = (),
              **cap: int) -> "QpEx":
        return QpEx(self, kind, send_cq, recv_cq, send_ops, create_flags, cap)

    def mr(self, length: int, access: list[str]) -> "Mr":
        return Mr(self.pd, length, access)

    def mr_of(self, there: registered.Memory, access: list[str]) -> registered.UserMr:
        return registered.UserMr(self.pd, there.addr, there.length, flags("IBV_ACCESS_", access))

    def whole_mr(self, access: list[str]) -> registered.UserMr:
        return registered.UserMr(self.pd, None, 4096, flags("IBV_ACCESS_", access))

    def advise(self, advice: str, sges: list, flags: int = 1) -> None:
        registered.advise(self.pd, advice, sges, flags)

    def mw(self, kind: int) -> "Mw":
        return Mw(self.pd, kind)

    def dm_mr(self, dm: registered.Dm, offset: int, length: int, access: list[str]) -> registered.DmMr:
        return registered.DmMr(self.pd, dm, offset, length, flags("IBV_ACCESS_", access))

    def refused_mr(self, length: int) -> int:
        """Registers a region that begins in a page of ours, and returns the errno of the refusal."""
        page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = ctypes.addressof(ctypes.c_char.from_buffer(page))
        try:
            MR(self.pd, length, e.IBV_ACCESS_LOCAL_WRITE, start).close()
        except PyverbsRDMAError as error:
            return abs(error.error_code)
        return 0

    def srq(self, max_wr: int = 16, max_sge: int = 1) -> "Srq":
        return Srq(self.pd, max_wr, max_sge)

    def xrc_srq(self, xrcd: "Xrcd", cq: "Cq", max_wr: int = 16) -> "XrcSrq":
        return XrcSrq(self, xrcd, cq, max_wr)

    def xrc_send_qp(self, cq: "Cq") -> "XrcQp":
        init = QPInitAttrEx(e.IBV_QPT_XRC_SEND, scq=cq.cq, cap=QPCap(max_send_wr=16, max_recv_wr=0, max_recv_sge=0),
                            comp_mask=e.IBV_QP_INIT_ATTR_PD, pd=self.pd)
        return XrcQp(self.context, init)

    def qp(self, kind: str, send_cq: "Cq", recv_cq: "Cq", srq: "Srq | None" = None, **cap: int) -> "Qp":
        return Qp(self.pd, kind, send_cq, recv_cq, srq, cap)

    def ah(self, **route) -> "Ah":
        return Ah(self.pd, attr=address(route))

    def ah_of_sender(self, cq: "Cq", grh: int) -> "Ah":
        """An address handle of the sender of the completion that was polled last."""
        return Ah(self.pd, wc=cq.last, grh=grh, port_num=1)

    def close(self) -> None:
        self.pd.close()


class Mr(Remotable):
    """A registered buffer, which it allocates."""

    def __init__(self, pd: PD, length: int, access: list[str]) -> None:
        self.mr = MR(pd, length, flags("IBV_ACCESS_", access))

    def fields(self) -> dict:
        return {"addr": self.mr.buf, "length": self.mr.length, "lkey": self.mr.lkey, "rkey": self.mr.rkey,
                "handle": self.mr.handle}

    def read(self, offset: int, length: int) -> str:
        return self.mr.read(length, offset).hex()

    def awaits(self, offset: int, data: str, timeout: float = 20.0) -> bool:
        """Whether the buffer has these bytes before the timeout."""
        deadline = time.monotonic() + timeout
        while (found := self.read(offset, len(data) // 2)) != data and time.monotonic() < deadline:
            pass
        return found == data

    def write(self, offset: int, data: str) -> None:
        self.mr.write(bytes.fromhex(data), len(data) // 2, offset)

    def fill(self, seed: int, offset: int = 0, length: int | None = None) -> int:
        """Writes random bytes; returns their checksum."""
        length = self.mr.length - offset if length is None else length
        data = random.Random(seed).randbytes(length)
        self.mr.write(data, length, offset)
        return zlib.crc32(data)

    def checksum(self, offset: int = 0, length: int | None = None) -> int:
        return zlib.crc32(self.mr.read(self.mr.length - offset if length is None else length, offset))

    def rereg(self, pd: Pd | None = None, length: int = 0, access: list[str] | None = None) -> dict:
        """Gives the region another domain, a new buffer of that length, other rights, or several of these."""
        changes = (e.IBV_REREG_MR_CHANGE_PD if pd else 0) | (e.IBV_REREG_MR_CHANGE_TRANSLATION if length else 0) | (
            e.IBV_REREG_MR_CHANGE_ACCESS if access is not None else 0)
        buffer = posix_memalign(length) if length else 0
        self.mr.rereg(changes, pd and pd.pd, buffer, length, flags("IBV_ACCESS_", access or []))
        return self.fields()

    def close(self) -> None:
        self.mr.close()


class Mw(Remotable):
    """A memory window, of type 1 or 2."""

    def __init__(self, pd: PD, kind: int) -> None:
        self.mw = MW(pd, kind)

    def fields(self) -> dict:
        return {"rkey": self.mw.rkey}

    def key(self) -> int:
        """The rkey of the last bind of type 1."""
        return self.mw.rkey

    def close(self) -> None:
        self.mw.close()


class Ah(Remotable):
    def __init__(self, pd: PD, **how) -> None:
        self.ah = AH(pd, **how)

    def close(self) -> None:
        self.ah.close()


def address(route: dict) -> AHAttr:
    """Makes an address vector. It takes dgid and sgid_index. Optional are hop_limit, traffic_class, flow_label, sl,
    port_num and is_global."""
    whole = {"port_num": 1, "is_global": 1, "sl": 0}
    own = {name: route.get(name, value) for name, value in whole.items()}
    rest = {name: value for name, value in route.items() if name not in whole}
    return AHAttr(**own, gr=GlobalRoute(**{"hop_limit": 64, **rest, "dgid": GID(route["dgid"])}))


class Cq(Remotable):
    def __init__(self, context: Context, depth: int, events: bool, vector: int) -> None:
        before = event_files(UVERBS_EVENTS, DIRECT_EVENTS)
        self._channel = CompChannel(context) if events else None
        self._fd = min(event_files(UVERBS_EVENTS, DIRECT_EVENTS) - before, default=-1)
        self.cq = CQ(context, depth, None, self._channel, vector)
        self.last = None

    def fields(self) -> dict:
        return {"depth": self.cq.cqe}

    def poll(self, count: int = 1) -> list[dict]:
        """The available completions, at most count."""
        completions = self.cq.poll(count)[1]
        self.last = completions[-1] if completions else self.last
        return [describe(completion) for completion in completions]

    def wait(self, count: int = 1, timeout: float = 20.0) -> list[dict]:
        """Polls until count completions have come, or until the timeout."""
        found: list[dict] = []
        deadline = time.monotonic() + timeout
        while len(found) < count and time.monotonic() < deadline:
            found += self.poll(count - len(found))
        return found

    def resize(self, depth: int) -> int:
        """Returns the new depth."""
        self.cq.resize(depth)
        return self.cq.cqe

    def moderate(self, count: int, period: int, mask: int = 1) -> None:
        """Sets moderation: an event after this number of completions, or after this number of microseconds."""
        raw.modify_cq(self.cq, mask, count, period)

    def arm(self, solicited_only: bool = False) -> None:
        self.cq.req_notify(solicited_only)

    def event(self, timeout: float = 20.0) -> bool:
        """Whether a completion event comes before the timeout."""
        if not readable(self._fd, timeout):
            return False
        assert self._channel
        self._channel.get_cq_event(self.cq)
        self.cq.ack_events(1)
        return True

    def close(self) -> None:
        self.cq.close()
        if self._channel:
            self._channel.close()


class CqEx(Cq):
    """A CQ that is polled by the read functions of an extended CQ."""

    def __init__(self, context: Context, depth: int, wc_flags: Sequence[str], attr_flags: Sequence[str]) -> None:
        attr = CqInitAttrEx(cqe=depth, wc_flags=flags("IBV_WC_EX_WITH_", wc_flags) | e.IBV_WC_STANDARD_FLAGS,
                            comp_mask=e.IBV_CQ_INIT_ATTR_MASK_FLAGS,
                            flags=flags("IBV_CREATE_CQ_ATTR_", attr_flags))  # fmt: skip
        self._channel, self._fd, self.last = None, -1, None
        self.cq = CQEX(context, attr)

    def fields(self) -> dict:
        return {}

    def poll(self, count: int = 1) -> list[dict]:
        if self.cq.start_poll(PollCqAttr()):
            return []
        found = [self._describe()]
        while len(found) < count and not self.cq.poll_next():
            found.append(self._describe())
        self.cq.end_poll()
        return found

    def _describe(self) -> dict:
        cq = self.cq
        described = {"wr_id": cq.wr_id, "status": STATUSES[cq.status], "qp_num": cq.read_qp_num()}
        if cq.status == e.IBV_WC_SUCCESS:
            wc_flags = cq.read_wc_flags()
            described |= {"opcode": OPCODES[cq.read_opcode()], "byte_len": cq.read_byte_len(),
                          "src_qp": cq.read_src_qp(), "grh": bool(wc_flags & e.IBV_WC_GRH),
                          "imm": socket.ntohl(cq.read_imm_data()) if wc_flags & e.IBV_WC_WITH_IMM else None,
                          "timestamp": cq.read_timestamp(),
                          "wallclock_ns": cq.read_completion_wallclock_ns()}  # fmt: skip
        return described


def describe(completion) -> dict:
    """Of a completion in error, only the fields that the specification allows a program to read."""
    described = {"wr_id": completion.wr_id, "status": STATUSES[completion.status], "qp_num": completion.qp_num}
    if completion.status == e.IBV_WC_SUCCESS:
        described |= {"opcode": OPCODES[completion.opcode], "byte_len": completion.byte_len,
                      "src_qp": completion.src_qp, "grh": bool(completion.wc_flags & e.IBV_WC_GRH),
                      "imm": completion.imm_data if completion.wc_flags & e.IBV_WC_WITH_IMM else None}
        if completion.wc_flags & e.IBV_WC_WITH_INV:
            described["invalidated"] = completion.imm_data
    return described


class Srq(Remotable):
    def __init__(self, pd: PD, max_wr: int, max_sge: int) -> None:
        self.srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr, max_sge)))

    def fields(self) -> dict:
        return self.query()

    def query(self) -> dict:
        attr = self.srq.query()
        return {name: getattr(attr, name) for name in ("max_wr", "max_sge", "srq_limit")}

    def modify(self, **attributes: int) -> None:
        """Changes only the given attributes."""
        masks = {"max_wr": e.IBV_SRQ_MAX_WR, "srq_limit": e.IBV_SRQ_LIMIT}
        self.srq.modify(SrqAttr(**attributes), sum(masks[name] for name in attributes))

    def post_recv(self, wr_id: int, sges: list) -> None:
        self.srq.post_recv(RecvWR(wr_id, len(sges), [SGE(*sge) for sge in sges]))

    def fill(self, wr_id: int, sges: list, most: int) -> int:
        """Posts the same receive until the queue is full. Returns the number of receives that were posted."""
        for number in range(most):
            try:
                self.post_recv(wr_id, sges)
            except PyverbsRDMAError as error:
                assert error.error_code == errno.ENOMEM, error
                return number
        return most

    def close(self) -> None:
        self.srq.close()


class Xrcd(Remotable):
    """An XRC domain: a private one, or that of a file."""

    def __init__(self, context: Context, path: str | None, oflags: Sequence[str]) -> None:
        fd = -1 if path is None else os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
        mask = e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS
        try:
            self.xrcd = XRCD(context, XRCDInitAttr(mask, sum(getattr(os, "O_" + name) for name in oflags), fd))
        finally:
            if fd != -1:
                os.close(fd)

    def close(self) -> None:
        self.xrcd.close()


class XrcSrq(Srq):
    def __init__(self, pd: Pd, xrcd: Xrcd, cq: Cq, max_wr: int) -> None:
        init = SrqInitAttrEx(max_wr=max_wr)
        init.srq_type, init.pd, init.xrcd, init.cq = e.IBV_SRQT_XRC, pd.pd, xrcd.xrcd, cq.cq
        init.comp_mask = (e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD | e.IBV_SRQ_INIT_ATTR_XRCD |
                          e.IBV_SRQ_INIT_ATTR_CQ)
        self.srq = SRQ(pd.context, init)

    def fields(self) -> dict:
        return {**self.query(), "num": self.srq.get_srq_num()}


class Qp(Remotable):
    def __init__(self, pd: PD, kind: str, send_cq: Cq, recv_cq: Cq, srq: Srq | None, cap: dict[str, int]) -> None:
        sizes = QPCap(**{"max_send_wr": 16, "max_recv_wr": 16, **cap})
        init = QPInitAttr(getattr(e, "IBV_QPT_" + kind), scq=send_cq.cq, rcq=recv_cq.cq, srq=srq and srq.srq, cap=sizes,
                          sq_sig_all=0)
        self.qp = QP(pd, init)
        self.cap = {name: getattr(init.cap, name) for name in (
            "max_send_wr", "max_recv_wr", "max_send_sge", "max_recv_sge", "max_inline_data")}  # fmt: skip

    def fields(self) -> dict:
        return {"num": self.qp.qp_num, "cap": self.cap}

    def modify(self, **attributes) -> None:
        """Changes only the given attributes."""
        attr, mask = QPAttr(), 0
        for name, value in attributes.items():
            if name.endswith("ah_attr"):
                value = address(value)
            elif name in ("qp_state", "cur_qp_state"):
                value = STATES.index(value)
            elif name == "qp_access_flags":
                value = flags("IBV_ACCESS_", value)
            setattr(attr, name, value)
            mask |= (ATTRIBUTES | MIGRATION)[name]
        self.qp.modify(attr, mask)

    def query(self) -> dict:
        attr, init = self.qp.query(ALL_ATTRIBUTES)
        plain = {name: getattr(attr, name) for name in ATTRIBUTES if name not in ("ah_attr", "cur_qp_state")}
        return {**plain, "qp_state": STATES[attr.qp_state], "dgid": attr.ah_attr.dgid,
                "max_send_wr": init.cap.max_send_wr, "max_inline_data": init.cap.max_inline_data}

    def post_recv(self, wr_id: int, sges: list) -> None:
        self.qp.post_recv(RecvWR(wr_id, len(sges), [SGE(*sge) for sge in sges]))

    def post_send(self, opcode: str, wr_id: int, sges: list, **how) -> None:
        self.qp.post_send(send_request(opcode, wr_id, sges, **how))

    def invalidate(self, key: int, wr_id: int = 0) -> None:
        """Invalidates the key on this side."""
        self.qp.post_send(invalidation("LOCAL_INV", wr_id, [], key))

    def send_invalidate(self, wr_id: int, sges: list, key: int) -> None:
        """Sends a message that invalidates the key on the other side."""
        self.qp.post_send(invalidation("SEND_WITH_INV", wr_id, sges, key))

    def post_chain(self, requests: list[dict]) -> None:
        """Posts a list of requests by one call."""
        chain = [send_request(**request) for request in requests]
        for request, following in itertools.pairwise(chain):
            request.next_wr = following
        self.qp.post_send(chain[0])

    def post_sends(self, requests: list[dict]) -> None:
        for request in requests:
            self.post_send(**request)

    def bind(self, mw: Mw, mr: Mr, offset: int, length: int, access: list[str], wr_id: int = 0) -> int:
        """Binds a window of type 1; returns its new rkey."""
        info = MWBindInfo(mr.mr, mr.mr.buf + offset, length, flags("IBV_ACCESS_", access))
        self.qp.bind_mw(mw.mw, MWBind(info, e.IBV_SEND_SIGNALED, wr_id))
        return mw.mw.rkey

    def post_bind(self, mw: Mw, mr: Mr, offset: int, length: int, access: list[str], wr_id: int = 0) -> int:
        """Binds a window of type 2; returns its new rkey."""
        info = MWBindInfo(mr.mr, mr.mr.buf + offset, length, flags("IBV_ACCESS_", access))
        request = SendWR(wr_id, e.IBV_WR_BIND_MW, 0, 0, [], e.IBV_SEND_SIGNALED)
        request.set_bind_wr(mw.mw, info)
        self.qp.post_send(request)
        return request.rkey

    def attach(self, gid: str) -> None:
        multicast.change("ibv_attach_mcast", self.qp, gid)

    def detach(self, gid: str) -> None:
        multicast.change("ibv_detach_mcast", self.qp, gid)

    def fetch_add(self, count: int, cq: Cq, sge: list, target: list) -> list[int]:
        """Adds 1 count times, one after the other; returns the old value of the counter for each."""
        found = []
        for _ in range(count):
            self.post_send("ATOMIC_FETCH_AND_ADD", 0, [sge], target=target, compare_add=1)
            expect_success(cq.wait(1))
            found.append(int.from_bytes(read_memory(sge[0], 8), "little"))
        return found

    def compare_swap_add(self, count: int, cq: Cq, sge: list, target: list) -> int:
        """Adds 1 count times by compare-and-swap, with retries; returns the number of attempts."""
        attempts, value, done = 0, 0, 0
        while done < count:
            self.post_send("ATOMIC_CMP_AND_SWP", 0, [sge], target=target, compare_add=value, swap=value + 1)
            expect_success(cq.wait(1))
            found = int.from_bytes(read_memory(sge[0], 8), "little")
            done += found == value
            value = found + (found == value)
            attempts += 1
        return attempts

    def send_messages(self, cq: Cq, mr: Mr, seed: int, count: int, most_pieces: int, opcode: str = "SEND",
                      target: list | None = None) -> None:
        """Sends random messages, each from random pieces of the buffer."""
        draw = random.Random(seed ^ 1)
        for number, message in enumerate(traffic.messages(seed, count, most_pieces)):
            sges = scatter(draw, mr, message.send_pieces)
            put(mr, sges, message.data)
            there = target and [target[0] + slot(number), target[1]]
            self.post_send(opcode, number, sges, imm=number, target=there)
            expect_success(cq.wait(1))

    def receive_messages(self, cq: Cq, mr: Mr, seed: int, count: int, most_pieces: int) -> str:
        """Receives the same messages into random pieces; returns the error of the first bad one, if any."""
        draw = random.Random(seed ^ 2)
        for number, message in enumerate(traffic.messages(seed, count, most_pieces)):
            sges = scatter(draw, mr, message.recv_pieces)
            self.post_recv(number, sges)
            completions = cq.wait(1)
            expect_success(completions)
            if completions[0]["byte_len"] != len(message.data) or get(mr, sges) != message.data:
                return f"message {number} of {len(message.data)} bytes: {completions[0]}"
        return ""

    def receive_writes(self, cq: Cq, mr: Mr, seed: int, count: int, most_pieces: int, offset: int) -> str:
        """Receives the same messages as RDMA writes with immediate data."""
        for number, message in enumerate(traffic.messages(seed, count, most_pieces)):
            self.post_recv(number, [[mr.mr.buf, 0, mr.mr.lkey]])
            completions = cq.wait(1)
            expect_success(completions)
            data = mr.mr.read(len(message.data), offset + slot(number))
            if completions[0]["imm"] != number or data != message.data:
                return f"write {number} of {len(message.data)} bytes: {completions[0]}"
        return ""

    def read_messages(self, cq: Cq, mr: Mr, seed: int, count: int, most_pieces: int, target: list) -> str:
        """For each message, reads its number of bytes from one place that has random data of the same seed."""
        draw = random.Random(seed ^ 2)
        whole = random.Random(seed).randbytes(traffic.LARGEST)
        for number, message in enumerate(traffic.messages(seed, count, most_pieces)):
            length = len(message.data)
            begin = draw.randint(0, traffic.LARGEST - length)
            sges = scatter(draw, mr, message.recv_pieces)
            self.post_send("RDMA_READ", number, sges, target=[target[0] + begin, target[1]])
            expect_success(cq.wait(1))
            if get(mr, sges) != whole[begin:begin + length]:
                return f"read {number} of {length} bytes at {begin}"
        return ""

    def send_while_resizing(self, cq: Cq, sge: list, depths: list[int], burst: int) -> list[int]:
        """Sends a burst and resizes while it completes, once for each depth; returns the order of completions."""
        order: list[int] = []
        for number, depth in enumerate(depths):
            for wr_id in range(number * burst, (number + 1) * burst):
                self.post_send("SEND", wr_id, [sge])
            cq.resize(depth)
            completions = cq.wait(burst)
            order += [completion["wr_id"] for completion in completions if completion["status"] == "SUCCESS"]
        return order

    def send_at_random(self, count: int, cq: Cq, sge: list, seed: int) -> None:
        """Sends one message after the other, with pauses of up to a millisecond between them."""
        pauses = random.Random(seed)
        for number in range(count):
            self.post_send("SEND", number, [sge])
            expect_success(cq.wait(1))
            pause_until = time.monotonic() + pauses.random() / 1000
            while time.monotonic() < pause_until:
                pass

    def receive_by_events(self, count: int, cq: Cq, sge: list) -> list[int]:
        """Receives by arming, polling once more, and then sleeping for the event.

        Returns the number of messages and the number of sleeps. It ends early if a wake-up does not come.
        """
        received = slept = 0
        while received < count:
            cq.arm()
            completions = cq.poll(count)
            if not completions:
                slept += 1
                if not cq.event(5.0):
                    break
            for completion in completions:
                expect_success([completion])
                self.post_recv(0, [sge])
            received += len(completions)
        return [received, slept]

    def close(self) -> None:
        self.qp.close()


class QpEx(Qp):
    """A queue pair with the work requests of ibv_wr_*()."""

    def __init__(self, pd: Pd, kind: str, send_cq: Cq, recv_cq: Cq, send_ops: list[str],
                 create_flags: Sequence[str], cap: dict[str, int]) -> None:
        sizes = QPCap(**{"max_send_wr": 16, "max_recv_wr": 16, **cap})
        mask = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
        if create_flags:
            mask |= e.IBV_QP_INIT_ATTR_CREATE_FLAGS
        init = QPInitAttrEx(getattr(e, "IBV_QPT_" + kind), scq=send_cq.cq, rcq=recv_cq.cq, cap=sizes, pd=pd.pd,
                            comp_mask=mask, create_flags=flags("IBV_QP_CREATE_", create_flags),
                            send_ops_flags=flags("IBV_QP_EX_WITH_", send_ops))  # fmt: skip
        self.qp = QPEx(pd.context, init)
        self.cap = {}

    def batch(self, requests: list[dict], abort: bool = False) -> None:
        """Posts all requests as one batch, or aborts the batch."""
        self.qp.wr_start()
        for request in requests:
            self._build(**request)
        self.qp.wr_abort() if abort else self.qp.wr_complete()

    def _build(self, opcode: str, args: Sequence[object] = (), wr_id: int = 0, sges: list | None = None,
               inline: list | None = None, send_flags: Sequence[str] = ("SIGNALED",)) -> None:
        self.qp.wr_id = wr_id
        self.qp.wr_flags = flags("IBV_SEND_", send_flags)
        getattr(self.qp, "wr_" + opcode)(*args)
        if sges is not None:
            self.qp.wr_set_sge_list(len(sges), [SGE(*sge) for sge in sges])
        if inline is not None:
            self.qp.wr_set_inline_data_list(1, [DataBuffer(*inline)])


class XrcQp(Qp):
    """One end of an XRC connection."""

    def __init__(self, context: Context, init: QPInitAttrEx) -> None:
        self.qp = QP(context, init)
        self.cap = {}


def send_request(opcode: str, wr_id: int, sges: list, send_flags: Sequence[str] = ("SIGNALED",), imm: int = 0,
                 target: list | None = None, compare_add: int = 0, swap: int = 0, ah: Ah | None = None,
                 qpn: int = 0, qkey: int = 0, srq: int | None = None) -> SendWR:
    """target is [remote address, rkey]; ah, qpn and qkey are for datagrams, srq is for XRC."""
    request = SendWR(wr_id, getattr(e, "IBV_WR_" + opcode), len(sges), imm, [SGE(*sge) for sge in sges],
                     flags("IBV_SEND_", send_flags))
    if opcode in ("ATOMIC_CMP_AND_SWP", "ATOMIC_FETCH_AND_ADD"):
        assert target
        request.set_wr_atomic(target[1], target[0], compare_add, swap)
    elif target:
        request.set_wr_rdma(target[1], target[0])
    if ah:
        request.set_wr_ud(ah.ah, qpn, qkey)
    if srq is not None:
        request.set_qp_type_xrc(srq)
    return request


def invalidation(opcode: str, wr_id: int, sges: list, key: int) -> SendWR:
    request = SendWR(wr_id, getattr(e, "IBV_WR_" + opcode), len(sges), 0, [SGE(*sge) for sge in sges],
                     e.IBV_SEND_SIGNALED)
    request.imm_data = key  # a union in C
    return request


def slot(number: int) -> int:
    """The offset of a write. The next write may arrive while this one is checked, but the one after may not."""
    return number % 2 * traffic.LARGEST


def scatter(draw: random.Random, mr: Mr, pieces: tuple[int, ...]) -> list:
    """Scatter/gather elements for pieces at random places of the buffer."""
    offsets = traffic.place(draw, pieces, mr.mr.length)
    return [[mr.mr.buf + offset, length, mr.mr.lkey] for offset, length in zip(offsets, pieces, strict=True)]


def put(mr: Mr, sges: list, data: bytes) -> None:
    begin = 0
    for address, length, _ in sges:
        mr.mr.write(data[begin:begin + length], length, address - mr.mr.buf)
        begin += length


def get(mr: Mr, sges: list) -> bytes:
    return b"".join(mr.mr.read(length, address - mr.mr.buf) for address, length, _ in sges)


def expect_success(completions: list[dict]) -> None:
    if [completion["status"] for completion in completions] != ["SUCCESS"]:
        raise RuntimeError(f"expected one success, got {completions}")
