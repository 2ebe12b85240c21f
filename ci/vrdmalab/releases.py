# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The releases of Debian that hosts and guests run.

The kernel of the first one is in its image, and vrdma for it is in the stage. VMs of other releases boot a kernel of
ci/debian-kernel, and have the packages of ci/deb.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError
from .paths import PROJECT

ROOT = PROJECT / "ci/root"
OWN = "bookworm"


@dataclass(frozen=True)
class Release:
    """What a VM of a release has."""

    userland: str  # the suite of its image and of vrdma's packages
    kernel: str | None  # the suite of its kernel, or None if that is in the image
    newer_monitor: bool = False  # a host runs guests by the QEMU of backports, which is in the image beside its own


RELEASES = {
    OWN: Release(OWN, None),
    "trixie": Release("trixie", "trixie"),
    "trixie-backports": Release("trixie", "trixie-backports", newer_monitor=True),
    # The kernel of the backports stands for sid's own, for which ci/debian-kernel builds no modules.
    "sid": Release("sid", "trixie-backports"),
}
# The libraries that vrdmad is linked with. Their names contain their versions.
LIBRARIES = {
    "bookworm": ("libspdlog1.10", "libfmt9", "libisal2", "libcurl4", "libmicrohttpd12"),
    "trixie": ("libspdlog1.15", "libfmt10", "libisal2", "libcurl4t64", "libmicrohttpd12t64"),
    "sid": ("libspdlog1.15", "libfmt11", "libisal2", "libcurl4t64", "libmicrohttpd12t64"),
}
PACKAGES = {"host": ("vrdmad", "libvrdma1", "vrdma-run"), "guest": ("libvrdma1", "vrdma-provider", "vrdma-run")}


def kernel_directory(release: str) -> str | None:
    """The directory of the kernel that VMs of the release boot, or None if their image has it."""
    suite = RELEASES[release].kernel
    if not suite:
        return None
    directory = PROJECT / f"build/kernels/{suite}-lab"
    if not directory.exists():
        subprocess.run([PROJECT / "ci/debian-kernel", suite], check=True)
    return str(directory)


def package_in(directory: Path, name: str) -> Path:
    """The package of that name. ci/deb leaves one version of it there."""
    (package,) = directory.glob(f"{name}_*.deb")
    return package


def extract(package: Path, directory: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", package, directory], check=True)


def lay_out(packages: Path, kind: str, stage: Path) -> None:
    """Lays out the packages for hosts or guests that are in a directory, as ci/build lays out its products."""
    shutil.rmtree(stage, ignore_errors=True)
    stage.parent.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES[kind]:
        extract(package_in(packages, name), stage)


def unpack(release: str, kind: str, stage: Path) -> None:
    """Lays out the packages for hosts or guests of the release."""
    suite = RELEASES[release].userland
    packages = PROJECT / f"build/deb-{suite}"
    if not packages.exists():
        raise LabError(f"there are no packages for {suite}: make them with: ci/deb {suite}")
    lay_out(packages, kind, stage)
