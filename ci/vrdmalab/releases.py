# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The releases of Debian that hosts and guests run.

The kernel of the first one is in its image, and vrdma for it is in the stage. VMs of other releases boot a kernel of
ci/debian-kernel, and have the packages of ci/deb.
"""

import shutil
import subprocess
from pathlib import Path

from .errors import LabError
from .paths import PROJECT

ROOT = PROJECT / "ci/root"
OWN = "bookworm"
# The libraries that vrdmad is linked with. Their names contain their versions.
LIBRARIES = {
    "bookworm": ("libspdlog1.10", "libfmt9", "libisal2", "libcurl4"),
    "trixie": ("libspdlog1.15", "libfmt10", "libisal2", "libcurl4t64"),
    "sid": ("libspdlog1.15", "libfmt11", "libisal2", "libcurl4t64"),
}
# Debian 13's. The emulated processor of Debian 12's QEMU cannot run guests of a later one: their kernels panic.
KERNEL_SUITE = "trixie"
PACKAGES = {"host": ("vrdmad", "libvrdma1", "vrdma-run"), "guest": ("libvrdma1", "vrdma-provider", "vrdma-run")}


def kernel_directory(release: str) -> str | None:
    """The directory of the kernel that VMs of the release boot, or None if their image has it."""
    if release == OWN:
        return None
    directory = PROJECT / f"build/kernels/{KERNEL_SUITE}-lab"
    if not directory.exists():
        subprocess.run([PROJECT / "ci/debian-kernel", KERNEL_SUITE], check=True)
    return str(directory)


def unpack(release: str, kind: str, stage: Path) -> None:
    """Lays out the packages for hosts or guests of the release, as ci/build lays out its products."""
    packages = PROJECT / f"build/deb-{release}"
    if not packages.exists():
        raise LabError(f"there are no packages for {release}: make them with: ci/deb {release}")
    shutil.rmtree(stage / kind, ignore_errors=True)
    stage.mkdir(exist_ok=True)
    for name in PACKAGES[kind]:
        (package,) = packages.glob(f"{name}_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, stage / kind], check=True)
