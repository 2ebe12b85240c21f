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


def test_each_kind_gets_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacks packages for guests, twice; expects the files of the guests' packages and nothing of before."""
    monkeypatch.setattr(releases, "PROJECT", tmp_path)
    for name in {*releases.PACKAGES["host"], *releases.PACKAGES["guest"]}:
        make_package(tmp_path / "build/deb-trixie", name)
    stage = tmp_path / "stage"
    (stage / "guest/usr/lib").mkdir(parents=True)
    (stage / "guest/usr/lib/old").touch()
    for _ in range(2):
        releases.unpack("trixie", "guest", stage)
        assert {path.name for path in stage.glob("guest/usr/lib/*")} == set(releases.PACKAGES["guest"])


def test_packages_are_made_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks for packages that were not built; expects the command that builds them."""
    monkeypatch.setattr(releases, "PROJECT", tmp_path)
    with pytest.raises(LabError, match="ci/deb sid"):
        releases.unpack("sid", "host", tmp_path / "stage")


def test_only_the_first_release_has_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks for the kernels of all releases, with ci/debian-kernel's there; expects it for all but this machine's."""
    monkeypatch.setattr(releases, "PROJECT", tmp_path)
    directory = tmp_path / "build/kernels/trixie-lab"
    directory.mkdir(parents=True)
    assert {releases.kernel_directory(release) for release in releases.LIBRARIES} == {None, str(directory)}
    assert releases.kernel_directory(releases.OWN) is None
