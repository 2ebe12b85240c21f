# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Tests whether /dev/kvm runs Debian's kernel, because the existence of the device is not enough."""

import hashlib
import os
import subprocess
from pathlib import Path

from .images import Image
from .progress import say

DEVICE = Path("/dev/kvm")
PROBE_S = 20
PASSED = b"lab: probe passed"


def accelerator(cache: Path, image: Image) -> str:
    """"kvm" or "tcg". The result is kept for this image, until this machine boots again."""
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return "tcg"
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    key = hashlib.sha256(boot + image.directory.name.encode()).hexdigest()[:16]
    remembered = cache / f"accelerator-{key}"
    if not remembered.exists():
        for stale in cache.glob("accelerator-*"):
            stale.unlink()
        result = "kvm" if _boots(image) else "tcg"
        say(f"tried /dev/kvm: will use {result}")
        remembered.write_text(result, encoding="ascii")
    return remembered.read_text(encoding="ascii")


def _boots(image: Image) -> bool:
    command = [
        "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-accel", "kvm", "-cpu", "host", "-m", "512", "-serial", "stdio",
        "-kernel", str(image.vmlinux), "-initrd", str(image.initrd),
        "-append", "console=ttyS0 quiet panic=-1 lab.init=probe",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return PASSED in done.stdout
