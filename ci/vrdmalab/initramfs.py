# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Packs the few files that a VM needs before it has its root: busybox, drivers, an init script."""

import stat
from pathlib import Path

INIT = Path(__file__).parent / "vm/initramfs/init"
MODULES = (
    "virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic", "ext4", "overlay", "9pnet_virtio", "9p",
    "vmw_vsock_virtio_transport", "pvpanic-pci",
)  # fmt: skip
APPLETS = ("cat", "cp", "grep", "mkdir", "modprobe", "mount", "poweroff", "sh", "switch_root", "umount")
MOUNT_POINTS = ("base", "dev", "proc", "root", "rw", "sys")


def closure(modules_dep: str, wanted: tuple[str, ...]) -> list[str]:
    """The lines of modules.dep for the wanted modules and all that they need."""
    line_of = {line.partition(":")[0]: line for line in modules_dep.splitlines()}
    path_of = {Path(path).stem.replace("-", "_"): path for path in line_of}
    # A line names all that its module needs, not only what it needs directly.
    lines = [line_of[path_of[name.replace("-", "_")]] for name in wanted]
    paths = dict.fromkeys(path for line in lines for path in line.replace(":", " ").split())
    return [line_of[path] for path in paths]


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
    lines = closure((modules / "modules.dep").read_text(), MODULES)
    files = {f"lib/modules/{kernel}/{path}": (modules / path).read_bytes()
             for path in (line.partition(":")[0] for line in lines)}
    files[f"lib/modules/{kernel}/modules.dep"] = "".join(f"{line}\n" for line in lines).encode()
    files["modules"] = "".join(f"{name}\n" for name in MODULES).encode()
    archive = Cpio()
    directories = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    for name in sorted(directories.union(MOUNT_POINTS, ["bin"])):
        archive.add(name, stat.S_IFDIR | 0o755)
    archive.add("init", stat.S_IFREG | 0o755, INIT.read_bytes())
    archive.add("bin/busybox", stat.S_IFREG | 0o755, (root / "usr/bin/busybox").read_bytes())
    for applet in APPLETS:
        archive.add(f"bin/{applet}", stat.S_IFLNK | 0o777, b"busybox")
    for name, content in files.items():
        archive.add(name, stat.S_IFREG | 0o644, content)
    return archive.finish()
