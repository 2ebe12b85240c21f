# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The kernel that a VM boots."""

import subprocess
from pathlib import Path

import pytest
from vrdmalab import initramfs, kernels
from vrdmalab.errors import LabError
from vrdmalab.images import Image

RELEASE = "6.1.0-debug"


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """An image whose initrd contains only busybox."""
    image = Image(tmp_path / "image", "6.1.0-debian")
    (image.directory / "bin").mkdir(parents=True)
    (image.directory / "bin/busybox").write_text("busybox")
    subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", "-O", image.initrd], input=b"bin/busybox\n",
                   cwd=image.directory, check=True)
    return image


def put_modules(directory: Path, release: str) -> None:
    """Lays a kernel's modules out. The first of those that a VM needs is built in, the others are files."""
    built_in, *files = initramfs.MODULES
    modules = directory / "lib/modules" / release
    modules.mkdir(parents=True)
    for name in files:
        (modules / f"{name}.ko").touch()
    (modules / "modules.dep").write_text("".join(f"{name}.ko:\n" for name in files))
    (modules / "modules.builtin").write_text(f"kernel/drivers/{built_in}.ko\n")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with a kernel."""
    directory = tmp_path / "kernel"
    put_modules(directory, RELEASE)
    (directory / "vmlinux").touch()
    return directory


def test_it_is_the_images_if_none_is_named(tmp_path: Path, image: Image) -> None:
    kernel = kernels.choose(None, image, tmp_path / "initrd")
    assert (kernel.release, kernel.vmlinux, kernel.initrd, kernel.in_image) == (
        image.kernel, image.vmlinux, image.initrd, True)


def test_one_of_a_directory_has_an_initrd_with_its_modules(tmp_path: Path, image: Image, directory: Path) -> None:
    kernel = kernels.choose(str(directory), image, tmp_path / "initrd")
    assert (kernel.release, kernel.vmlinux, kernel.in_image) == (RELEASE, directory / "vmlinux", False)
    with open(kernel.initrd, "rb") as initrd:
        names = subprocess.run(["cpio", "-t", "--quiet"], stdin=initrd, capture_output=True, text=True,
                               check=True).stdout
    modules = {Path(name).stem for name in names.split() if name.endswith(".ko")}
    assert modules == set(initramfs.MODULES[1:])
    assert {"init", "bin/busybox"} < set(names.split())


def test_without_a_kernel_a_directory_is_an_error(tmp_path: Path, image: Image, directory: Path) -> None:
    (directory / "vmlinux").unlink()
    with pytest.raises(LabError, match="no vmlinux"):
        kernels.choose(str(directory), image, tmp_path / "initrd")


def test_modules_of_two_releases_are_an_error(tmp_path: Path, image: Image, directory: Path) -> None:
    put_modules(directory, "6.1.0-other")
    with pytest.raises(LabError, match="one release"):
        kernels.choose(str(directory), image, tmp_path / "initrd")
