# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Objects of libibverbs by its C functions, for calls that pyverbs prevents: to destroy objects in use, and to name
objects that are gone or belong to another context."""

import ctypes
import os
import struct
from collections.abc import Callable

from pyverbs.base import PyverbsCM
from pyverbs.cq import CQ
from pyverbs.pyverbs_error import PyverbsRDMAError

from remotable import Remotable

# Use the scope of all libraries, in which preloaded ones come first.
ctypes.CDLL("libibverbs.so.1", mode=ctypes.RTLD_GLOBAL)
verbs = ctypes.CDLL(None, use_errno=True)

NEEDS = {"pd": (), "cq": (), "dm": (), "xrcd": (), "mr": ("pd",), "ah": ("pd",), "srq": ("pd",),
         "qp": ("pd", "cq", "srq"),
         "dm_mr": ("pd", "dm"), "xrc_srq": ("pd", "cq", "xrcd"), "xrc_qp": ("xrcd",)}
DESTROY = {"pd": "ibv_dealloc_pd", "mr": "ibv_dereg_mr", "dm_mr": "ibv_dereg_mr", "xrc_srq": "ibv_destroy_srq",
           "xrc_qp": "ibv_destroy_qp", "dm": "free_dm", "xrcd": "close_xrcd"}
# Functions that programs call by inline functions are the driver's. These are the offsets of their addresses from the
# context.
INLINE = {"alloc_dm": -256, "reg_dm_mr": -264, "free_dm": -248, "open_xrcd": -32, "close_xrcd": -24,
          "create_srq_ex": -40,
          "create_qp_ex": -56, "modify_cq": -184}
OF_CONTEXT = ("alloc_dm", "open_xrcd", "create_srq_ex", "create_qp_ex")
# Offsets of the handles in the objects. A driver in user space knows a QP by its number, which follows the handle.
HANDLES = {"pd": (8,), "cq": (24,), "srq": (24,), "mr": (32,), "qp": (48, 52)}
RC, XRC_RECV = 2, 10
XRC_SRQ = 1
FD_AND_FLAGS, TYPE_TO_CQ, OF_XRCD = 3, 15, 2  # masks of the attributes given for XRC objects
LOCAL_WRITE, ZERO_BASED = 1, 32
RESET = 0
QP_STATE, SRQ_LIMIT = 1, 2
LARGE = 512  # bytes; larger than any structure of attributes


class SrqInit(ctypes.Structure):
    _fields_ = [("srq_context", ctypes.c_void_p), ("max_wr", ctypes.c_uint32), ("max_sge", ctypes.c_uint32),
                ("srq_limit", ctypes.c_uint32)]


class QpInit(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_void_p) for name in ("qp_context", "send_cq", "recv_cq", "srq")),
                *((name, ctypes.c_uint32) for name in ("max_send_wr", "max_recv_wr", "max_send_sge", "max_recv_sge",
                                                       "max_inline_data")),
                ("qp_type", ctypes.c_int), ("sq_sig_all", ctypes.c_int)]  # fmt: skip


class DmInit(ctypes.Structure):
    _fields_ = [("length", ctypes.c_size_t), ("log_align", ctypes.c_uint32), ("mask", ctypes.c_uint32)]


class XrcdInit(ctypes.Structure):
    _fields_ = [("mask", ctypes.c_uint32), ("fd", ctypes.c_int), ("oflags", ctypes.c_int)]


class XrcSrqInit(ctypes.Structure):
    _fields_ = [*SrqInit._fields_, ("mask", ctypes.c_uint32), ("type", ctypes.c_int),
                *((name, ctypes.c_void_p) for name in ("pd", "xrcd", "cq", "tags"))]  # fmt: skip


class XrcQpInit(ctypes.Structure):
    _fields_ = [*QpInit._fields_, ("mask", ctypes.c_uint32), ("pd", ctypes.c_void_p), ("xrcd", ctypes.c_void_p),
                ("others", ctypes.c_uint64 * 7)]  # fmt: skip


class AhAttr(ctypes.Structure):
    _fields_ = [("dgid", ctypes.c_uint64 * 2), ("flow_label", ctypes.c_uint32), ("sgid_index", ctypes.c_uint8),
                ("hop_limit", ctypes.c_uint8), ("traffic_class", ctypes.c_uint8), ("padding", ctypes.c_uint8),
                ("dlid", ctypes.c_uint16), ("sl", ctypes.c_uint8), ("src_path_bits", ctypes.c_uint8),
                ("static_rate", ctypes.c_uint8), ("is_global", ctypes.c_uint8), ("port_num", ctypes.c_uint8)]


def address(pointed: ctypes.c_void_p) -> int:
    if pointed.value is None:
        raise ValueError("a null pointer")
    return pointed.value


def word(at: int) -> int:
    """The address that is stored there."""
    return address(ctypes.c_void_p.from_address(at))


def find(function: str, first: ctypes.c_void_p):
    """A function of the library, or of the driver. The driver's comes from the first argument: a context, or an object
    that begins with its context's address."""
    if function not in INLINE:
        return getattr(verbs, function)
    context = address(first) if function in OF_CONTEXT else word(address(first))
    return ctypes.CFUNCTYPE(ctypes.c_int, use_errno=True)(word(context + INLINE[function]))


def pointer(function: str, *args) -> int:
    call = find(function, args[0])
    call.restype = ctypes.c_void_p
    made = call(*args)
    if not made:
        raise PyverbsRDMAError(function, ctypes.get_errno())
    return made


def check(function: str, *args) -> None:
    error = find(function, args[0])(*args)
    if error:
        raise PyverbsRDMAError(function, error)


def modify_cq(cq: CQ, mask: int, count: int, period: int) -> None:
    """Moderates a CQ, which pyverbs does not. The first field of the Python object's own is its pointer to the CQ."""
    base = ctypes.c_void_p.from_address(id(cq) + PyverbsCM.__basicsize__)
    check("modify_cq", base, struct.pack("=IHH", mask, count, period))


class Raw(Remotable):
    """A context with at most one object of each kind, which calls name by its kind."""

    def __init__(self, device: str) -> None:
        devices = pointer("ibv_get_device_list", None)
        each = ctypes.cast(devices, ctypes.POINTER(ctypes.c_void_p))
        name = verbs.ibv_get_device_name
        name.restype = ctypes.c_char_p
        found = next(each[i] for i in range(64) if name(ctypes.c_void_p(each[i])) == device.encode())
        self._context = ctypes.c_void_p(pointer("ibv_open_device", ctypes.c_void_p(found)))
        verbs.ibv_free_device_list(ctypes.c_void_p(devices))
        self._made: dict[str, ctypes.c_void_p] = {}
        self._page = ctypes.create_string_buffer(2 * os.sysconf("SC_PAGESIZE"))

    def make(self, kind: str) -> None:
        """Makes an object and the objects that it needs, unless it exists."""
        for need in NEEDS[kind]:
            if need not in self._made:
                self.make(need)
        self._made[kind] = ctypes.c_void_p(self._makers()[kind]())

    def _makers(self) -> dict[str, Callable[[], int]]:
        made = self._made.get
        return {
            "pd": lambda: pointer("ibv_alloc_pd", self._context),
            "cq": lambda: pointer("ibv_create_cq", self._context, 16, None, None, 0),
            "mr": lambda: pointer("ibv_reg_mr", made("pd"), self._page, ctypes.c_size_t(4096), LOCAL_WRITE),
            "ah": lambda: pointer("ibv_create_ah", made("pd"), ctypes.byref(self._own_address())),
            "srq": lambda: pointer("ibv_create_srq", made("pd"), ctypes.byref(SrqInit(None, 16, 1, 0))),
            "qp": lambda: pointer("ibv_create_qp", made("pd"), ctypes.byref(QpInit(
                None, made("cq"), made("cq"), made("srq"), 16, 0, 1, 0, 0, RC, 0))),
            "dm": lambda: pointer("alloc_dm", self._context, ctypes.byref(DmInit(4096))),
            "dm_mr": lambda: pointer("reg_dm_mr", made("pd"), made("dm"), ctypes.c_uint64(0), ctypes.c_size_t(4096),
                                     LOCAL_WRITE | ZERO_BASED),
            "xrcd": lambda: pointer("open_xrcd", self._context, ctypes.byref(XrcdInit(FD_AND_FLAGS, -1, os.O_CREAT))),
            "xrc_srq": lambda: pointer("create_srq_ex", self._context, ctypes.byref(XrcSrqInit(
                None, 16, 1, 0, TYPE_TO_CQ, XRC_SRQ, made("pd"), made("xrcd"), made("cq")))),
            "xrc_qp": lambda: pointer("create_qp_ex", self._context, ctypes.byref(XrcQpInit(
                qp_type=XRC_RECV, mask=OF_XRCD, xrcd=made("xrcd")))),
        }  # fmt: skip

    def _own_address(self) -> AhAttr:
        attr = AhAttr(sgid_index=1, hop_limit=64, is_global=1, port_num=1)
        check("ibv_query_gid", self._context, 1, 1, ctypes.byref(attr))
        return attr

    def again(self, kind: str) -> None:
        """Makes another object of a kind, independent of the first, and destroys it. Fails if the call fails."""
        first = self._made.pop(kind, None)
        try:
            self.make(kind)
            self.destroy(kind)
        finally:
            if first:
                self._made[kind] = first

    def use(self, verb: str, mask: int | None = None) -> None:
        """Calls a verb that changes or asks nothing of the object, except that it must exist. A mask is that of
        attributes, or of rights."""
        made = self._made.get
        attr, init = (ctypes.create_string_buffer(LARGE) for _ in range(2))
        {
            "resize_cq": lambda: check("ibv_resize_cq", made("cq"), 16),
            "modify_srq": lambda: check("ibv_modify_srq", made("srq"), attr, mask or SRQ_LIMIT),
            "query_srq": lambda: check("ibv_query_srq", made("srq"), attr),
            "modify_qp": lambda: check("ibv_modify_qp", made("qp"), attr, mask or QP_STATE),
            "query_qp": lambda: check("ibv_query_qp", made("qp"), attr, QP_STATE, init),
            "reg_mr": lambda: check("ibv_dereg_mr", ctypes.c_void_p(pointer(
                "ibv_reg_mr", made("pd"), self._page, ctypes.c_size_t(4096), mask or LOCAL_WRITE))),
            "reg_dmabuf_mr": lambda: pointer("ibv_reg_dmabuf_mr", made("pd"), ctypes.c_uint64(0), ctypes.c_size_t(4096),
                                             ctypes.c_uint64(0), 0, LOCAL_WRITE),
        }[verb]()  # fmt: skip

    def destroy(self, kind: str) -> None:
        check(DESTROY.get(kind, f"ibv_destroy_{kind}"), self._made[kind])
        del self._made[kind]

    def handle(self, kind: str) -> int:
        return ctypes.c_uint32.from_address(address(self._made[kind]) + HANDLES[kind][0]).value

    def old_handle(self, kind: str) -> int:
        """The handle of an object that was made and destroyed."""
        first = self._made.pop(kind, None)
        self.make(kind)
        old = self.handle(kind)
        self.destroy(kind)
        if first:
            self._made[kind] = first
        return old

    def set_handle(self, kind: str, handle: int) -> None:
        for offset in HANDLES[kind]:
            ctypes.c_uint32.from_address(address(self._made[kind]) + offset).value = handle

    def close(self) -> None:
        for kind in [each for each in reversed(NEEDS) if each in self._made]:
            self.destroy(kind)
        check("ibv_close_device", self._context)
