# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The QEMU that emulates hosts."""

import pytest
from vrdmalab import newer_qemu


@pytest.mark.parametrize("kernels, needed", [
    (["6.1.0-56-amd64"], False), (["6.12.117+deb13-amd64", "6.1.0-56-amd64"], False),
    (["6.13.0"], True), (["6.1.0-56-amd64", "7.3.4+deb13-amd64"], True), (["10.0-rc1"], True),
])  # fmt: skip
def test_newer_kernels_need_it(kernels: list[str], needed: bool) -> None:
    """Asks about releases of hosts' and guests' kernels; expects one after 6.12 to decide."""
    assert newer_qemu.needed(kernels) == needed


def test_older_kernels_run_on_this_machines_own() -> None:
    assert newer_qemu.for_hosts(["6.1.0-56-amd64"]) == newer_qemu.OWN
