# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The remaining privileges of a vrdmad that serves devices, as the kernel reports them for each of its threads."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.children import ENGINE, engine_of
from framework.control import public_directory, running
from framework.native import Native

pytestmark = pytest.mark.native

CAP_SYS_NICE = 23
FILTERED = "2"
FAULTS = {signal.SIGSEGV, signal.SIGBUS}


def threads(lab: Native) -> Iterator[dict[str, str]]:
    """proc_pid_status(5) of each thread."""
    for mediator in lab.mediators:
        for process in (mediator.pid, engine_of(mediator.pid)):
            for status in Path("/proc", str(process), "task").glob("*/status"):
                yield dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)


@pytest.fixture(autouse=True)
def serving(lab: Native, open_device, guest0) -> None:
    """Waits until vrdmad has served a client, because its sockets exist before its threads."""
    open_device(guest0)
    if lab.sanitizers.used:
        pytest.skip("a sanitizer handles signals, and makes system calls of its own")


def test_capabilities(lab: Native) -> None:
    """Without an uplink; expects that a thread has at most the capability for real-time priority."""
    for thread in threads(lab):
        for kind in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
            assert int(thread[kind], 16) & ~(1 << CAP_SYS_NICE) == 0, thread["Name"]
        assert thread["NoNewPrivs"] == "1"


def test_system_calls(lab: Native) -> None:
    """Expects one filter in each thread. A poller starts before the process gets its filter, and has another one."""
    filters = {thread["Name"]: int(thread["Seccomp_filters"]) for thread in threads(lab)
               if thread["Seccomp"] == FILTERED}
    assert len(filters) == len({thread["Name"] for thread in threads(lab)})
    assert filters["vrdma-poll-0"] == filters["vrdmad"] == filters[ENGINE] == 1


def test_crashes(lab: Native) -> None:
    """libfabric's libraries have signal handlers; expects that only faults of guests' memory are handled."""
    for thread in threads(lab):
        caught = int(thread["SigCgt"], 16)
        assert {number for number in signal.Signals if caught >> (number - 1) & 1} <= FAULTS, thread["Name"]


def test_sockets_elsewhere(lab: Native) -> None:
    """Creates a device with its socket in a directory where the configuration has none; expects that vrdmad may not
    write there."""
    with public_directory() as here, public_directory() as there, running(here, lab.sanitizers.ours(), "") as control:
        create = "device", "create", "small", "--name", "disk", "--path"
        refused = control.refuses(*create, str(there / "disk.sock"))
        assert refused == f"vrdmactl: {there}/disk.sock: Permission denied (EACCES)\n"
        control.says(*create, str(here / "disk.sock"))
