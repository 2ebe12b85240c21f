# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Saves a guest to a file of its host, and restores it from there. Only its memory and devices are in the file, because
no guest changes its disk."""

import time

from . import guest as guests
from .diagnosis import watching
from .errors import LabError
from .migration import ANSWER_S, FINISHED, MOVE_S, acknowledged, await_status
from .state import State
from .topology import Guest

# A guest that was stopped before it was saved is stopped when it is restored.
RESTORED = ("running", "paused")


def _file(guest: Guest) -> str:
    """Not in /run, which is too small for a guest that has used most of its memory."""
    return f"file:/var/lib/vrdma-lab/{guest.name}.saved"


def save(state: State, guest: Guest) -> None:
    """Ends the guest's QEMU when all is saved. After a failure the guest runs."""
    if not state.shape.movable:
        raise LabError("this lab's guests cannot be saved; it takes: ci/lab up --movable")
    host = state.address(guest.host)
    with watching(state, guest.host), guests.monitor(guest, host, ANSWER_S) as monitor:
        # A file takes no answers. QEMU keeps what it was given for a move.
        monitor.execute("migrate-set-capabilities", capabilities=acknowledged(False))
        monitor.execute("migrate", uri=_file(guest))
        outcome = await_status(monitor, "query-migrate", FINISHED, time.monotonic() + MOVE_S)
    if outcome["status"] != "completed":
        raise LabError(f"{guest.name} cannot be saved: {outcome.get('error-desc', '')}")
    guests.kill(guest, host)


def restore(state: State, guest: Guest) -> str:
    """Starts a QEMU that continues the saved guest; returns its status."""
    host = state.address(guest.host)
    with watching(state, guest.host):
        guests.start(guest, host, state.shape, state.with_vrdma, incoming=True)
    try:
        with watching(state, guest.host), guests.monitor(guest, host, ANSWER_S) as monitor:
            monitor.execute("migrate-incoming", uri=_file(guest))
            outcome = await_status(monitor, "query-status", RESTORED, time.monotonic() + MOVE_S)
    except BaseException:
        if guests.running(guest, host):
            guests.kill(guest, host)
        raise
    return str(outcome["status"])
