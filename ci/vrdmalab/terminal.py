# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The commands that connect the caller's terminal or pipes to a VM."""

from argparse import Namespace

from . import remote
from .diagnosis import watching
from .errors import LabError
from .state import current


def execute(options: Namespace) -> int:
    state = current()
    vm = state.find(options.name)
    with watching(state, vm):
        return remote.attach(state.address(vm), words(options))


def shell(options: Namespace) -> int:
    state = current()
    vm = state.find(options.name)
    with watching(state, vm):
        return remote.shell(state.address(vm), ["bash", "--login"])


def words(options: Namespace) -> list[str]:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise LabError("there is no command after the name")
    return command
