# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The command line of ci/lab."""

import argparse
import json
import signal
import sys

from . import copy, lab, remote, topology
from .errors import LabError
from .topology import Shape

# As ssh: no command of its own ends with it, so a caller can tell the lab's failure from the command's.
FAILED = 255


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # Whoever terminates an `up` wants its VMs gone too, so the clean-up has to run.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        options = _parser().parse_args(arguments)
        return options.run(options)
    except remote.Refused as error:
        print(f"ci/lab: {error}", file=sys.stderr)
        return error.status
    except LabError as error:
        print(f"ci/lab: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ci/lab", description="Emulated hosts with KVM guests to run vrdma in.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(run, text: str, *names: str) -> argparse.ArgumentParser:
        """A command, with its names of VMs as arguments."""
        command = commands.add_parser(run.__name__.strip("_"), help=text, description=text)
        command.set_defaults(run=run)
        for name in names:
            command.add_argument(name)
        return command

    _add_shape(add(_up, "boot a lab"))
    add(_status, "show the VMs and whether they answer").add_argument("--json", action="store_true")
    add(_exec, "run a command in a VM", "name").add_argument("command", nargs=argparse.REMAINDER)
    add(_shell, "open a shell in a VM", "name")
    add(_cp, "copy files and directories; NAME:PATH is in a VM", "source", "destination")
    add(_logs, "print a VM's console", "name")
    command = add(_monitor, "ask the QEMU of a VM", "name")
    command.add_argument("--timeout", type=float, default=30, metavar="SECONDS")
    command.add_argument("command", nargs=argparse.REMAINDER)
    add(_reboot, "reboot a guest's system and await it", "name")
    add(_kill, "kill a guest's QEMU with SIGKILL", "name")
    add(_start, "start a killed guest again and await it", "name")
    add(_push, "copy the build products into the VMs that run")
    add(_down, "stop all VMs and delete what they leave")
    return parser


def _add_shape(up: argparse.ArgumentParser) -> None:
    shape = Shape()
    up.add_argument("--hosts", type=_up_to(topology.MAX_HOSTS), default=shape.hosts, metavar="H",
                    help="number of hosts (default: %(default)s)")
    up.add_argument("--guests", type=_up_to(topology.MAX_GUESTS), default=shape.guests, metavar="G",
                    help="number of guests on each host (default: %(default)s)")
    up.add_argument("--packages", type=_names, default=(), metavar="A,B,…", help="more Debian packages")
    up.add_argument("--type", default=shape.type, help="type of the guests' mdevs (default: %(default)s)")
    up.add_argument("--guest-cpus", type=_up_to(16), default=shape.guest_cpus, metavar="N")
    up.add_argument("--guest-memory", type=_up_to(65536), default=shape.guest_memory, metavar="MIB")
    up.add_argument("--host-cpus", type=_up_to(64), default=shape.host_cpus, metavar="N")
    up.add_argument("--json", action="store_true", help="print the result as JSON")


def _up_to(limit: int):
    def number(text: str) -> int:
        value = int(text)
        if not 0 < value <= limit:
            raise argparse.ArgumentTypeError(f"{value} is not from 1 to {limit}")
        return value

    return number


def _names(text: str) -> tuple[str, ...]:
    return tuple(sorted({name for name in text.split(",") if name}))


def _up(options) -> int:
    shape = Shape(options.hosts, options.guests, options.packages, options.guest_cpus, options.guest_memory,
                  options.host_cpus, options.type)
    state, was_up = lab.up(shape)
    if was_up:
        print("the lab is up already", file=sys.stderr)
    vms = [lab.describe(state, vm) for vm in [*state.hosts, *state.guests]]
    if options.json:
        print(json.dumps({"vrdma": state.with_vrdma, "vms": vms}, indent=2))
    else:
        for vm in vms:
            print(f"{vm['name']:<8} {vm['ipv4']:<12} {vm['ipv6']}")
    return 0


def _status(options) -> int:
    state = lab.current()
    vms = lab.status(state)
    if options.json:
        print(json.dumps({"vrdma": state.with_vrdma, "vms": vms}, indent=2))
    else:
        for vm in vms:
            memory = f"{vm['memory'] >> 20} MiB" if "memory" in vm else ""
            print(f"{vm['name']:<8} {vm['state']:<12} {vm['ipv4']:<12} {vm['ipv6']:<12} {memory}".rstrip())
    return 0


def _exec(options) -> int:
    state = lab.current()
    vm = topology.find(state.shape, options.name)
    with lab.watching(state, vm):
        return remote.attach(state.address(vm), _command(options))


def _shell(options) -> int:
    state = lab.current()
    vm = topology.find(state.shape, options.name)
    with lab.watching(state, vm):
        return remote.shell(state.address(vm), ["bash", "--login"])


def _cp(options) -> int:
    copy.copy(lab.current(), options.source, options.destination)
    return 0


def _logs(options) -> int:
    sys.stdout.write(lab.logs(options.name))
    return 0


def _monitor(options) -> int:
    sys.stdout.write(lab.monitor(options.name, " ".join(_command(options)), options.timeout).replace("\r\n", "\n"))
    return 0


def _reboot(options) -> int:
    lab.reboot(options.name)
    return 0


def _kill(options) -> int:
    lab.kill(options.name)
    return 0


def _start(options) -> int:
    lab.start(options.name)
    return 0


def _push(_options) -> int:
    lab.push()
    return 0


def _down(_options) -> int:
    if not lab.down():
        print("the lab is not up", file=sys.stderr)
    return 0


def _command(options) -> list[str]:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise LabError("there is no command after the name")
    return command
