# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""framework/health.py: kernel messages that fail a test."""

import pytest

from framework.health import COMPLAINT

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
