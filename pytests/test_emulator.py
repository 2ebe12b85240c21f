# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The report of a test during which the emulator loses VMs."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from framework import emulator


@dataclass
class FakeTest:
    """A test that is not pytest's."""

    stash: pytest.Stash = field(default_factory=pytest.Stash)
    funcargs: dict[str, object] = field(default_factory=dict)
    nodeid: str = "test"

    def _initrequest(self) -> None:
        pass


@pytest.fixture
def reported(monkeypatch):
    """Runs a test that fails and loses a VM a number of times, and then passes; returns its report."""

    def run(losses: int) -> list[pytest.TestReport]:
        item = FakeTest()
        left = [f"guest{number}" for number in range(losses)]

        def attempt() -> list[pytest.TestReport]:
            outcome: Literal["failed", "passed"] = "failed" if left else "passed"
            if left:
                item.stash[emulator.LOST] = left.pop(0)
            return [pytest.TestReport("test", ("file", 1, "test"), {}, outcome, "what went wrong" if left else None,
                                      "call")]

        monkeypatch.setattr(emulator, "repeated", [])
        return emulator.reports_of(item, attempt)

    return run


def test_repeated(reported):
    """Loses a VM less often than there are tries; expects the last try to count."""
    (report,) = reported(emulator.TRIES - 1)
    assert report.passed


def test_lost_each_time(reported):
    """Loses a VM in each try; expects the failure to report that, so that it is not blamed on the test."""
    (report,) = reported(emulator.TRIES + 1)
    assert report.failed
    assert report.longreprtext.startswith(f"the emulator has lost a VM in each of {emulator.TRIES} tries (guest0; "
                                          f"guest1; ")
    assert report.longreprtext.endswith("what went wrong")


@pytest.mark.parametrize("follows, looked", [(True, ["the lab's health"]), (False, [])])
def test_hung_in_a_teardown(monkeypatch, follows, looked):
    """A teardown fails; expects the VMs to be checked again, unless the lab has gone with the last test."""
    found = []
    monkeypatch.setattr(emulator, "check", lambda item, lab, health: found.append(f"{lab}'s {health}"))
    item = FakeTest(funcargs={"lab": "the lab", "health": "health"})
    emulator.check_again(item, item if follows else None)
    assert found == looked
