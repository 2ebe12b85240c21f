# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Packs the few files that a VM needs before it has its root: busybox, drivers, an init script."""

import shutil
import subprocess
import tempfile
from pathlib import Path

INIT = Path(__file__).parent / "vm/initramfs/init"
MODULES = (
    "virtio_pci", "virtio_blk", "virtio_net", "ext4", "overlay", "9pnet_virtio", "9p", "vmw_vsock_virtio_transport",
    "pvpanic-pci",
)  # fmt: skip
# Not all kernels have them. ext4 asks for crc32c_generic, and does without it in newer kernels. The first network
# interface of a guest with VMware's device is a vmxnet3, which the kernels of ci/debian-kernel lack.
OPTIONAL_MODULES = ("crc32c_generic", "vmxnet3")
APPLETS = ("cat", "cp", "dd", "grep", "mkdir", "modprobe", "mount", "poweroff", "sh", "switch_root", "tar", "umount")
MOUNT_POINTS = ("base", "dev", "proc", "root", "rw", "sys")


def _names(listing: str) -> set[str]:
    """The modules of modules.dep or modules.builtin."""
    return {Path(line.partition(":")[0]).stem.replace("-", "_") for line in listing.splitlines()}


def wanted(modules_dep: str, modules_builtin: str) -> tuple[str, ...]:
    """The modules that a VM must load, in their order: not those that the kernel has built in."""
    loadable, built_in = _names(modules_dep), _names(modules_builtin)
    return (*(name for name in OPTIONAL_MODULES if name in loadable),
            *(name for name in MODULES if name.replace("-", "_") not in built_in))


def closure(modules_dep: str, names: tuple[str, ...]) -> list[str]:
    """The lines of modules.dep for the named modules and all their dependencies."""
    line_of = {line.partition(":")[0]: line for line in modules_dep.splitlines()}
    path_of = {Path(path).stem.replace("-", "_"): path for path in line_of}
    # A line names all dependencies of its module, not only the direct ones.
    lines = [line_of[path_of[name.replace("-", "_")]] for name in names]
    paths = dict.fromkeys(path for line in lines for path in line.replace(":", " ").split())
    return [line_of[path] for path in paths]


def pack(root: Path, kernel: str) -> bytes:
    """The initramfs for the image whose files are in root."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        for name in (*MOUNT_POINTS, "bin"):
            (tree / name).mkdir()
        shutil.copy(INIT, tree / "init")
        shutil.copy(root / "usr/bin/busybox", tree / "bin")
        for applet in APPLETS:
            (tree / "bin" / applet).symlink_to("busybox")
        modules = root / "lib/modules" / kernel
        names = wanted(*((modules / name).read_text(encoding="ascii") for name in ("modules.dep", "modules.builtin")))
        _copy_modules(modules, tree / "lib/modules" / kernel, names)
        (tree / "modules").write_text("\n".join(names) + "\n", encoding="ascii")
        files = "".join(f"{path.relative_to(tree)}\n" for path in sorted(tree.rglob("*")))
        return subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", "-R", "0:0"], input=files.encode(), cwd=tree,
                              stdout=subprocess.PIPE, check=True).stdout


def _copy_modules(source: Path, target: Path, names: tuple[str, ...]) -> None:
    lines = closure((source / "modules.dep").read_text(encoding="ascii"), names)
    for path in (line.partition(":")[0] for line in lines):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / path, target / path)
    (target / "modules.dep").write_text("\n".join(lines) + "\n", encoding="ascii")
