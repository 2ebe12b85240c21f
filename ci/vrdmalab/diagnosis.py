# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Finds the cause if a VM does not answer."""

from collections.abc import Iterator
from contextlib import contextmanager

from . import remote
from .errors import VmError
from .state import State
from .topology import Guest, Host

ANSWER_S = 10.0


@contextmanager
def watching(state: State, vm: Host | Guest) -> Iterator[None]:
    """Turns a broken connection to a VM into an error that names the VM at fault, with the end of its console."""
    try:
        yield
    except remote.Unreachable as error:
        raise _diagnosis(state, vm, str(error)) from error


def _diagnosis(state: State, vm: Host | Guest, reason: str) -> VmError:
    # Imported only here, because `exec` should start fast.
    from . import guest as guests
    from . import host as hosts

    host = vm.host if isinstance(vm, Guest) else vm
    # A second request also gives a dying process the time to end.
    what = "answers again: has it rebooted?" if _answers(state.address(vm)) else "does not answer"
    complaint = f"{what} ({reason})"
    last_words = hosts.last_words(state.directory, host)
    if not state.processes[host].alive():
        return VmError(host.name, "QEMU has died", last_words)
    if isinstance(vm, Host):
        return VmError(host.name, complaint, last_words)
    try:
        if not guests.running(vm, state.address(host)):
            complaint = "is not running"
        return VmError(vm.name, complaint, guests.console(vm, state.address(host)))
    except remote.Unreachable as error:
        return VmError(host.name, f"does not answer ({error})", last_words)


def _answers(address: remote.Address) -> bool:
    try:
        return remote.run(address, ["true"], timeout=ANSWER_S).returncode == 0
    except remote.Unreachable:
        return False
