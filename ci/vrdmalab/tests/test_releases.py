# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Hosts and guests of other releases of Debian."""

import subprocess
from pathlib import Path

import pytest
from vrdmalab import releases
from vrdmalab.errors import LabError


def make_package(directory: Path, name: str) -> None:
    """A package with one file, which has its name."""
    tree = directory / name
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/lib").mkdir(parents=True)
    (tree / "usr/lib" / name).touch()
    (tree / "DEBIAN/control").write_text(f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: nobody\n"
                                         "Description: nothing\n")
    subprocess.run(["dpkg-deb", "--build", "-Znone", tree, directory / f"{name}_1_all.deb"], check=True,
                   stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("release", ["trixie", "trixie-backports"])
def test_each_kind_gets_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    """Unpacks packages for guests, twice; expects the files of the guests' packages and nothing of before. With the
    kernel of the backports, the packages are the same."""
    monkeypatch.setattr(releases, "PROJECT", tmp_path)
    for name in {*releases.PACKAGES["host"], *releases.PACKAGES["guest"]}:
        make_package(tmp_path / "build/deb-trixie", name)
    stage = tmp_path / "stage/guest"
    (stage / "usr/lib").mkdir(parents=True)
    (stage / "usr/lib/old").touch()
    for _ in range(2):
        releases.unpack(release, "guest", stage)
        assert {path.name for path in stage.glob("usr/lib/*")} == set(releases.PACKAGES["guest"])


def test_packages_are_made_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks for packages that were not built; expects the command that builds them."""
    monkeypatch.setattr(releases, "PROJECT", tmp_path)
    with pytest.raises(LabError, match="ci/deb sid"):
        releases.unpack("sid", "host", tmp_path / "stage")


def test_releases_have_their_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks for the kernels of all releases, with those of ci/debian-kernel there; expects none for this machine's
    release, which has it in the image."""
    monkeypatch.setattr(releases, "PROJECT", tmp_path)
    kernels = tmp_path / "build/kernels"
    for suite in ("trixie", "trixie-backports"):
        (kernels / f"{suite}-lab").mkdir(parents=True)
    assert {release: releases.kernel_directory(release) for release in releases.RELEASES} == {
        "bookworm": None, "trixie": str(kernels / "trixie-lab"),
        "trixie-backports": str(kernels / "trixie-backports-lab"), "sid": str(kernels / "trixie-backports-lab")}


def test_the_libraries_of_each_userland_are_known() -> None:
    assert {release.userland for release in releases.RELEASES.values()} == {*releases.LIBRARIES}
