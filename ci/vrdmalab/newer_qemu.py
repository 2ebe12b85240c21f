# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The QEMU of the newest backports.

On the processors that Debian 12's QEMU emulates, guests with a kernel after 6.12 panic: an "XSAVE consistency problem".
This one emulates hosts with such kernels, or with such guests. It is also a client of vfio-user, which Debian 12's is
not.

It comes in a root of its own, from where the root's loader starts it with the root's libraries. So it needs no chroot,
and has this machine's files.
"""

import fcntl
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field

from .paths import PROJECT
from .progress import say

SUITE = "trixie-backports"
PACKAGES = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios")
ROOT = PROJECT / f"build/roots/{SUITE}-qemu"
LIBRARIES = ROOT / "usr/lib/x86_64-linux-gnu"
NEWEST_FOR_OWN = (6, 12)


@dataclass(frozen=True)
class Qemu:
    """How a QEMU is started."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


OWN = Qemu(("qemu-system-x86_64",))
NEWER = Qemu(
    (f"{ROOT}/lib64/ld-linux-x86-64.so.2", "--library-path", str(LIBRARIES), f"{ROOT}/usr/bin/qemu-system-x86_64",
     "-L", f"{ROOT}/usr/share/qemu", "-L", f"{ROOT}/usr/share/seabios"),
    {"QEMU_MODULE_DIR": str(LIBRARIES / "qemu")},
)  # fmt: skip


def needed(kernels: Iterable[str]) -> bool:
    """Whether some of the kernels are too new for this machine's QEMU, given their releases."""
    versions = (re.match(r"(\d+)\.(\d+)", kernel) for kernel in kernels)
    return any((int(version[1]), int(version[2])) > NEWEST_FOR_OWN for version in versions if version)


def ensure() -> None:
    """Gets it, unless it is there. Its packages are not configured, because only QEMU runs there."""
    ROOT.parent.mkdir(parents=True, exist_ok=True)
    with open(ROOT.with_name(f"{ROOT.name}.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ROOT.exists():
            return
        say(f"getting QEMU of {SUITE} (a minute)")
        subprocess.run([PROJECT / "ci/root", "make", SUITE, ROOT, "--variant=extract",
                        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
                        "--include=base-files," + ",".join(f"{name}/{SUITE}" for name in PACKAGES)], check=True)


def for_hosts(kernels: Iterable[str]) -> Qemu:
    """The QEMU that emulates hosts in a lab with these kernels."""
    if not needed(kernels):
        return OWN
    ensure()
    return NEWER
