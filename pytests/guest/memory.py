# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Device memory, and memory that a test maps and unmaps in its process, for endpoints.py."""

import ctypes
import mmap
import os
import zlib

from constants import e
from pyverbs.device import DM, AllocDmAttr, Context
from pyverbs.mr import DMMR, MR
from pyverbs.pd import PD
from pyverbs.wr import SGE

from remotable import Remotable


class Dm(Remotable):
    def __init__(self, context: Context, length: int, log_align: int = 0, handle: int | None = None) -> None:
        self.dm = DM(context, AllocDmAttr(length, log_align)) if handle is None else DM(context, handle=handle)
        self.length = length

    def fields(self) -> dict:
        return {"length": self.length, "handle": self.dm.handle}

    def read(self, offset: int, length: int) -> str:
        return self.dm.copy_from_dm(offset, length).hex()

    def write(self, offset: int, data: str) -> None:
        self.dm.copy_to_dm(offset, bytes.fromhex(data), len(data) // 2)

    def close(self) -> None:
        self.dm.close()


class DmMr(Remotable):
    """A region of device memory, whose addresses begin at 0."""

    def __init__(self, pd: PD, dm: Dm, offset: int, length: int, access: int) -> None:
        self.mr = DMMR(pd, length, access | e.IBV_ACCESS_ZERO_BASED, dm.dm, offset)

    def fields(self) -> dict:
        return {"addr": 0, "length": self.mr.length, "lkey": self.mr.lkey, "rkey": self.mr.rkey}

    def close(self) -> None:
        self.mr.close()


libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for function in (libc.munmap, libc.mprotect, libc.madvise):
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int][: 2 if function is libc.munmap else 3]


def check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Memory(Remotable):
    """Private memory that has not been touched."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.addr = self._map(None, length, 0)

    @staticmethod
    def _map(address: int | None, length: int, flags: int) -> int:
        map_noreserve = 0x4000
        flags |= mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | map_noreserve
        mapped = libc.mmap(address, length, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        check(mapped == ctypes.c_void_p(-1).value)
        return mapped

    def fields(self) -> dict:
        return {"addr": self.addr, "length": self.length}

    def read(self, offset: int, length: int) -> str:
        return ctypes.string_at(self.addr + offset, length).hex()

    def write(self, offset: int, data: str) -> None:
        ctypes.memmove(self.addr + offset, bytes.fromhex(data), len(data) // 2)

    def fill(self, length: int) -> None:
        ctypes.memset(self.addr, 0xdb, length)

    def checksum(self) -> int:
        return zlib.crc32(ctypes.string_at(self.addr, self.length))

    def unmap(self, offset: int, length: int) -> None:
        check(libc.munmap(self.addr + offset, length))

    def map_again(self, offset: int, length: int) -> None:
        """Maps other memory in the place of a part."""
        map_fixed = 0x10
        self._map(self.addr + offset, length, map_fixed)

    def protect_against_writes(self) -> None:
        check(libc.mprotect(self.addr, self.length, mmap.PROT_READ))

    def use_small_pages(self) -> None:
        """Memory that is touched later has pages of 4 KiB, so its list of pages is as long as it can be."""
        check(libc.madvise(self.addr, self.length, 15))  # MADV_NOHUGEPAGE

    def give_back(self, offset: int, length: int) -> None:
        check(libc.madvise(self.addr + offset, length, mmap.MADV_DONTNEED))


class UserMr(Remotable):
    """A region of memory that it does not own, or of the whole address space."""

    def __init__(self, pd: PD, address: int | None, length: int, access: int) -> None:
        self.mr = MR(pd, length, access, address=address, implicit=address is None)

    def fields(self) -> dict:
        return {"lkey": self.mr.lkey, "rkey": self.mr.rkey}

    def close(self) -> None:
        self.mr.close()


def advise(pd: PD, advice: str, sges: list, flags: int) -> None:
    pd.advise_mr(getattr(e, "_IBV_ADVISE_MR_ADVICE_" + advice), flags, [SGE(*sge) for sge in sges])
