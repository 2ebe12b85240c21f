# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The QEMU of the newest backports. It is a client of vfio-user, which Debian 12's QEMU is not.

It comes in a root of its own, from where the root's loader starts it with the root's libraries. So it needs no chroot,
and has this machine's files.
"""

import fcntl
import subprocess
from dataclasses import dataclass, field

from .paths import PROJECT
from .progress import say

SUITE = "trixie-backports"
PACKAGES = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios")
ROOT = PROJECT / f"build/roots/{SUITE}-qemu"
LIBRARIES = ROOT / "usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Qemu:
    """How a QEMU is started."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


NEWER = Qemu(
    (f"{ROOT}/lib64/ld-linux-x86-64.so.2", "--library-path", str(LIBRARIES), f"{ROOT}/usr/bin/qemu-system-x86_64",
     "-L", f"{ROOT}/usr/share/qemu", "-L", f"{ROOT}/usr/share/seabios"),
    {"QEMU_MODULE_DIR": str(LIBRARIES / "qemu")},
)  # fmt: skip


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
