# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Versions of sources sort as their commits do, and before the release that they lead to."""

import os
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


class Repository:
    """A copy of what has to do with versions."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "ci").mkdir()
        shutil.copy(PROJECT / "ci/version", root / "ci")
        self.release("1.2.0")
        self.git("init", "--quiet")
        self.git("config", "user.name", "somebody")
        self.git("config", "user.email", "somebody@example.invalid")
        self.git("add", "--all")

    def git(self, *arguments: str, time: str = "") -> None:
        # No configuration of this machine's, such as for signatures
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_COMMITTER_DATE": time}
        subprocess.run(["git", *arguments], cwd=self.root, env=environment, check=True)

    def release(self, version: str) -> None:
        (self.root / "CMakeLists.txt").write_text(f"project(vrdma VERSION {version} LANGUAGES C CXX)\n")

    def commit(self, time: str) -> str:
        self.git("commit", "--quiet", "--all", "--allow-empty", "--message=change", time=time)
        return self.version()

    def version(self) -> str:
        return subprocess.run([self.root / "ci/version"], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_commits(repository: Repository) -> None:
    """Makes commits, a tag and the next version; expects each to be newer for Debian than the one before."""
    versions = [repository.commit("2026-11-26T09:00:00+0200"), repository.commit("2026-11-26T09:00:01+0000")]
    assert versions[0].startswith("1.2.0~git20261126070000.")
    repository.git("tag", "v1.2.0")
    versions.append(repository.version())
    assert versions[-1] == "1.2.0"
    repository.release("1.3.0")
    versions.append(repository.commit("2026-11-27T00:00:00Z"))
    for older, newer in pairwise(versions):
        subprocess.run(["dpkg", "--compare-versions", older, "lt", newer], check=True)


def test_other_tag(repository: Repository) -> None:
    """A tag of another version must not make a release of the sources."""
    version = repository.commit("2026-11-26T09:00:00Z")
    repository.git("tag", "v1.1.0")
    assert repository.version() == version


def test_changed_files(repository: Repository) -> None:
    """What is not committed must not pass for a release, nor for the commit."""
    version = repository.commit("2026-11-26T09:00:00Z")
    repository.git("tag", "v1.2.0")
    repository.release("1.2.0 ")
    assert repository.version() == f"{version}.changed"


def test_changelog() -> None:
    """debian/changelog begins with the version that the sources lead to."""
    project = (PROJECT / "CMakeLists.txt").read_text().split("project(vrdma VERSION ")[1].split()[0]
    assert (PROJECT / "debian/changelog").read_text().startswith(f"vrdma ({project}) ")
