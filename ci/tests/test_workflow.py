# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The workflow in docs/ci.md installs what vrdma is built with. ci/try-workflow runs it, but not in CI."""

import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_all_libraries_are_installed() -> None:
    """Takes the libraries that the Debian packages are built with; expects the workflow to install each."""
    fields = (PROJECT / "debian/control").read_text().split("Build-Depends:", 1)[1].split("\nStandards-Version", 1)[0]
    libraries = {*re.findall(r"^ (\S+-dev)\b", fields, re.MULTILINE)}
    installed = (PROJECT / "docs/ci.md").read_text().split("apt-get install", 1)[1].split("- uses", 1)[0].split()
    assert len(libraries) > 10 and not libraries - {*installed}
