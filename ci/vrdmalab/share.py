# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Assembles the files that VMs copy over their image at boot, or on `push`.

    share/tree/                  for hosts:  vm/common, vm/host, the hosts' stage, files made for this lab
    share/guests/RELEASE/tree/   for guests: vm/common, vm/guest, the guests' stage, files made for this lab

If a VM does not boot the image's kernel, its tree has the modules of its kernel. The hosts' tree has the kernels that
guests boot, in boot/RELEASE, unless they are on the hosts' disk. Beside each tree is tree.tar, which VMs read: a host
reads all by 9p, and shares a directory with guests' tree.tar with each guest in the same way. The trees are copies, so
that a build can run meanwhile.
"""

import hashlib
import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError
from .kernels import Kernel

OVERLAYS = Path(__file__).parent / "vm"
AGENT = Path(__file__).parent / "agent/agent.c"
PRELOAD = Path(__file__).parent / "agent/kvm_run.c"
LAB_FILES = "usr/lib/vrdma-lab"
MEDIATOR_CONFIG = "etc/vrdma/vrdmad.conf"
# The unit's drop-in for uplinks: where it is installed, and where it takes effect.
UPLINK_DROP_IN = "/usr/share/vrdma/uplink.conf"
DROP_INS = "etc/systemd/system/vrdmad.service.d"
HOST_MODULE = "vrdma_mdev.ko"
GUEST_MODULE = "vrdma_ib.ko"


@dataclass(frozen=True)
class System:
    """What hosts, or guests of one release, boot, and the directory of vrdma's files for them. Guests with another
    driver have none."""

    kernel: Kernel
    stage: Path | None
    driver: Path | None = None


def assemble(share: Path, host: System, guests: dict[str, System], agent: Path, preload: Path,
             hosts_file: str, token: str, mediator_config: str = "", kernel_on_disk: bool = True) -> None:
    """Fills or refills the share, for guests by release. QEMU holds its directory open, so only its contents are
    replaced."""
    fresh = share.with_name(share.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    trees = [("host", fresh / "tree", host)]
    trees += [("guest", fresh / _guests_tree(release), guest) for release, guest in guests.items()]
    for kind, tree, system in trees:
        for source in (OVERLAYS / "common", OVERLAYS / kind, system.stage):
            if source and source.is_dir():
                shutil.copytree(source, tree, symlinks=True, dirs_exist_ok=True)
        (tree / "etc/hosts").write_text(hosts_file, encoding="ascii")
        shutil.copy(agent, tree / LAB_FILES / "agent")
        (tree / LAB_FILES / "token").write_text(token, encoding="ascii")
        (tree / LAB_FILES / "token").chmod(0o600)
        _merge_usr(tree)
        _strip_modules(tree)
        _add_driver(tree, system)
        _lay_modules(tree, system.kernel)
    for release, guest in guests.items():
        _lay_boot_files(fresh / "tree/boot" / release, guest.kernel, kernel_on_disk)
    shutil.copy(preload, fresh / "tree" / LAB_FILES / PRELOAD.with_suffix(".so").name)
    if mediator_config:
        _write(fresh / "tree" / MEDIATOR_CONFIG, mediator_config)
    if "[[uplink]]" in mediator_config:
        (fresh / "tree" / DROP_INS).mkdir(parents=True)
        (fresh / "tree" / DROP_INS / "uplink.conf").symlink_to(UPLINK_DROP_IN)
    for _, tree, _ in trees:
        with tarfile.open(tree.with_name(f"{tree.name}.tar"), "w") as archive:
            archive.add(tree, ".")
    share.mkdir(exist_ok=True)
    for entry in fresh.iterdir():
        if entry.is_dir():
            shutil.rmtree(share / entry.name, ignore_errors=True)
        entry.rename(share / entry.name)
    fresh.rmdir()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


def build_agent(cache: Path) -> Path:
    """Compiles the agent statically, because it has to start fast, and before other files exist."""
    return _compiled(cache, AGENT, "-static")


def build_preload(cache: Path) -> Path:
    return _compiled(cache, PRELOAD, "-shared", "-fPIC", "-D_GNU_SOURCE")


def _compiled(cache: Path, source: Path, *options: str) -> Path:
    binary = cache / f"{source.stem}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    if not binary.exists():
        fresh = binary.with_suffix(f".{os.getpid()}")
        subprocess.run(["gcc", "-std=c11", "-O2", "-Wall", "-Wextra", *options, "-s", "-o", fresh, source], check=True)
        for stale in cache.glob(f"{source.stem}-????????????????"):
            stale.unlink(missing_ok=True)
        fresh.rename(binary)
    return binary


def _merge_usr(tree: Path) -> None:
    """Moves directories below /usr: on Debian /lib and others are links into /usr, and must not be replaced."""
    for name in ("bin", "sbin", "lib", "lib64"):
        if (tree / name).is_dir():
            shutil.copytree(tree / name, tree / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(tree / name)


def _strip_modules(tree: Path) -> None:
    """Removes debugging information, which is ten times as large as the rest. An emulated CPU copies it twice."""
    for module in (HOST_MODULE, GUEST_MODULE):
        for path in (tree / "usr/lib/modules").rglob(module):
            subprocess.run(["strip", "--strip-debug", path], check=True)


def _add_driver(tree: Path, system: System) -> None:
    if system.driver:
        updates = tree / "usr/lib/modules" / system.kernel.release / "updates"
        updates.mkdir(parents=True, exist_ok=True)
        shutil.copy(system.driver, updates)


def _guests_tree(release: str) -> str:
    return f"guests/{release}/tree"


def has_vrdma(share: Path, host: System, guests: dict[str, System]) -> bool:
    """Whether the share has the kernel modules. With only some of them, the build is incomplete. Guests with another
    driver need none."""
    wanted = [(_guests_tree(release), guest, GUEST_MODULE) for release, guest in guests.items() if not guest.driver]
    if not wanted:
        return True
    wanted.append(("tree", host, HOST_MODULE))
    found = [any(share.glob(f"{tree}/usr/lib/modules/{system.kernel.release}/**/{module}"))
             for tree, system, module in wanted]
    if any(found) and not all(found):
        raise LabError(f"there is only one of {HOST_MODULE} for hosts and {GUEST_MODULE} for guests: build both")
    return all(found)


def _lay_boot_files(boot: Path, kernel: Kernel, kernel_on_disk: bool) -> None:
    """Copies the kernel's boot files to where hosts boot guests from, or makes that the place where the image has them.
    """
    boot.parent.mkdir(exist_ok=True)
    if kernel.in_image and kernel_on_disk:
        boot.symlink_to(".")
        return
    boot.mkdir()
    shutil.copy(kernel.vmlinux, boot / "vmlinux")
    shutil.copy(kernel.initrd, boot / "initrd.img")


def _lay_modules(tree: Path, kernel: Kernel) -> None:
    """Runs depmod here, because it takes seconds on an emulated CPU."""
    modules = tree / "usr/lib/modules" / kernel.release
    if not kernel.in_image:
        shutil.copytree(kernel.modules, modules, dirs_exist_ok=True)
        subprocess.run(["depmod", "-b", tree / "usr", kernel.release], check=True)
        return
    if not modules.is_dir():
        return
    kernels_own = modules / "kernel"
    kernels_own.symlink_to(kernel.modules / "kernel")
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy(kernel.modules / name, modules)
    subprocess.run(["depmod", "-b", tree / "usr", kernel.release], check=True)
    kernels_own.unlink()
