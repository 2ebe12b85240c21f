# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Assembles the files that VMs copy over their image at boot, or on `push`.

    share/tree/          for hosts:  vm/common, vm/host, the hosts' stage, files made for this lab
    share/guests/tree/   for guests: vm/common, vm/guest, the guests' stage, files made for this lab

If a VM does not boot the image's kernel, its tree has the modules of its kernel. The hosts' tree has the kernel that
guests boot, unless it is on the hosts' disk. A host reads both trees by 9p, and shares guests/ with its guests in the
same way. The trees are copies, so that a build can run meanwhile.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from .errors import LabError
from .kernels import Kernel

OVERLAYS = Path(__file__).parent / "vm"
AGENT = Path(__file__).parent / "agent/agent.c"
LAB_FILES = "usr/lib/vrdma-lab"
MEDIATOR_CONFIG = "etc/vrdma/vrdmad.conf"
# The unit's drop-in for uplinks: where it is installed, and where it takes effect.
UPLINK_DROP_IN = "/usr/share/vrdma/uplink.conf"
DROP_INS = "etc/systemd/system/vrdmad.service.d"
HOST_MODULE = "vrdma_mdev.ko"
GUEST_MODULE = "vrdma_ib.ko"


def assemble(share: Path, stages: dict[str, Path], kernels: dict[str, Kernel], agent: Path, hosts_file: str, token: str,
             mediator_config: str = "", kernel_on_disk: bool = True) -> None:
    """Fills or refills the share. QEMU holds its directory open, so only its contents are replaced."""
    fresh = share.with_name(share.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    for kind, tree in (("host", fresh / "tree"), ("guest", fresh / "guests/tree")):
        for source in (OVERLAYS / "common", OVERLAYS / kind, stages[kind]):
            if source.is_dir():
                shutil.copytree(source, tree, symlinks=True, dirs_exist_ok=True)
        (tree / "etc/hosts").write_text(hosts_file, encoding="ascii")
        shutil.copy(agent, tree / LAB_FILES / "agent")
        (tree / LAB_FILES / "token").write_text(token, encoding="ascii")
        (tree / LAB_FILES / "token").chmod(0o600)
        _merge_usr(tree)
        _lay_modules(tree, kernels[kind])
    if not (kernels["guest"].in_image and kernel_on_disk):
        _lay_boot_files(fresh / "tree/boot", kernels["guest"])
    if mediator_config:
        _write(fresh / "tree" / MEDIATOR_CONFIG, mediator_config)
    if "[[uplink]]" in mediator_config:
        (fresh / "tree" / DROP_INS).mkdir(parents=True)
        (fresh / "tree" / DROP_INS / "uplink.conf").symlink_to(UPLINK_DROP_IN)
    share.mkdir(exist_ok=True)
    for entry in fresh.iterdir():
        shutil.rmtree(share / entry.name, ignore_errors=True)
        entry.rename(share / entry.name)
    fresh.rmdir()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


def build_agent(cache: Path) -> Path:
    """Compiles the agent statically, because it has to start fast, and before other files exist."""
    source = AGENT.read_bytes()
    binary = cache / f"agent-{hashlib.sha256(source).hexdigest()[:16]}"
    if not binary.exists():
        fresh = binary.with_suffix(f".{os.getpid()}")
        subprocess.run(["gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-static", "-s", "-o", fresh, AGENT], check=True)
        for stale in cache.glob("agent-????????????????"):
            stale.unlink(missing_ok=True)
        fresh.rename(binary)
    return binary


def _merge_usr(tree: Path) -> None:
    """Moves directories below /usr: on Debian /lib and others are links into /usr, and must not be replaced."""
    for name in ("bin", "sbin", "lib", "lib64"):
        if (tree / name).is_dir():
            shutil.copytree(tree / name, tree / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(tree / name)


def has_vrdma(share: Path, kernels: dict[str, Kernel]) -> bool:
    """Whether the share has both kernel modules. With only one, the build is incomplete."""
    found = [any(share.glob(f"{tree}/usr/lib/modules/{kernels[kind].release}/**/{module}"))
             for kind, tree, module in (("host", "tree", HOST_MODULE), ("guest", "guests/tree", GUEST_MODULE))]
    if any(found) and not all(found):
        raise LabError(f"there is only one of {HOST_MODULE} for hosts and {GUEST_MODULE} for guests: build both")
    return all(found)


def _lay_boot_files(boot: Path, kernel: Kernel) -> None:
    """Copies the kernel's boot files to the places where the image has its own."""
    boot.mkdir(parents=True)
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
