#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Runs rdma-core's own tests of pyverbs, unchanged, and says in JSON what came of each.

pyverbs_suite.py DIRECTORY DEVICE

DIRECTORY is that of the package `tests`. A line of stdout for each test: {"test": ..., "outcome": ..., "why": ...}.
"""

import json
import random
import sys
import unittest
from importlib import import_module

# The suite draws what it asks for, and skips a test that drew what a device lacks: it shall draw the same each time.
# With this one no test is skipped that another draw would let pass.
SEED = 169

report = sys.stdout


class Reporting(unittest.TextTestResult):
    """Failures and errors come with their traces, skipped tests with the suite's reason."""

    def startTest(self, test) -> None:
        super().startTest(test)
        random.seed(f"{SEED} {test.id()}")

    def _report(self, test, outcome: str, why: str = "") -> None:
        line = {"test": test.id().removeprefix("tests."), "outcome": outcome, "why": why}
        print(json.dumps(line), file=report, flush=True)

    def addSuccess(self, test) -> None:
        super().addSuccess(test)
        self._report(test, "passed")

    def addSkip(self, test, reason) -> None:
        super().addSkip(test, reason)
        self._report(test, "skipped", " ".join(str(reason).split()))

    def addFailure(self, test, err) -> None:
        super().addFailure(test, err)
        self._report(test, "failed", self.failures[-1][1])

    def addError(self, test, err) -> None:
        super().addError(test, err)
        self._report(test, "failed", self.errors[-1][1])

    def addSubTest(self, test, subtest, err) -> None:
        super().addSubTest(test, subtest, err)
        if err:
            self._report(test, "failed", f"{subtest}: {err[1]!r}")


def main(directory: str, device: str) -> None:
    sys.stdout = sys.stderr  # the tests print
    sys.path[:0] = [directory, f"{directory}/tests"]
    sys.argv[1:] = ["--verbose", "--dev", device]
    import_module("args_parser").parser.parse_args()
    runner = unittest.TextTestRunner(resultclass=Reporting, verbosity=2)
    unittest.main(module="tests", argv=sys.argv[:1], testRunner=runner)


if __name__ == "__main__":
    main(*sys.argv[1:])
