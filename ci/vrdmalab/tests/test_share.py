# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""How the trees that VMs lay over their root are put together."""

from pathlib import Path

import pytest
from vrdmalab import share
from vrdmalab.errors import LabError
from vrdmalab.images import Image

KERNEL = "6.1.0-test"


@pytest.fixture
def image(tmp_path: Path) -> Image:
    image = Image(tmp_path / "image", KERNEL)
    (image.modules / "kernel").mkdir(parents=True)
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        (image.modules / name).touch()
    return image


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def assemble(directory: Path, image: Image, mediator_config: str = "") -> Path:
    put(directory / "agent", "agent")
    result = directory / "share"
    share.assemble(result, directory / "stage", image, directory / "agent", "hosts file", "secret", mediator_config)
    return result


def test_hosts_and_guests_get_their_part_of_the_stage(tmp_path: Path, image: Image):
    put(tmp_path / "stage/host/usr/sbin/vrdmad", "mediator")
    put(tmp_path / "stage/guest/etc/libibverbs.d/vrdma.driver", "provider")
    result = assemble(tmp_path, image)
    assert (result / "tree/usr/sbin/vrdmad").read_text() == "mediator"
    assert (result / "guests/tree/etc/libibverbs.d/vrdma.driver").read_text() == "provider"
    assert not (result / "guests/tree/usr/sbin/vrdmad").exists()
    for tree in ("tree", "guests/tree"):
        assert (result / tree / "etc/hosts").read_text() == "hosts file"


def test_top_level_directories_are_merged_into_usr(tmp_path: Path, image: Image):
    put(tmp_path / "stage/host/lib/systemd/system/vrdmad.service", "unit")
    tree = assemble(tmp_path, image) / "tree"
    assert (tree / "usr/lib/systemd/system/vrdmad.service").read_text() == "unit"
    assert not (tree / "lib").exists()


@pytest.mark.parametrize("text, found", [("", "installed"), ("for this lab", "for this lab")])
def test_a_lab_may_have_a_mediator_config_of_its_own(tmp_path: Path, image: Image, text: str, found: str):
    put(tmp_path / "stage/host/etc/vrdma/vrdmad.conf", "installed")
    assert (assemble(tmp_path, image, text) / "tree/etc/vrdma/vrdmad.conf").read_text() == found


@pytest.mark.parametrize("text, linked", [("", False), ("[soft]\n", False), ("[[uplink]]\n", True)])
def test_uplinks_have_their_drop_in(tmp_path: Path, image: Image, text: str, linked: bool):
    assert (assemble(tmp_path, image, text) / "tree/etc/systemd/system/vrdmad.service.d/uplink.conf").is_symlink() == linked


def test_a_second_time_replaces_what_is_inside_only(tmp_path: Path, image: Image):
    put(tmp_path / "stage/host/usr/sbin/old")
    first = assemble(tmp_path, image)
    identity = first.stat().st_ino
    (tmp_path / "stage/host/usr/sbin/old").rename(tmp_path / "stage/host/usr/sbin/new")
    second = assemble(tmp_path, image)
    assert second.stat().st_ino == identity
    assert [path.name for path in (second / "tree/usr/sbin").iterdir()] == ["new"]


def test_without_modules_there_is_no_vrdma(tmp_path: Path, image: Image):
    assert not share.has_vrdma(assemble(tmp_path, image))


def test_one_module_without_the_other_is_an_error(tmp_path: Path):
    put(tmp_path / "tree/usr/lib/modules/any/extra/vrdma_mdev.ko")
    with pytest.raises(LabError, match="vrdma_ib.ko"):
        share.has_vrdma(tmp_path)


def test_both_modules_are_vrdma(tmp_path: Path):
    put(tmp_path / "tree/usr/lib/modules/any/extra/vrdma_mdev.ko")
    put(tmp_path / "guests/tree/usr/lib/modules/any/extra/vrdma_ib.ko")
    assert share.has_vrdma(tmp_path)
