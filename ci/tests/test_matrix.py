# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The pairs of guests and the table of ci/releases."""

import importlib.machinery
import importlib.util
from pathlib import Path

import pytest

LOADER = importlib.machinery.SourceFileLoader("releases_script", str(Path(__file__).resolve().parents[1] / "releases"))
SPEC = importlib.util.spec_from_loader(LOADER.name, LOADER)
assert SPEC
releases = importlib.util.module_from_spec(SPEC)
LOADER.exec_module(releases)


@pytest.mark.parametrize("guests, pairs", [(2, "0-1"), (3, "0-1,1-2,2-0"), (4, "0-1,1-2,2-3,3-0")])
def test_guests_meet_their_neighbours(guests: int, pairs: str) -> None:
    """Asks for pairs of guests in a ring; expects each pair once."""
    assert releases.neighbours(guests) == pairs


def test_only_passed_tests_count(tmp_path: Path) -> None:
    """Reads results between three guests; expects each that passed to count for both sides, and no other."""
    results = tmp_path / "results.xml"
    results.write_text("""<testsuites><testsuite>
        <testcase name="test_a[guest0-guest1-x]"/>
        <testcase name="test_a[guest1-guest2-x]"/>
        <testcase name="test_b[guest1-guest2-x]"><failure/></testcase>
        <testcase name="test_b[guest2-guest0-x]"><skipped/></testcase>
        <testcase name="test_c[guest2-guest0-x]"><error/></testcase>
    </testsuite></testsuites>""")
    assert releases.passed(results, ("bookworm", "trixie", "sid")) == {"bookworm": 1, "trixie": 2, "sid": 1}


@pytest.mark.parametrize("text, host, guests", [("trixie/sid,bookworm", "trixie", ("sid", "bookworm")),
                                                ("bookworm", "bookworm", ("bookworm", "trixie", "sid"))])  # fmt: skip
def test_a_laboratory_has_all_guests_unless_they_are_named(text: str, host: str, guests: tuple[str, ...]) -> None:
    assert releases.laboratory(text) == (host, guests)
