# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""VMs that are lost to the emulator, and further tries of the test that this hit.

QEMU's TCG can deliver an interrupt twice to a nested guest. helper_vmrun() leaves the vector that it injected in
exception_index, and a kick that comes between the two looks of cpu_handle_interrupt() has it executed once more.
Counted in a QEMU that prints it: once in some minutes, most often without effect; in the first instructions of the
guest kernel's entry code it resets the guest, whose kernel prints nothing. Far more rarely a host's processor is left
with interrupts off (its global interrupt flag is clear), and the host hangs. A VM that says why it dies, by an oops or
a panic, is not lost to the emulator.

Other processors kick most: of hosts with two of them five VMs were lost in one run of all tests, of hosts with one none.
"""

import re

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


def check(item: pytest.Item, lab: Lab, health: Health) -> None:
    """After a test: replaces a lab that has lost a VM, and marks the test for a second try."""
    silent = [name for name in health.gone(FAILED in item.stash) if not DEATH.search(lab.console(name))]
    if silent and lab.ours:
        item.stash[LOST] = ", ".join(silent)
        renew(lab, health)


def check_again(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After a teardown that has failed: a VM may have hung in it. With the last test the lab has gone already."""
    fixtures = item.funcargs
    if nextitem is not None and "health" in fixtures and LOST not in item.stash:
        item.stash[FAILED] = True
        check(item, fixtures["lab"], fixtures["health"])


def blame(reports: list[pytest.TestReport], lost: list[str]) -> None:
    """Says in the failures of a test what it was run under."""
    for report in reports:
        if report.failed:
            report.longrepr = (f"the emulator has lost a VM in each of {len(lost)} tries ({'; '.join(lost)}), "
                               f"in the last one with:\n{report.longreprtext}")


def run(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Runs a test, and again if the emulator has lost a VM under it."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    lost: list[str] = []
    while len(lost) < TRIES:
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if LOST not in item.stash:
            break
        lost.append(item.stash[LOST])
        repeated.append(f"{item.nodeid}: lost {item.stash[LOST]}")
        del item.stash[LOST]
        item._initrequest()
    else:
        blame(reports, lost)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
