# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""VMs that die by bugs of the emulator: the test that this hits is repeated.

QEMU's TCG can deliver an interrupt twice to a nested guest. helper_vmrun() leaves the vector that it injected in
exception_index. If a kick arrives between the two checks of cpu_handle_interrupt(), the vector is executed once more.
In a QEMU that prints this event, it occurred once in some minutes, most often without effect. In the first instructions
of the guest kernel's entry code it resets the guest, and the kernel prints nothing. Far more rarely, a host's processor
keeps its interrupts off (its global interrupt flag is clear), and the host hangs, for ever or for half a minute. If the
processor idled, the kernel reports nothing, and only what needs this processor or its timers hangs. A VM that reports
the cause of its death, by an oops or a panic, does not count as lost to the emulator.

Most kicks come from other processors: in one run of all tests, hosts with two processors lost five VMs, and hosts with
one lost none.
"""

import re
from collections.abc import Callable
from typing import Any, Protocol

import pytest
from _pytest.runner import runtestprotocol

from .health import Health
from .lab import Lab
from .process import Failure

DEATH = re.compile(r"Kernel panic|Oops|general protection|KASAN|UBSAN|BUG: unable|BUG: kernel")
TRIES = 3
FAILED = pytest.StashKey[bool]()
LOST = pytest.StashKey[str]()
repeated: list[str] = []


class Repeatable(Protocol):
    """The part of a pytest.Function that this module needs."""

    stash: pytest.Stash
    funcargs: dict[str, object]

    @property
    def nodeid(self) -> str: ...

    def _initrequest(self) -> None: ...


def renew(lab: Lab, health: Health) -> None:
    lab.renew()
    health.renew()


def begin(lab: Lab, health: Health) -> None:
    """Before a test: replaces a lab whose host has been lost since the last one."""
    try:
        health.begin()
    except Failure:
        if not lab.ours:
            raise
        renew(lab, health)


def check(item: Repeatable, lab: Lab, health: Health) -> None:
    """After a test: replaces a lab that has lost a VM, and marks the test for a second try."""
    silent = [name for name in health.gone(FAILED in item.stash) if not DEATH.search(lab.console(name))]
    if silent and lab.ours:
        item.stash[LOST] = ", ".join(silent)
        renew(lab, health)


def check_again(item: Repeatable, nextitem: object) -> None:
    """After a teardown that has failed, because a VM may have hung in it. After the last test the lab is already gone.
    """
    fixtures: dict[str, Any] = item.funcargs
    if nextitem is not None and "health" in fixtures and LOST not in item.stash:
        item.stash[FAILED] = True
        check(item, fixtures["lab"], fixtures["health"])


def blame(reports: list[pytest.TestReport], lost: list[str]) -> None:
    """Adds to the failures of a test that the emulator has lost VMs."""
    for report in reports:
        if report.failed:
            report.longrepr = (f"the emulator has lost a VM in each of {len(lost)} tries ({'; '.join(lost)}), "
                               f"in the last one with:\n{report.longreprtext}")


def reports_of(item: Repeatable, attempt: Callable[[], list[pytest.TestReport]]) -> list[pytest.TestReport]:
    """Makes an attempt at a test, and another one if the emulator has lost a VM meanwhile. Returns the last reports."""
    lost: list[str] = []
    while len(lost) < TRIES:
        reports = attempt()
        if LOST not in item.stash:
            break
        lost.append(item.stash[LOST])
        repeated.append(f"{item.nodeid}: lost {item.stash[LOST]}")
        del item.stash[LOST]
        item._initrequest()
    else:
        blame(reports, lost)
    return reports


def run(item: pytest.Function, nextitem: pytest.Item | None) -> None:
    """Runs a test, and reports it."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in reports_of(item, lambda: runtestprotocol(item, log=False, nextitem=nextitem)):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
