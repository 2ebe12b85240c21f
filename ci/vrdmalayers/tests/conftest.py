# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Makes the package importable as ci/layers does, and small trees of sources for it."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vrdmalayers.cli import main  # noqa: E402  the path is needed first


@pytest.fixture
def check(tmp_path: Path, capsys):
    """Checks a tree of these files; returns the errors."""

    def run(files: dict[str, str]) -> list[str]:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for command in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", *command], cwd=tmp_path, check=True)
        failed = main([str(tmp_path)])
        problems = capsys.readouterr().err.splitlines()
        assert failed == bool(problems)
        return problems

    return run
