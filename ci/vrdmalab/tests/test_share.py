# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The trees that VMs copy over their root."""

import dataclasses
from pathlib import Path

import pytest
from vrdmalab import share
from vrdmalab.errors import LabError
from vrdmalab.kernels import Kernel
from vrdmalab.share import System

KERNEL = "6.1.0-test"


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """The image's kernel."""
    modules = tmp_path / "image/modules"
    (modules / "kernel").mkdir(parents=True)
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        (modules / name).touch()
    return Kernel(KERNEL, tmp_path / "image/vmlinux", tmp_path / "image/initrd.img", modules, in_image=True)


@pytest.fixture
def debug_kernel(tmp_path: Path, kernel: Kernel) -> Kernel:
    """Another kernel, which has a module of its own, and vrdma's modules."""
    kernel = dataclasses.replace(kernel, release="6.1.0-debug", vmlinux=tmp_path / "debug/vmlinux",
                                 initrd=tmp_path / "debug/initrd", modules=tmp_path / "debug/modules", in_image=False)
    for path in (kernel.vmlinux, kernel.initrd):
        put(path, f"debug {path.name}")
    for name in ("kernel/drivers/mdev.ko", "extra/vrdma_mdev.ko", "extra/vrdma_ib.ko", "modules.builtin",
                 "modules.order"):
        put(kernel.modules / name)
    return kernel


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def assemble(directory: Path, kernel: Kernel, mediator_config: str = "", driver: Path | None = None,
             **guest_kernels: Kernel) -> Path:
    """For guests of a release, or of those that are named with their kernels."""
    for name in ("agent", "preload"):
        put(directory / name, name)
    result = directory / "share"
    guests = {release: System(chosen, None if driver else directory / "stage/guest", driver)
              for release, chosen in (guest_kernels or {"bookworm": kernel}).items()}
    share.assemble(result, System(kernel, directory / "stage/host"), guests, directory / "agent",
                   directory / "preload", "hosts file", "secret", mediator_config)
    return result


def test_hosts_and_guests_get_their_part_of_the_stage(tmp_path: Path, kernel: Kernel) -> None:
    put(tmp_path / "stage/host/usr/sbin/vrdmad", "mediator")
    put(tmp_path / "stage/guest/etc/libibverbs.d/vrdma.driver", "provider")
    result = assemble(tmp_path, kernel)
    assert (result / "tree/usr/sbin/vrdmad").read_text() == "mediator"
    assert (result / "guests/bookworm/tree/etc/libibverbs.d/vrdma.driver").read_text() == "provider"
    assert not (result / "guests/bookworm/tree/usr/sbin/vrdmad").exists()
    for tree in ("tree", "guests/bookworm/tree"):
        assert (result / tree / "etc/hosts").read_text() == "hosts file"


def test_guests_with_another_driver_have_nothing_of_vrdma(tmp_path: Path, kernel: Kernel) -> None:
    put(tmp_path / "stage/guest/etc/libibverbs.d/vrdma.driver", "provider")
    put(tmp_path / "vmw_pvrdma.ko", "driver")
    result = assemble(tmp_path, kernel, driver=tmp_path / "vmw_pvrdma.ko")
    modules = result / f"guests/bookworm/tree/usr/lib/modules/{KERNEL}"
    assert (modules / "updates/vmw_pvrdma.ko").read_text() == "driver"
    assert (modules / "modules.dep").exists()
    assert not list((result / "guests/bookworm/tree").rglob("vrdma.driver"))
    assert not list((result / "tree").rglob("vmw_pvrdma.ko"))


def test_top_level_directories_are_merged_into_usr(tmp_path: Path, kernel: Kernel) -> None:
    put(tmp_path / "stage/host/lib/systemd/system/vrdmad.service", "unit")
    tree = assemble(tmp_path, kernel) / "tree"
    assert (tree / "usr/lib/systemd/system/vrdmad.service").read_text() == "unit"
    assert not (tree / "lib").exists()


@pytest.mark.parametrize("text, found", [("", "installed"), ("for this lab", "for this lab")])
def test_a_lab_may_have_a_mediator_config_of_its_own(tmp_path: Path, kernel: Kernel, text: str, found: str) -> None:
    put(tmp_path / "stage/host/etc/vrdma/vrdmad.conf", "installed")
    assert (assemble(tmp_path, kernel, text) / "tree/etc/vrdma/vrdmad.conf").read_text() == found


@pytest.mark.parametrize("text, linked", [("", False), ("[soft]\n", False), ("[[uplink]]\n", True)])
def test_uplinks_have_their_drop_in(tmp_path: Path, kernel: Kernel, text: str, linked: bool) -> None:
    share = assemble(tmp_path, kernel, text)
    assert (share / "tree/etc/systemd/system/vrdmad.service.d/uplink.conf").is_symlink() == linked


def test_a_second_time_replaces_what_is_inside_only(tmp_path: Path, kernel: Kernel) -> None:
    put(tmp_path / "stage/host/usr/sbin/old")
    first = assemble(tmp_path, kernel)
    identity = first.stat().st_ino
    (tmp_path / "stage/host/usr/sbin/old").rename(tmp_path / "stage/host/usr/sbin/new")
    second = assemble(tmp_path, kernel)
    assert second.stat().st_ino == identity
    assert [path.name for path in (second / "tree/usr/sbin").iterdir()] == ["new"]


def has_vrdma(directory: Path, kernel: Kernel, *releases: str) -> bool:
    system = System(kernel, directory)
    return share.has_vrdma(directory, system, dict.fromkeys(releases or ("bookworm",), system))


def test_without_modules_there_is_no_vrdma(tmp_path: Path, kernel: Kernel) -> None:
    assert not has_vrdma(assemble(tmp_path, kernel), kernel)


def test_one_module_without_the_other_is_an_error(tmp_path: Path, kernel: Kernel) -> None:
    put(tmp_path / f"tree/usr/lib/modules/{KERNEL}/extra/vrdma_mdev.ko")
    with pytest.raises(LabError, match="vrdma_ib.ko"):
        has_vrdma(tmp_path, kernel)


def test_both_modules_are_vrdma(tmp_path: Path, kernel: Kernel) -> None:
    """Puts the modules there for guests of one release; expects an error for guests of another one beside them."""
    put(tmp_path / f"tree/usr/lib/modules/{KERNEL}/extra/vrdma_mdev.ko")
    put(tmp_path / f"guests/bookworm/tree/usr/lib/modules/{KERNEL}/extra/vrdma_ib.ko")
    assert has_vrdma(tmp_path, kernel)
    with pytest.raises(LabError, match="vrdma_ib.ko"):
        has_vrdma(tmp_path, kernel, "bookworm", "sid")


def test_modules_for_another_kernel_are_not_vrdma(tmp_path: Path, kernel: Kernel, debug_kernel: Kernel) -> None:
    put(tmp_path / f"tree/usr/lib/modules/{KERNEL}/extra/vrdma_mdev.ko")
    put(tmp_path / f"guests/bookworm/tree/usr/lib/modules/{KERNEL}/extra/vrdma_ib.ko")
    assert not has_vrdma(tmp_path, debug_kernel)


def test_a_kernel_that_is_not_the_images_comes_with_its_modules(tmp_path: Path, debug_kernel: Kernel) -> None:
    result = assemble(tmp_path, debug_kernel)
    for tree in ("tree", "guests/bookworm/tree"):
        modules = result / tree / "usr/lib/modules" / debug_kernel.release
        assert (modules / "kernel/drivers/mdev.ko").exists()
        assert (modules / "modules.dep").exists()
    assert has_vrdma(result, debug_kernel)


def test_a_guests_kernel_lies_where_its_host_boots_it_from(tmp_path: Path, kernel: Kernel,
                                                           debug_kernel: Kernel) -> None:
    """The host itself boots the image's kernel, as do other guests, which find it where the image has it."""
    result = assemble(tmp_path, kernel, bookworm=kernel, sid=debug_kernel)
    assert (result / "tree/boot/sid/vmlinux").read_text() == "debug vmlinux"
    assert (result / "tree/boot/sid/initrd.img").read_text() == "debug initrd"
    assert (result / "tree/boot/bookworm").resolve() == result / "tree/boot"
    assert not (result / "tree/usr/lib/modules" / debug_kernel.release).exists()


def test_a_hosts_kernel_is_not_its_guests(tmp_path: Path, kernel: Kernel, debug_kernel: Kernel) -> None:
    result = assemble(tmp_path, debug_kernel, bookworm=kernel)
    assert not (result / "tree/boot/vmlinux").exists()
    assert not (result / "guests/bookworm/tree/usr/lib/modules" / debug_kernel.release).exists()
