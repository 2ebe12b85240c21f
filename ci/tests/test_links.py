# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The links that ci/links reports as broken."""

import subprocess
from pathlib import Path

import pytest

LINKS = Path(__file__).resolve().parents[1] / "links"
OTHER = "# Other page\n\n## Two words, and `code`\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n"


def check(folder: Path, text: str) -> subprocess.CompletedProcess:
    """Checks a page with this text, beside another page and a man page."""
    (folder / "page.md").write_text(text)
    (folder / "other.md").write_text(OTHER)
    (folder / "vrdmad.conf.5").write_text(".BR vrdmad.conf (5)\n")
    names = ("page.md", "other.md", "vrdmad.conf.5")
    return subprocess.run([LINKS, *names], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("text", [
    "[a](other.md)",
    "[a](other.md#other-page)",
    "[a](other.md#two-words-and-code)",
    "[a](other.md#twice-1)",
    "# Here\n\n[a](#here)",
    "[a](https://example.org/none.md#none)",
    "`[a](none.md)`",
    "```\n[a](none.md)\n```\n",
    "vrdmad.conf(5), vrdmad.conf (5) and perf(1)",
])  # fmt: skip
def test_a_good_page_passes(tmp_path, text):
    done = check(tmp_path, text)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("text, reason", [
    ("[a](none.md)", "none.md: there is no such file"),
    ("[two\nlines](none.md)", "none.md: there is no such file"),
    ("[a](other.md#none)", "other.md#none: there is no such heading"),
    ("[a](other.md#no-heading)", "other.md#no-heading: there is no such heading"),
    ("[a](other.md#twice-2)", "other.md#twice-2: there is no such heading"),
    ("[a](#here)", "#here: there is no such heading"),
    ("[a](vrdmad.conf.5#name)", "vrdmad.conf.5#name: there is no such heading"),
    ("vrdma-none(1)", "vrdma-none(1): there is no such man page"),
    ("vrdmad.conf(8)", "vrdmad.conf(8): there is no such man page"),
])  # fmt: skip
def test_what_leads_nowhere_is_named(tmp_path, text, reason):
    done = check(tmp_path, text)
    assert (done.returncode, done.stderr) == (1, f"page.md: {reason}\n")


def test_man_pages_are_checked_too(tmp_path):
    (tmp_path / "vrdmad.8").write_text(".BR vrdma\\-none (1)\n")
    done = subprocess.run([LINKS, "vrdmad.8"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "vrdmad.8: vrdma-none(1): there is no such man page\n")
