# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Moves a guest from host to host while it runs. Its disk is the same on both, so only its memory and devices are
transferred."""

import time

from . import guest as guests
from .diagnosis import watching
from .errors import LabError
from .qmp import Qmp
from .state import State
from .topology import Guest

PORT = 4444
ANSWER_S = 30.0
MOVE_S = 300.0
LOOK_S = 0.1
BANDWIDTH = 128  # MiB per second, QEMU's default
CHANNEL = {"channel-type": "main"}
FINISHED = ("completed", "failed", "cancelled")


def _address(guest: Guest) -> dict:
    return {"transport": "socket", "type": "inet", "host": guest.host.ipv4, "port": str(PORT + guest.index)}


def acknowledged(state: bool) -> list[dict]:
    """Capabilities with which the guest does not stop before the destination has accepted what its device announces."""
    return [{"capability": name, "state": state} for name in ("return-path", "switchover-ack")]


def await_status(monitor: Qmp, query: str, finished: tuple[str, ...], deadline: float) -> dict:
    """Repeats a query until its status is one of these. Returns the answer."""
    while True:
        answer = monitor.execute(query)
        assert isinstance(answer, dict)
        if answer.get("status") in finished:
            return answer
        if time.monotonic() > deadline:
            raise LabError(f"the migration is not done after {MOVE_S:.0f} s: {answer}")
        time.sleep(LOOK_S)


def _hand_over(guest: str, here: Qmp, there: Qmp, channels: list[dict]) -> dict:
    """Transfers the guest; returns QEMU's report. Both QEMUs hold the guest until it runs there. If that fails, it
    continues here."""
    deadline = time.monotonic() + MOVE_S
    for side in (there, here):
        side.execute("migrate-set-capabilities", capabilities=acknowledged(True))
    there.execute("migrate-incoming", channels=channels)
    here.execute("migrate", channels=channels)
    outcome = await_status(here, "query-migrate", FINISHED, deadline)
    if outcome["status"] != "completed":
        stopped = "stopped meanwhile" if "STOP" in here.events else "did not stop"
        raise LabError(f"the migration has {outcome['status']}: {outcome.get('error-desc', '')}; {guest} {stopped}")
    try:
        await_status(there, "query-status", ("running",), deadline)
    except LabError:
        here.execute("cont")
        raise
    return outcome


def move(state: State, guest: Guest, moved: Guest, bandwidth: int | None) -> dict:
    """Moves `guest` to the place of `moved`, the same guest on its new host, with this number of MiB per second, or
    QEMU's default. Returns QEMU's report. After a failure the guest runs on its old host."""
    if not state.shape.movable:
        raise LabError("this lab's guests cannot move; it takes: ci/lab up --hosts 2 --movable")
    if guest.host == moved.host:
        raise LabError(f"{guest.name} is on {guest.host.name} already")
    source, target = state.address(guest.host), state.address(moved.host)
    with watching(state, moved.host):
        guests.start(moved, target, state.shape, state.with_vrdma, incoming=True)
    try:
        with watching(state, guest.host), guests.monitor(guest, source, ANSWER_S) as here, \
                guests.monitor(moved, target, ANSWER_S) as there:  # fmt: skip
            # QEMU keeps what it was given for an earlier move.
            here.execute("migrate-set-parameters", **{"max-bandwidth": (bandwidth or BANDWIDTH) << 20})
            outcome = _hand_over(guest.name, here, there, [{**CHANNEL, "addr": _address(moved)}])
    except BaseException:
        if guests.running(moved, target):
            guests.kill(moved, target)
        raise
    guests.kill(guest, source)
    if state.with_vrdma:
        guests.remove_mdev(guest, source)
    return outcome
