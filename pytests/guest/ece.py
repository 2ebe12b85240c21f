# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Enhanced connection establishment by librdmacm, with queue pairs that librdmacm does not know:

ece.py PORT                           answers a client's vendor and options with the same vendor, and options plus 1
ece.py PORT ADDRESS VENDOR OPTIONS    connects and prints the answer
"""

import ctypes
import os
import socket
import struct
import sys

PS_TCP = 0x106
TIMEOUT_MS = 20000

librdmacm = ctypes.CDLL("librdmacm.so.1", use_errno=True)


class Ece(ctypes.Structure):
    _fields_ = [("vendor_id", ctypes.c_uint32), ("options", ctypes.c_uint32), ("comp_mask", ctypes.c_uint32)]

    def __str__(self) -> str:
        return f"vendor {self.vendor_id:#x}, options {self.options:#x}"


class Parameters(ctypes.Structure):
    _fields_ = [("private_data", ctypes.c_void_p),
                *((name, ctypes.c_uint8) for name in ("private_data_len", "responder_resources", "initiator_depth",
                                                      "flow_control", "retry_count", "rnr_retry_count", "srq")),
                ("qp_num", ctypes.c_uint32)]  # fmt: skip


def call(function: str, *arguments) -> None:
    if getattr(librdmacm, function)(*arguments):
        raise OSError(ctypes.get_errno(), f"{function}: {os.strerror(ctypes.get_errno())}")


def new_id() -> ctypes.c_void_p:
    """Makes an id without a channel, so that each call waits for its event."""
    made = ctypes.c_void_p()
    call("rdma_create_id", None, ctypes.byref(made), None, PS_TCP)
    return made


def address(host: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, socket.inet_aton(host))


def set_local(cm_id: ctypes.c_void_p, vendor: int, options: int) -> None:
    call("rdma_set_local_ece", cm_id, ctypes.byref(Ece(vendor, options, 0)))


def remote(cm_id: ctypes.c_void_p) -> Ece:
    ece = Ece()
    call("rdma_get_remote_ece", cm_id, ctypes.byref(ece))
    return ece


def parameters(qpn: int):
    return ctypes.byref(Parameters(retry_count=7, rnr_retry_count=7, qp_num=qpn))


def answer(port: int) -> None:
    listener, connected = new_id(), ctypes.c_void_p()
    call("rdma_bind_addr", listener, address("0.0.0.0", port))
    call("rdma_listen", listener, 1)
    call("rdma_get_request", listener, ctypes.byref(connected))
    asked = remote(connected)
    set_local(connected, asked.vendor_id, asked.options + 1)
    call("rdma_accept", connected, parameters(0x222))
    print(asked)


def connect(port: int, host: str, vendor: int, options: int) -> None:
    cm_id = new_id()
    call("rdma_resolve_addr", cm_id, None, address(host, port), TIMEOUT_MS)
    call("rdma_resolve_route", cm_id, TIMEOUT_MS)
    set_local(cm_id, vendor, options)
    call("rdma_connect", cm_id, parameters(0x111))
    print(remote(cm_id))
    call("rdma_establish", cm_id)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        answer(int(sys.argv[1]))
    else:
        connect(int(sys.argv[1]), sys.argv[2], int(sys.argv[3], 0), int(sys.argv[4], 0))
