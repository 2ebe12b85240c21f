# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""framework/health.py: kernel messages that fail a test, or have it repeated."""

from types import SimpleNamespace
from typing import Any

import pytest

from framework.health import COMPLAINT, Health

pytestmark = pytest.mark.native  # the result is the same everywhere


@pytest.mark.parametrize("line", [
    "BUG: KASAN: use-after-free in vrdma_destroy_qp+0x12/0x34 [vrdma_ib]",
    "BUG: KCSAN: data-race in vrdma_poll_cq+0x12/0x34 [vrdma_ib] / vrdma_post_send+0x56/0x78 [vrdma_ib]",
    "UBSAN: array-index-out-of-bounds in qp.c:12:34",
    "WARNING: possible circular locking dependency detected",
    "WARNING: possible recursive locking detected",
    "WARNING: inconsistent lock state",
    "WARNING: suspicious RCU usage",
    "WARNING: CPU: 0 PID: 12 at lib/debugobjects.c:502 debug_print_object+0x12/0x34",
    "BUG: sleeping function called from invalid context at kernel/locking/mutex.c:580",
    "[ BUG: Invalid wait context ]",
])  # fmt: skip
def test_report_of_a_debug_kernel(line):
    """Reads the first line of a report, as ci/debug-kernel's kernels make them; expects it to be a complaint."""
    assert COMPLAINT.search(f"[   12.345678] {line}\n")


def health_of(host: SimpleNamespace, line: str) -> Any:
    """What watches this host, whose kernel has written the line."""
    health: Any = Health.__new__(Health)
    health._host, health._guests = host, []
    health._kernels = SimpleNamespace(down=lambda _name: False, other=lambda _machine: False)
    health.new = {"host0's kernel": [f"[   12.345678] {line}\n"]}
    return health


@pytest.mark.parametrize("line, gone", [
    ("rcu: rcu_preempt kthread timer wakeup didn't happen for 5834 jiffies! g26449 f0x0 RCU_GP_WAIT_FQS(5)", ["host0"]),
    ("rcu: INFO: rcu_preempt self-detected stall on CPU", ["host0"]),
    ("rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 0-... } 21 jiffies s: 297", ["host0"]),
    ("watchdog: BUG: soft lockup - CPU#0 stuck for 24s! [swapper/0:0]", ["host0"]),
    ("watchdog: BUG: soft lockup - CPU#0 stuck for 24s! [vrdmad:310]", []),
    ("rcu: Hierarchical RCU implementation.", []),
])  # fmt: skip
def test_host_that_stalls(line, gone):
    """The host's kernel writes a line; expects the emulator to have lost the host if the line reports a stall."""
    health = health_of(SimpleNamespace(name="host0"), line)
    assert health.gone(failed=False) == gone


@pytest.mark.parametrize("failed, answers, gone", [(True, False, ["host0"]), (True, True, []), (False, False, [])])
def test_processor_that_stands_still(failed, answers, gone):
    """A processor of the host executes nothing after a test; expects the emulator to have lost the host if the test has
    failed."""
    health = health_of(SimpleNamespace(name="host0", answers=lambda _script: answers), "")
    assert health.gone(failed) == gone
