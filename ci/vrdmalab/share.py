# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Puts together the files that VMs lay over their image at boot, or on `push`.

    share/tree/          for hosts:  vm/common, vm/host, the stage's host/, files made for this lab
    share/guests/tree/   for guests: vm/common, vm/guest, the stage's guest/, the same

A host takes both by 9p and shares guests/ with its own guests in the same way. It is a copy of the
stage, so a build that runs meanwhile cannot tear it.
"""

import shutil
import subprocess
from pathlib import Path

from .errors import LabError
from .images import Image

OVERLAYS = Path(__file__).parent / "vm"
TOKEN = "usr/lib/vrdma-lab/token"
HOST_MODULE = "vrdma_mdev.ko"
GUEST_MODULE = "vrdma_ib.ko"


def assemble(share: Path, stage: Path, image: Image, hosts_file: str, token: str) -> None:
    """Fills or refills the share. QEMU holds its directory open, so only what is inside gets replaced."""
    fresh = share.with_name(share.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    for kind, tree in (("host", fresh / "tree"), ("guest", fresh / "guests/tree")):
        for source in (OVERLAYS / "common", OVERLAYS / kind, stage / kind):
            if source.is_dir():
                shutil.copytree(source, tree, symlinks=True, dirs_exist_ok=True)
        (tree / "etc/hosts").write_text(hosts_file, encoding="ascii")
        (tree / TOKEN).write_text(token, encoding="ascii")
        (tree / TOKEN).chmod(0o600)
        _index_modules(tree, image)
    share.mkdir(exist_ok=True)
    for entry in fresh.iterdir():
        shutil.rmtree(share / entry.name, ignore_errors=True)
        entry.rename(share / entry.name)
    fresh.rmdir()


def has_vrdma(share: Path) -> bool:
    """Whether the share brings both kernel modules; with one of them only, the stage is half built."""
    found = [any(share.glob(f"{tree}/lib/modules/*/**/{module}"))
             for tree, module in (("tree", HOST_MODULE), ("guests/tree", GUEST_MODULE))]
    if any(found) and not all(found):
        raise LabError(f"the stage has only one of host/…/{HOST_MODULE} and guest/…/{GUEST_MODULE}: build both")
    return all(found)


def _index_modules(tree: Path, image: Image) -> None:
    """Runs depmod here, as it takes seconds on an emulated CPU."""
    modules = tree / "lib/modules" / image.kernel
    if not modules.is_dir():
        return
    kernels_own = modules / "kernel"
    kernels_own.symlink_to(image.modules / "kernel")
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy(image.modules / name, modules)
    subprocess.run(["depmod", "-b", tree, image.kernel], check=True)
    kernels_own.unlink()
