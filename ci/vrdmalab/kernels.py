# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The kernels that hosts and guests boot: the image's, or one from a directory.

    DIRECTORY/vmlinux
    DIRECTORY/lib/modules/RELEASE/    its modules, vrdma's in extra/, as `make modules_install` lays them out

The image is not changed, so the share brings the files that such a kernel needs.
"""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import initramfs
from .errors import LabError
from .images import Image


@dataclass(frozen=True)
class Kernel:
    release: str
    vmlinux: Path
    initrd: Path
    modules: Path
    in_image: bool


def of_image(image: Image) -> Kernel:
    return Kernel(image.kernel, image.vmlinux, image.initrd, image.modules, in_image=True)


def choose(directory: str | None, image: Image, initrd: Path) -> Kernel:
    """The kernel of the directory, or the image's if there is none. The initrd is packed there unless it exists."""
    if not directory:
        return of_image(image)
    found = [*Path(directory).glob("lib/modules/*/modules.dep")]
    if len(found) != 1 or not Path(directory, "vmlinux").exists():
        raise LabError(f"no vmlinux with the modules of one release in {directory}")
    modules = found[0].parent
    if not initrd.exists():
        _pack(image, modules, initrd)
    return Kernel(modules.name, Path(directory, "vmlinux"), initrd, modules, in_image=False)


def _pack(image: Image, modules: Path, initrd: Path) -> None:
    """Packs the image's initrd with other modules."""
    with tempfile.TemporaryDirectory() as scratch, open(image.initrd, "rb") as original:
        root = Path(scratch)
        (root / "lib/modules").mkdir(parents=True)
        (root / "lib/modules" / modules.name).symlink_to(modules)
        subprocess.run(["cpio", "-id", "--quiet", "bin/busybox"], stdin=original, cwd=root, check=True)
        (root / "usr").mkdir()
        (root / "bin").rename(root / "usr/bin")
        initrd.write_bytes(initramfs.pack(root, modules.name))
