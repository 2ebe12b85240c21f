# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Builds the disk images that hosts and guests boot from, and keeps them.

There is one image for both: mmdebstrap runs only once, and a host can pass its own disk on to its
guests. It contains only Debian packages. Files that change with the project (agent, init, vrdma's build
products) reach the VMs at boot through share.py. An image of another release of Debian has no kernel:
see releases.py.
"""

import fcntl
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import initramfs, newer_qemu
from .errors import LabError
from .progress import say
from .releases import LIBRARIES, OWN, ROOT

# Guests that move need VFIO's migration protocol 2, which QEMU 7.2 does not have. A newer QEMU is installed beside it.
# In Debian 13's image it is that of its backports, for hosts with their kernel.
NEWER_MONITOR = ("qemu-system-x86", "qemu-system-common", "qemu-system-data")
NEWER_SUITE = f"{OWN}-backports"
NEWER_ROOT = "opt/qemu"
PACKAGES = (
    "busybox-static", "iproute2", "kmod", "mount", "netbase", "procps", "psmisc", "python3", "systemd", "udev",
    "qemu-system-x86", "mdevctl", "libvirt-daemon", "libvirt-clients",
    "rdma-core", "ibverbs-utils", "ibverbs-providers", "perftest", "rdmacm-utils", "python3-pyverbs",
    "libfabric-bin", "nfs-kernel-server", "ucx-utils", "ethtool", "iputils-ping", "pciutils", "strace", "tcpdump",
)  # fmt: skip
# The newer QEMU looks for modules in the same directory, and aborts when it finds those of the older one. libvirt makes
# it look for all. The older one needs only those for TCG, which libvirt asks about as well.
UNUSED_MODULES = ("/usr/lib/x86_64-linux-gnu/qemu/[!a]*", "/usr/lib/x86_64-linux-gnu/qemu/audio-*")
UNUSED_FILES = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*", *UNUSED_MODULES)
UNUSED_DRIVERS = (
    "drivers/ata", "drivers/gpu", "drivers/hid", "drivers/hwmon", "drivers/iio", "drivers/input", "drivers/md",
    "drivers/media", "drivers/net/ethernet", "drivers/net/wireless", "drivers/platform",
    "drivers/scsi/*/*", "drivers/staging", "drivers/usb", "sound",
)  # fmt: skip
KEPT_IMAGES = 5
SPARE_BYTES = 64 << 20


@dataclass(frozen=True)
class Image:
    """The files of one image, all in one directory of the cache."""

    directory: Path
    kernel: str

    @property
    def vmlinux(self) -> Path:
        return self.directory / "vmlinux"

    @property
    def initrd(self) -> Path:
        return self.directory / "initrd.img"

    @property
    def disk(self) -> Path:
        return self.directory / "root.img"

    @property
    def modules(self) -> Path:
        """The kernel's own modules as in the image, for depmod."""
        return self.directory / "modules"


def kernel_version() -> str:
    """The kernel of the installed headers, for which the project's modules are built."""
    depends = subprocess.run(["dpkg-query", "-W", "-f=${Depends}", "linux-headers-amd64"], check=True,
                             capture_output=True, text=True).stdout
    match = re.search(r"linux-headers-(\S+)", depends)
    if not match:
        raise LabError(f"linux-headers-amd64 depends on no headers: {depends}")
    return match[1]


def ensure(cache: Path, packages: tuple[str, ...]) -> Image:
    """Returns the image with these packages. It is built first unless it is in the cache."""
    kernel = kernel_version()
    image = Image(_directory(cache, OWN, kernel, packages), kernel)
    with _kept(cache, image.directory) as missing:
        if missing:
            _build(image, _wanted(OWN, packages))
    return image


def ensure_disk(cache: Path, release: str, packages: tuple[str, ...]) -> Path:
    """Returns the disk of another release of Debian. It is built first unless it is in the cache."""
    image = Image(_directory(cache, release, "", packages), "")
    with _kept(cache, image.directory) as missing:
        if missing:
            _build_disk(image, release, _wanted(release, packages))
    return image.disk


def _wanted(release: str, packages: tuple[str, ...]) -> list[str]:
    return sorted({*PACKAGES, *LIBRARIES[release], *packages})


def _directory(cache: Path, release: str, kernel: str, packages: tuple[str, ...]) -> Path:
    recipe = [Path(__file__), Path(initramfs.__file__), initramfs.INIT]
    key = hashlib.sha256("\n".join([release, kernel, *_wanted(release, packages)]).encode() +
                         b"".join(file.read_bytes() for file in recipe))
    return cache / f"image-{key.hexdigest()[:16]}"


@contextmanager
def _kept(cache: Path, directory: Path) -> Iterator[bool]:
    """Locks the cache. Gives whether the image is missing and has to be built."""
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = not directory.exists()
        yield missing
        if missing:
            _forget_old(cache, directory)
        os.utime(directory)


@contextmanager
def _made(directory: Path) -> Iterator[tuple[Path, Path]]:
    """Gives a root and a directory for files of the image. Adds a disk of the root, and puts all where it belongs."""
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="building-") as scratch:
        root, result = Path(scratch, "root"), Path(scratch, "image")
        result.mkdir()
        yield root, result
        _make_disk(root, result / "root.img")
        result.rename(directory)
    say(f"built {directory.name}")


def _build(image: Image, packages: list[str]) -> None:
    say(f"building an image for Linux {image.kernel} from {len(packages)} Debian packages (a minute or two)")
    with _made(image.directory) as (root, result):
        _make_root(OWN, root, packages)
        _install_kernel(root, image.kernel, root.parent)
        _install_newer_monitor(root, root.parent / "monitor")
        boot = root / "boot"
        (boot / "vmlinux").write_bytes(_decompress((boot / f"vmlinuz-{image.kernel}").read_bytes()))
        (boot / f"vmlinuz-{image.kernel}").unlink()
        (boot / "initrd.img").write_bytes(initramfs.pack(root, image.kernel))
        for name in ("vmlinux", "initrd.img"):
            shutil.copy(boot / name, result)
        shutil.copytree(root / "lib/modules" / image.kernel, result / "modules")


def _build_disk(image: Image, release: str, packages: list[str]) -> None:
    say(f"building an image of Debian's {release} from {len(packages)} packages (a minute or two)")
    with _made(image.directory) as (root, _):
        _make_root(release, root, packages)
        if f"{release}-backports" == newer_qemu.SUITE:
            newer_qemu.ensure()
            _put_newer_monitor(root, newer_qemu.ROOT)


def _make_root(release: str, root: Path, packages: list[str]) -> None:
    _run([ROOT, "make", release, root, "--variant=essential", "--include=" + ",".join(packages),
          *(f"--dpkgopt=path-exclude={pattern}" for pattern in UNUSED_FILES)])


def _install_kernel(root: Path, kernel: str, scratch: Path) -> None:
    """Unpacks the kernel without installing it, which would build an unused initramfs."""
    say(f"adding Linux {kernel}")
    _run(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", f"linux-image-{kernel}"], cwd=scratch)
    (package,) = scratch.glob("linux-image-*.deb")
    unused = [f"--exclude=./lib/modules/{kernel}/kernel/{path}" for path in UNUSED_DRIVERS]
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as source:
        _run(["tar", "-x", "-C", root, "--keep-directory-symlink", *unused, "./boot", "./lib/modules"],
             stdin=source.stdout)
    _run(["depmod", "-b", root, kernel])


def _install_newer_monitor(root: Path, scratch: Path) -> None:
    """Gets it from this machine's mirror, with separate lists, because the machine's apt knows only one suite."""
    say(f"adding QEMU of {NEWER_SUITE}")
    mirror = _run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", f"Codename: {OWN}"])
    for directory in ("lists/partial", "cache/archives/partial", "files"):
        (scratch / directory).mkdir(parents=True)
    sources = scratch / "sources.list"
    sources.write_text(f"deb {mirror.split()[0]} {NEWER_SUITE} main\n", encoding="ascii")
    apt = ["apt-get", "-qq", "-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null",
           "-o", f"Dir::State::Lists={scratch}/lists", "-o", f"Dir::Cache={scratch}/cache",
           "-o", "APT::Sandbox::User=root"]  # fmt: skip
    _run([*apt, "update"])
    _run([*apt, "download", *(f"{package}/{NEWER_SUITE}" for package in NEWER_MONITOR)], cwd=scratch)
    for package in scratch.glob("*.deb"):
        _run(["dpkg-deb", "-x", package, scratch / "files"])
    _put_newer_monitor(root, scratch / "files")


def _put_newer_monitor(root: Path, files: Path) -> None:
    for path in ("usr/bin/qemu-system-x86_64", "usr/share/qemu"):
        destination = root / NEWER_ROOT / path
        destination.parent.mkdir(parents=True, exist_ok=True)
        _run(["cp", "-a", files / path, destination])
    # It looks for all its files beside its own place, and its BIOS is of another package.
    (root / NEWER_ROOT / "usr/share/seabios").symlink_to("/usr/share/seabios")


def _decompress(bzimage: bytes) -> bytes:
    """The ELF kernel inside a bzImage. Booting it by PVH saves the decompression on an emulated CPU."""
    start = bzimage.find(b"\xfd7zXZ\0")
    if start < 0:
        raise LabError("the kernel is not compressed with xz, as Debian 12's are")
    return lzma.LZMADecompressor().decompress(bzimage[start:])


def _make_disk(root: Path, disk: Path) -> None:
    """Makes a file system without a journal, because it is never written to."""
    say("making the disk")
    used = int(_run(["du", "-s", "-B1", root]).split()[0])
    with open(disk, "wb") as file:
        file.truncate(used + used // 8 + SPARE_BYTES)
    _run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", root, disk])


def _run(command: list[str | Path], **options: Any) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **options)
    if done.returncode:
        raise LabError(f"{command[0]} failed: {done.stderr.strip()}")
    return done.stdout


def _forget_old(cache: Path, current: Path) -> None:
    """Deletes all but the images used last. A running VM keeps its open files."""
    images = sorted(cache.glob("image-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in images[KEPT_IMAGES:]:
        if path != current:
            shutil.rmtree(path)
