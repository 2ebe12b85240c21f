#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Runs rdma-core's own tests of pyverbs, unchanged, and reports begin and outcome of each test in JSON.

pyverbs_suite.py DIRECTORY DEVICE PART [TEST...]

DIRECTORY contains the package `tests`. PART is the letters with which the names of modules begin after "test_", such as
a-c. The tests that are named (module.Class.test) are left out. Stdout has two lines for each test:
{"test": ..., "outcome": ..., "why": ...}. The outcome in the first line is "begun". So the caller knows the test in
which this process has ended.
"""

import faulthandler
import functools
import json
import random
import re
import signal
import sys
import unittest
from collections.abc import Iterable, Iterator
from importlib import import_module

# The suite uses random parameters. With a fixed seed they are the same each time, so that a failure can be reproduced.
SEED = 169

# (module, class, test) of tests that post requests and poll at once for their completions. On a busy machine a device
# that executes requests asynchronously may not have written these yet. So these tests get more than one try.
IMPATIENT = [("tests.test_cq", "CQTest", "test_resize_cq")]
TRIES = 10
# In seconds, for a completion. The suite has 10, but emulated processors that share two real ones have stood still for
# so long.
PATIENCE = 60

report = sys.stdout


class Reporting(unittest.TextTestResult):
    """Reports failures and errors with their traces, and skipped tests with the suite's reason."""

    def startTest(self, test) -> None:
        super().startTest(test)
        random.seed(f"{SEED} {test.id()}")
        self._report(test, "begun")

    def _report(self, test, outcome: str, why: str = "") -> None:
        line = {"test": path_of(test), "outcome": outcome, "why": why}
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


def path_of(test) -> str:
    """module.Class.test"""
    return test.id().removeprefix("tests.")


def cases(suite) -> Iterator[unittest.TestCase]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from cases(each)
        else:
            yield each


class Runner(unittest.TextTestRunner):
    def __init__(self, left_out: Iterable[str]) -> None:
        super().__init__(resultclass=Reporting, verbosity=2)
        self._left_out = set(left_out)

    def run(self, test):
        return super().run(unittest.TestSuite(case for case in cases(test) if path_of(case) not in self._left_out))


def patient(test):
    """Gives a test several tries."""

    @functools.wraps(test)
    def run(case):
        for _ in range(TRIES - 1):
            try:
                return test(case)
            except AssertionError:
                case.tearDown()
        return test(case)

    return run


def main(directory: str, device: str, part: str, *left_out: str) -> None:
    if signal.getsignal(signal.SIGSEGV) == signal.SIG_DFL:  # otherwise it is a sanitizer's handler, which reports more
        faulthandler.enable()
    sys.stdout = sys.stderr  # because the tests print
    sys.path[:0] = [directory, f"{directory}/tests"]
    sys.argv[1:] = ["--verbose", "--dev", device]
    import_module("args_parser").parser.parse_args()
    setattr(import_module("tests.utils"), "POLL_CQ_TIMEOUT", PATIENCE)
    for module, name, test in IMPATIENT:
        case = getattr(import_module(module), name)
        setattr(case, test, patient(getattr(case, test)))
    suite = import_module("tests")
    modules = [module for module in suite.__test_modules__ if re.match(rf"tests\.test_[{part}]", module.__name__)]
    setattr(suite, "__test_modules__", modules)
    unittest.main(module="tests", argv=sys.argv[:1], testRunner=Runner(left_out))


if __name__ == "__main__":
    main(*sys.argv[1:])
