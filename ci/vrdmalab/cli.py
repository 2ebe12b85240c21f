# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The command line of ci/lab, which calls the function of each command."""

import argparse
import importlib
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from . import releases, remote, topology
from .errors import LabError
from .topology import Shape

# As with ssh: commands hardly ever end with this status, so a caller can distinguish the lab's failure from theirs.
FAILED = 255


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # An `up` that is terminated must end its VMs, too, so the clean-up has to run.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = _parser().parse_args(arguments)
    # Imports only the module that the command needs: tests call `exec` a lot, and it needs little.
    module = importlib.import_module(f".{options.module}", __package__)
    try:
        return getattr(module, options.function)(options)
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

    def add(name: str, text: str, *vms: str, module: str = "commands") -> argparse.ArgumentParser:
        """Adds a command, with the VMs that it takes as arguments."""
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(module=module, function=name)
        for vm in vms:
            command.add_argument(vm)
        return command

    image = add("image", "build what a lab boots from, if it is not there")
    _add_packages(image)
    image.add_argument("--sockets", action="store_true", help="get the QEMU of guests without hosts, too")
    image.add_argument("--releases", type=_releases, default=(), metavar="R,S,…",
                       help="build the disks of these releases of Debian, too")
    _add_shape(add("up", "boot a lab"))
    add("status", "show the VMs and whether they answer").add_argument("--json", action="store_true")
    execute = add("exec", "run a command in a VM", "name", module="terminal")
    execute.set_defaults(function="execute")
    execute.add_argument("command", nargs=argparse.REMAINDER)
    add("shell", "open a shell in a VM", "name", module="terminal")
    add("cp", "copy a file or directory; NAME:PATH is in a VM", "source", "destination")
    add("logs", "print a VM's console", "name")
    monitor = add("monitor", "ask the QEMU of a VM", "name")
    monitor.add_argument("--timeout", type=float, default=30, metavar="SECONDS")
    monitor.add_argument("command", nargs=argparse.REMAINDER)
    add("reboot", "reboot a VM's system and await it", "name")
    add("kill", "kill a guest's QEMU with SIGKILL", "name")
    add("start", "start a guest that is not running, and await it", "name")
    migrate = add("migrate", "move a guest that runs to another host", "name", "host")
    migrate.add_argument("--bandwidth", type=_up_to(1 << 20), metavar="MIB",
                         help="what it may transfer in a second (default: QEMU's, 128)")
    note_move = add("note-move", "find a guest on the host to which another program has moved it", "name", "host")
    note_move.set_defaults(function="note_move")
    add("save", "save a guest to a file of its host, and end its QEMU", "name")
    add("restore", "continue a guest that was saved", "name")
    add("push", "copy the build products into the VMs that run")
    add("down", "stop all VMs and delete what they leave")
    return parser


def _add_shape(up: argparse.ArgumentParser) -> None:
    shape = Shape()
    up.add_argument("--hosts", type=_up_to(topology.MAX_HOSTS), default=shape.hosts, metavar="H",
                    help="number of hosts (default: %(default)s)")
    up.add_argument("--guests", type=_up_to(topology.MAX_GUESTS, 0), default=shape.guests, metavar="G",
                    help="number of guests on each host (default: %(default)s)")
    _add_packages(up)
    up.add_argument("--type", default=shape.type, help="type of the guests' mdevs (default: %(default)s)")
    up.add_argument("--guest-cpus", type=_up_to(16), default=shape.guest_cpus, metavar="N")
    up.add_argument("--guest-memory", type=_up_to(65536), default=shape.guest_memory, metavar="MIB")
    up.add_argument("--host-cpus", type=_up_to(64), default=shape.host_cpus, metavar="N")
    for vms in ("host", "guest"):
        up.add_argument(f"--{vms}-kernel", type=_directory, metavar="DIR",
                        help=f"the kernel of {vms}s, with its modules and vrdma's (default: Debian's)")
    up.add_argument("--host-release", choices=releases.RELEASES, default=shape.host_release,
                    help="the release of Debian of hosts (default: %(default)s)")
    up.add_argument("--guest-release", type=_releases, default=shape.guest_releases, metavar="R,S,…",
                    help=f"the releases of guest0, guest1, …, and again from the first (default: {releases.OWN})")
    up.add_argument("--sockets", type=_directory, metavar="DIR",
                    help="boot guests without hosts, whose devices are behind sockets of a vrdmad in this directory")
    up.add_argument("--pvrdma", type=_directory, metavar="MODULE",
                    help="the guests' devices are VMware's: guests get this driver for them (ci/pvrdma-module)")
    up.add_argument("--pvrdma-guests", type=_up_to(topology.MAX_GUESTS), metavar="N",
                    help="only those of so many guests, from guest0 on; the others' are vrdma's")
    up.add_argument("--iommufd", action="store_true",
                    help="open guests' devices by iommufd instead of VFIO's containers")
    up.add_argument("--movable", action="store_true", help="boot guests that can move to another host")
    up.add_argument("--json", action="store_true", help="print the result as JSON")


def _add_packages(command: argparse.ArgumentParser) -> None:
    command.add_argument("--packages", type=_names, default=(), metavar="A,B,…", help="more Debian packages")


def _up_to(limit: int, least: int = 1) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= limit:
            raise argparse.ArgumentTypeError(f"{value} is not from {least} to {limit}")
        return value

    return number


def _directory(text: str) -> str:
    return str(Path(text).absolute())


def _releases(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in releases.RELEASES:
            raise argparse.ArgumentTypeError(f"{name!r} is not among {', '.join(releases.RELEASES)}")
    return names


def _names(text: str) -> tuple[str, ...]:
    return tuple(sorted({name for name in text.split(",") if name}))
