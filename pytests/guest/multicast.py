# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Multicast groups, which pyverbs 44 does not have: calls ibv_attach_mcast(3) by ctypes, on the queue pair of a pyverbs
object."""

import ctypes
import socket
import sys

from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP

WORD = 8
# struct ibv_qp: six pointers, then handle, qp_num, state and qp_type.
NUMBER_AT = 6 * WORD + 4

libibverbs = ctypes.CDLL("libibverbs.so.1")


def pointer_of(qp: QP) -> int:
    """The struct ibv_qp that a pyverbs object points to. It is the pointer to a structure that has the queue pair's
    number at NUMBER_AT."""
    size = sys.getsizeof(qp) // WORD * WORD
    words = memoryview(ctypes.string_at(id(qp), size)).cast("Q")
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for word in words:
            try:
                memory.seek(word + NUMBER_AT)
                number = int.from_bytes(memory.read(4), sys.byteorder)
            except (OSError, ValueError, OverflowError):
                continue  # not a pointer
            if number == qp.qp_num:
                return word
    raise RuntimeError("no struct ibv_qp in the object")


def change(verb: str, qp: QP, gid: str) -> None:
    """verb is ibv_attach_mcast or ibv_detach_mcast."""
    address = ctypes.create_string_buffer(socket.inet_pton(socket.AF_INET6, gid), 16)
    error = getattr(libibverbs, verb)(ctypes.c_void_p(pointer_of(qp)), address, ctypes.c_uint16(0))
    if error:
        raise PyverbsRDMAError(f"{verb} {gid}", error)
