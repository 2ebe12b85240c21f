# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Packs the few files that a VM needs before it has its root: busybox, drivers, an init script."""

import stat
from pathlib import Path

INIT = Path(__file__).parent / "vm/initramfs/init"
MODULES = (
    "virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic", "ext4", "overlay", "9pnet_virtio", "9p",
    "vmw_vsock_virtio_transport", "pvpanic-pci",
)  # fmt: skip
APPLETS = ("cat", "chroot", "grep", "insmod", "mkdir", "mount", "poweroff", "sh", "switch_root", "umount")
DIRECTORIES = ("base", "bin", "dev", "modules", "proc", "root", "rw", "sys")


def load_order(modules_dep: str, wanted: tuple[str, ...]) -> list[str]:
    """Paths of the wanted modules and all that they need, each after what it depends on."""
    needs: dict[str, list[str]] = {}
    for line in modules_dep.splitlines():
        module, _, dependencies = line.partition(":")
        needs[module] = dependencies.split()
    path_of = {Path(path).stem.replace("-", "_"): path for path in needs}
    order: list[str] = []
    for name in wanted:
        path = path_of[name.replace("-", "_")]
        # depmod lists all dependencies, the most basic one last.
        order += [module for module in [*reversed(needs[path]), path] if module not in order]
    return order


class Cpio:
    """A writer of the "newc" format, the only one that the kernel unpacks."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._inode = 0

    def add(self, name: str, mode: int, content: bytes = b"") -> None:
        self._inode += 1
        path = name.encode() + b"\0"
        links, mtime, device = 1, 0, (0, 0, 0, 0)
        fields = (self._inode, mode, 0, 0, links, mtime, len(content), *device, len(path), 0)
        self._data += b"070701" + b"".join(b"%08x" % field for field in fields) + path
        self._pad()
        self._data += content
        self._pad()

    def finish(self) -> bytes:
        self.add("TRAILER!!!", 0)
        return bytes(self._data)

    def _pad(self) -> None:
        self._data += bytes(-len(self._data) % 4)


def pack(root: Path, kernel: str) -> bytes:
    """The initramfs for the image whose files are in root."""
    modules = root / "lib/modules" / kernel
    order = load_order((modules / "modules.dep").read_text(), MODULES)
    archive = Cpio()
    for name in DIRECTORIES:
        archive.add(name, stat.S_IFDIR | 0o755)
    archive.add("init", stat.S_IFREG | 0o755, INIT.read_bytes())
    archive.add("bin/busybox", stat.S_IFREG | 0o755, (root / "usr/bin/busybox").read_bytes())
    for applet in APPLETS:
        archive.add(f"bin/{applet}", stat.S_IFLNK | 0o777, b"busybox")
    for module in order:
        archive.add(f"modules/{Path(module).name}", stat.S_IFREG | 0o644, (modules / module).read_bytes())
    listing = "".join(f"{Path(module).name}\n" for module in order)
    archive.add("modules/order", stat.S_IFREG | 0o644, listing.encode())
    return archive.finish()
