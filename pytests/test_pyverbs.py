# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The conformance suite that rdma-core has for pyverbs, as Debian ships it."""

from pathlib import Path

import pytest

from framework import pyverbs
from framework.lab import Guest
from framework.pyverbs import Outcome

# The list is of devices behind sockets: those of a kernel can do more of what the suite asks for.
pytestmark = pytest.mark.native

EXPECTED = Path(__file__).with_name("pyverbs.txt")
SUITE_TIMEOUT_S = 100.0


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Path:
    return pyverbs.unpack(tmp_path_factory.mktemp("suite"))


def faults(expected: dict[str, str], outcomes: list[Outcome]) -> list[str]:
    """How the outcomes differ from those expected; the reason of a skipped test may have changed."""
    found = {outcome.test: outcome.result for outcome in outcomes}
    failed = [str(outcome) for outcome in outcomes if outcome.result == "failed"]
    missing = [f"{test}: {result} in {EXPECTED.name}, but was not run" for test, result in expected.items() if test not in found]
    changed = [f"{test}: {result}, but {expected.get(test, 'not')} in {EXPECTED.name} (see --update-pyverbs)"
               for test, result in found.items() if result not in ("failed", expected.get(test))]
    return failed + missing + changed


def test_faults():
    """Compares outcomes with a list of other ones; expects each difference to be told, and nothing else."""
    same = [Outcome("m.C.same", "passed"), Outcome("m.C.skips", "skipped", "for a new reason")]
    other = [Outcome("m.C.fails", "failed", "trace"), Outcome("m.C.drops_out", "skipped", "reason"),
             Outcome("m.C.works_now", "passed"), Outcome("m.C.new", "passed")]
    expected = {"m.C.same": "passed", "m.C.skips": "skipped", "m.C.fails": "passed", "m.C.drops_out": "passed",
                "m.C.works_now": "skipped", "m.C.gone": "passed"}
    told = faults(expected, same + other)
    assert [line.split(":")[0] for line in told] == ["m.C.fails", "m.C.gone", "m.C.drops_out", "m.C.works_now", "m.C.new"]


def test_suite(device, guest0, guest1, suite, pytestconfig):
    """Runs the suite on both devices at once; expects from each device what the list says of each test."""

    def start(guest: Guest):
        return guest.start(f"/usr/bin/python3 {guest.programs}/pyverbs_suite.py {guest.bring(suite)} {device}")

    running = [start(guest) for guest in (guest0, guest1)]
    results = [process.wait(SUITE_TIMEOUT_S, check=False) for process in running]
    outcomes = [pyverbs.parse(result.stdout) for result in results]
    if pytestconfig.getoption("update_pyverbs"):
        pyverbs.write(EXPECTED, outcomes[0])
    expected = pyverbs.read(EXPECTED)
    assert [faults(expected, each) for each in outcomes] == [[], []]
    assert [result.status for result in results] == [0, 0]
