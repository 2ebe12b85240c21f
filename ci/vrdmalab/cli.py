# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The command line of ci/lab."""

import argparse
import json
import sys

from . import lab, remote, topology
from .errors import LabError
from .topology import Shape


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except LabError as error:
        print(f"ci/lab: {error}", file=sys.stderr)
        return 255
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ci/lab", description="Hosts and guests to run vrdma in.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    up = add("up", _up, "boot a lab")
    up.add_argument("--hosts", type=int, default=1)
    up.add_argument("--guests", type=int, default=2)
    up.add_argument("--packages", default="")
    up.add_argument("--json", action="store_true")
    add("down", _down, "stop the lab")
    execute = add("exec", _exec, "run a command in a VM")
    execute.add_argument("name")
    execute.add_argument("command", nargs=argparse.REMAINDER)
    logs = add("logs", _logs, "print a VM's console")
    logs.add_argument("name")
    return parser


def _up(options) -> int:
    state, _ = lab.up(Shape(options.hosts, options.guests, tuple(filter(None, options.packages.split(",")))))
    for vm in [*state.hosts, *state.guests]:
        print(vm.name, vm.ipv4, vm.ipv6)
    return 0


def _down(_options) -> int:
    lab.down()
    return 0


def _exec(options) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    state = lab.current()
    vm = topology.find(state.shape, options.name)
    with lab.watching(state, vm):
        return remote.attach(state.address(vm), command)


def _logs(options) -> int:
    sys.stdout.write(lab.logs(options.name))
    return 0
